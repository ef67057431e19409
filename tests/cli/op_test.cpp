// SPDX-License-Identifier: Apache-2.0
// duet op on every op in one process; the command line around it is tested in tests/tool/op_round_trip.sh.
#include "cli/op.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

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

// The first test case of an op, and of its small ones the first with each option.
std::vector<std::string> labels_with_every_option(const std::string& name, const Op& op) {
  constexpr int64_t kSmallBytes = 1 << 16;
  std::set<std::string> seen;
  std::vector<std::string> labels;
  for (const ProblemCase& c : op.cases(Scale::test)) {
    bool is_new = labels.empty();
    if (int64_t bytes = 0; !is_new) {
      for (const TensorSpec& t : c.problem.tensors()) bytes += t.bytes();
      if (bytes == 0 || bytes > kSmallBytes) continue;
    }
    for (const Attribute& a : c.problem.attributes())
      if (!a.dimension && !a.is_default) is_new |= seen.insert(a.name).second;
    if (is_new) labels.push_back(c.problem.label());
  }
  EXPECT_FALSE(labels.empty()) << name;
  return labels;
}

// Each implementation by labels as they stand in the names of jobs.
TEST(OpCommand, ChecksEveryCpuImplementationByTheLabelOfItsCase) {
  for (const auto& [name, op] : ops()) {
    const std::vector<std::string> labels = labels_with_every_option(name, op);
    for (const Implementation* i : implementations(name)) {
      if (i->device != Device::cpu) continue;
      for (const std::string& label : labels) {
        OpOptions options;
        options.op = name;
        options.implementation = i->name;
        options.case_text = label;
        options.check = true;
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        const int status = run_op(options);
        const std::string out = testing::internal::GetCapturedStdout(), err = testing::internal::GetCapturedStderr();
        if (status == kUnsupported)
          EXPECT_THAT(err, HasSubstr(i->name)) << name;
        else
          EXPECT_THAT(out, HasSubstr("check: passed")) << name << " " << label << ": " << err;
        EXPECT_THAT(status, AnyOf(0, kUnsupported)) << name << " " << i->name;
      }
    }
  }
}

}  // namespace
}  // namespace duet
