// SPDX-License-Identifier: Apache-2.0
// duet op on every op in one process; the command line around it is tested in tests/tool/op_round_trip.sh.
#include "cli/op.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/devices.h"
#include "cli/exit_status.h"
#include "core/registry.h"

namespace duet {
namespace {

using Json = nlohmann::ordered_json;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> members(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "int") return value.is_number_integer();
  if (type == "bool") return value.is_boolean();
  if (type == "float") return value.is_number_float();
  return value.is_string();
}

Json described(const std::string& op) {
  OpOptions options;
  options.op = op;
  options.describe = true;
  testing::internal::CaptureStdout();
  const int status = run_op(options);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(status, 0) << op;
  return Json::parse(text);
}

// tools/compare_pytorch and other programs read these members.
TEST(OpCommand, DescribesEveryOp) {
  for (const auto& [name, op] : ops()) {
    SCOPED_TRACE(name);
    const Json d = described(name);
    EXPECT_THAT(members(d),
                ElementsAre("op", "formula", "backward", "flops", "bytes", "attributes", "tensors", "implementations"));
    EXPECT_EQ(d["op"], name);
    EXPECT_NE(d["formula"], "");
    for (const Json& a : d["attributes"]) {
      EXPECT_THAT(members(a), ElementsAre("name", "type", "value", "doc"));
      EXPECT_TRUE(has_type(a["value"], a["type"])) << a;
      EXPECT_NE(a["doc"], "") << a;
    }
    for (const Json& t : d["tensors"]) {
      EXPECT_THAT(members(t), ElementsAre("name", "role", "dtype", "shape"));
      EXPECT_THAT(t["role"].get<std::string>(), AnyOf("in", "out", "inout"));
    }
    for (const Json& i : d["implementations"])
      EXPECT_THAT(members(i), AnyOf(ElementsAre("name"), ElementsAre("name", "reason"))) << i;
  }
}

// Of each implementation the first test case, by its label as it stands in the names of jobs.
TEST(OpCommand, ChecksEveryCpuImplementationByTheLabelOfItsCase) {
  for (const auto& [name, op] : ops()) {
    const std::vector<ProblemCase> cases = op.cases(Scale::test);
    ASSERT_FALSE(cases.empty()) << name;
    for (const Implementation* i : implementations(name)) {
      if (i->device != Device::cpu) continue;
      OpOptions options;
      options.op = name;
      options.implementation = i->name;
      options.case_text = cases.front().problem.label();
      options.check = true;
      testing::internal::CaptureStdout();
      testing::internal::CaptureStderr();
      const int status = run_op(options);
      const std::string out = testing::internal::GetCapturedStdout(), err = testing::internal::GetCapturedStderr();
      if (status == kUnsupported)
        EXPECT_THAT(err, HasSubstr(i->name)) << name;
      else
        EXPECT_THAT(out, HasSubstr("check: passed")) << name << " " << options.case_text << ": " << err;
      EXPECT_THAT(status, AnyOf(0, kUnsupported)) << name << " " << i->name;
    }
  }
}

}  // namespace
}  // namespace duet
