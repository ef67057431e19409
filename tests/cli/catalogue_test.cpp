// SPDX-License-Identifier: Apache-2.0
// The comparison of the catalogue with the registry sees what is missing. Whether anything is missing is the test
// catalogue.coverage.
#include "cli/catalogue.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "core/error.h"
#include "core/registry.h"

namespace duet {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kNoExceptions = "";

// "op: what" of each entry, with " (reason)" where there is one. `op`: members of softmax besides its name.
std::vector<std::string> missing(const std::string& op, const std::string& exceptions = kNoExceptions,
                                 const std::string& name = "softmax") {
  const std::string text = fmt::format(R"({{"implementations": ["cpu.tuned", "cuda.naive"], "dtypes": ["f32", "bf16"],
                       "ops": [{{"op": "{}", "attributes": ["rows", "cols"]{}}}], "exceptions": [{}]}})",
                                       name, op, exceptions);
  std::vector<std::string> all;
  for (const Missing& m : missing_of(text))
    all.push_back(fmt::format("{}: {}{}", m.op, m.what, m.reason.empty() ? "" : " (" + m.reason + ")"));
  return all;
}
std::vector<std::string> missing_shapes(const std::string& list) { return missing(R"(, "shapes": [)" + list + "]"); }

TEST(Catalogue, NothingIsMissing) {
  EXPECT_THAT(missing(R"(, "also": ["cuda.cudnn"])"), IsEmpty());
  EXPECT_THAT(missing_shapes(R"({"source": "s", "cases": ["rows:256 cols:1000", "cols:67"]})"), IsEmpty());
  EXPECT_THAT(missing_shapes(R"({"source": "s", "cases": ["cols:1024"], "across": {"rows": ["1", "8192"]}})"),
              IsEmpty());
}

TEST(Catalogue, WhatIsMissingIsSeen) {
  EXPECT_THAT(missing(R"(, "also": ["cuda.magic"])", "", "no_such_op"), ElementsAre("no_such_op: op"));
  EXPECT_THAT(missing(R"(, "also": ["cuda.magic"])"), ElementsAre("softmax: implementation cuda.magic"));
  EXPECT_THAT(missing(R"(, "dtypes": ["f32", "i8"])"), ElementsAre("softmax: dtype i8"));
  EXPECT_THAT(missing("", "", "relu"), ElementsAre("relu: attribute rows", "relu: attribute cols"));
}

// Each implementation of Duet's own is to serve each type. OpenBLAS, taken for one here, has no product of 8 bits.
TEST(Catalogue, ATypeThatAnImplementationDoesNotServeIsSeen) {
  if (!find_implementation("gemm", "cpu.openblas")) GTEST_SKIP() << "OpenBLAS is not built in";
  EXPECT_THAT(missing(R"(, "implementations": ["cpu.openblas", "cpu.tuned"], "dtypes": ["f32", "i8"])", "", "gemm"),
              ElementsAre("gemm: dtype i8 of cpu.openblas", "gemm: attribute rows", "gemm: attribute cols"));
}

TEST(Catalogue, AShapeThatIsMissingIsSeen) {
  EXPECT_THAT(missing_shapes(R"({"source": "s", "cases": ["rows:257 cols:33"]})"),  // a test has it: not published
              ElementsAre("softmax: shape rows:257 cols:33"));
  EXPECT_THAT(missing_shapes(R"({"source": "s", "cases": ["cols:1000"], "across": {"rows": ["256", "255"]}})"),
              ElementsAre("softmax: shape cols:1000 rows:255"));
  EXPECT_THAT(missing_shapes(R"({"source": "s", "cases": [""], "across": {"depth": ["1"]}})"),
              ElementsAre("softmax: shape depth:1"));
}

TEST(Catalogue, AnExceptionGivesTheReason) {
  const std::string exception = R"({"op": "softmax", "missing": "dtype i8", "reason": "why"})";
  EXPECT_THAT(missing(R"(, "dtypes": ["i8"])", exception), ElementsAre("softmax: dtype i8 (why)"));
  EXPECT_THAT(missing("", exception), ElementsAre("softmax: exception 'dtype i8' that is not needed"));
  EXPECT_THROW(missing("", exception + ", " + exception), Error);
  EXPECT_THROW(missing("", R"({"op": "softmax", "missing": "op", "reason": ""})"), Error);
}

TEST(Catalogue, OtherTextIsRefused) {
  EXPECT_THROW(missing_of("{}"), Error);
  EXPECT_THROW(missing_of("{"), Error);
  EXPECT_THROW(missing(R"(, "shapes": [{"source": "s"}])"), Error);
}

}  // namespace
}  // namespace duet
