// SPDX-License-Identifier: Apache-2.0
// What a run file says of a series: its roof, and the flags that follow from it.
#include "bench/run_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace duet::bench {
namespace {

Json job(const char* device, const char* scope, double median_s) {
  return {{"device", device},
          {"dtype", "f32"},
          {"pattern", "copy"},
          {"footprint_bytes", 2000},
          {"flops", 0.0},
          {"bytes", 2000.0},
          {"series",
           {{{"scope", scope},
             {"cache", "warm"},
             {"threads", 1},
             {"summary", {{"median_s", median_s}}},
             {"flags", {"restored"}}}}}};
}
std::vector<Ceiling> ceilings() {
  const auto make = [](const char* name, const char* device, const char* pattern, double value, const char* unit) {
    Ceiling c;
    c.name = name;
    c.device = device;
    c.pattern = pattern;
    c.value = value;
    c.unit = unit;
    c.footprint_bytes = pattern[0] ? 2000 : 0;
    return c;
  };
  return {make("cpu.copy", "cpu", "copy", 1e9, "B/s"), make("gpu.copy", "gpu", "copy", 1e9, "B/s"),
          make("gpu.launch", "gpu", "", 8e-6, "s"), make("gpu.empty_kernel", "gpu", "", 1e-6, "s")};
}
std::vector<std::string> flags(Json j) {
  hold_against(ceilings(), j);
  return j["series"][0]["flags"];
}
using Flags = std::vector<std::string>;

TEST(RunFile, ARowAboveItsRoofIsSuspect) {
  EXPECT_EQ(flags(job("cpu", "call", 2.0e-6)), Flags({"restored"}));
  EXPECT_EQ(flags(job("cpu", "call", 1.96e-6)), Flags({"restored"})) << "within the ceiling's own spread";
  EXPECT_EQ(flags(job("cpu", "call", 1.9e-6)), Flags({"restored", "suspect"}));
}
TEST(RunFile, ACpuFarBelowItsRoofIsWeak) {
  EXPECT_EQ(flags(job("cpu", "call", 5.1e-6)), Flags({"restored", "weak_cpu"}));
  EXPECT_EQ(flags(job("gpu", "call", 5.1e-6)), Flags({"restored"}));
}
TEST(RunFile, AKernelNearAnEmptyOneIsAtTheFloor) {
  EXPECT_EQ(flags(job("gpu", "kernel", 2.9e-6)), Flags({"restored", "floor"}));
  EXPECT_EQ(flags(job("gpu", "kernel", 3.1e-6)), Flags({"restored"})) << "held against a launch with its wait";
}
TEST(RunFile, TheEndToEndScopeHasNoDeviceRoof) {
  Json j = job("gpu", "end_to_end", 1e-9);
  hold_against(ceilings(), j);
  EXPECT_TRUE(j["series"][0]["roof"].is_null());
}
TEST(RunFile, OnlyFiniteNumbersEnter) {
  EXPECT_NO_THROW(require_finite({{"a", {1.0, 2}}}, "x"));
  EXPECT_THROW(require_finite({{"a", {1.0, std::nan("")}}}, "x"), Error);
  EXPECT_THROW(require_finite({{"a", std::numeric_limits<double>::infinity()}}, "x"), Error);
}
TEST(RunFile, ContendedRepetitionsCountOnlyWhereTooFewAreClean) {
  const auto repetition = [](double t, bool contended) {
    Repetition r;
    r.samples_s = {t, t, t};
    if (contended) r.flags = {"contended"};
    return r;
  };
  const Summary clean =
      summarise({repetition(1, false), repetition(2, false), repetition(3, false), repetition(90, true)});
  EXPECT_EQ(clean.median_s, 2);
  EXPECT_EQ(clean.hi_s, 3);
  const Summary all = summarise({repetition(1, false), repetition(2, true), repetition(3, true)});
  EXPECT_EQ(all.median_s, 2);
  EXPECT_EQ(all.hi_s, 3);
  EXPECT_NE(summarise({repetition(1, false)}).interval.find("one repetition"), std::string::npos);
}

}  // namespace
}  // namespace duet::bench
