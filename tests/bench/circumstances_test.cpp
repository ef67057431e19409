// SPDX-License-Identifier: Apache-2.0
// The warnings of a run and of `duet doctor`: a machine without fault has none, and each planted fault is named.
#include "bench/circumstances.h"

#include <gtest/gtest.h>

#include <map>

namespace duet::bench {
namespace {

Circumstances quiet() {
  Circumstances c;
  c.machine.cores = 4;
  c.machine.isa = {"avx2", "fma", "avx512f", "avx512dq"};
  c.state.governor = "performance";
  c.state.thp = "madvise";
  c.state.affinity = "0-3";
  c.state.affinity_cpus = 4;
  c.state.available_bytes = int64_t{16} << 30;
  c.state.load = {0.1, 0.5, 3};
  c.probe.wall_s = 0.5;
  c.since_boot = {500, 1, 1000};
  c.build_type = "Release";
  c.build_flags = "-O3 -DNDEBUG";
  c.blas_core = "SkylakeX";
  c.environment = [](const char*) -> const char* { return nullptr; };
  c.huge_bytes = 8 << 20;
  return c;
}

TEST(Circumstances, AQuietMachineRaisesNoWarning) { EXPECT_TRUE(measurement_warnings(quiet()).empty()); }

TEST(Circumstances, WhatCannotBeReadRaisesNoWarning) {
  Circumstances c = quiet();
  c.state.governor = c.state.thp = kUnavailable;
  c.state.load.clear();
  c.huge_bytes = -1;
  EXPECT_TRUE(measurement_warnings(c).empty());
}

TEST(Circumstances, NamesEachFault) {
  const std::map<std::string, std::vector<std::function<void(Circumstances&)>>> faults{
      {"load", {[](auto& c) { c.state.load[0] = 1.5; }}},
      {"foreign CPU", {[](auto& c) { c.probe.foreign_cores = 0.2; }}},
      {"steal", {[](auto& c) { c.since_boot.steal = 50; }}},
      {"governor", {[](auto& c) { c.state.governor = "powersave"; }}},
      {"affinity", {[](auto& c) { c.state.affinity_cpus = 2; }}},
      {"cpu quota", {[](auto& c) { c.state.cpu_quota = 1.5; }}},
      {"OpenBLAS core", {[](auto& c) { c.blas_core = "Prescott"; }, [](auto& c) { c.blas_core = "Haswell"; }}},
      {"huge pages", {[](auto& c) { c.state.thp = "never"; }, [](auto& c) { c.huge_bytes = 0; }}},
      {"memory", {[](auto& c) { c.state.memory_limit_bytes = 1 << 30; }}},
      {"GPU in use", {[](auto& c) { c.gpu.emplace().others.resize(1); }}},
      {"MIG", {[](auto& c) { c.gpu.emplace().mig = true; }}},
      {"build", {[](auto& c) { c.build_type = "Debug"; }}},
      {"sanitizers", {[](auto& c) { c.build_flags += " -fsanitize=address"; }}},
  };
  for (const auto& [name, ways] : faults)
    for (const auto& plant : ways) {
      Circumstances c = quiet();
      plant(c);
      const std::vector<Finding> found = measurement_warnings(c);
      ASSERT_EQ(found.size(), 1u) << name;
      EXPECT_EQ(found[0].name, name);
      EXPECT_FALSE(found[0].advice.empty()) << name;
    }
}

TEST(Circumstances, NamesThoseWhoUseTheGpu) {
  Circumstances c = quiet();
  c.gpu.emplace();
  EXPECT_TRUE(measurement_warnings(c).empty()) << "only this run uses it";
  c.gpu->others = {{.pid = 7, .memory_bytes = 1'500'000'000}, {.pid = 8, .memory_bytes = {}}};
  EXPECT_EQ(measurement_warnings(c).at(0).value, "by 2 other processes: 7 (1.5 GB), 8");
  c.gpu->others.resize(6, {.pid = 9, .memory_bytes = {}});
  EXPECT_EQ(measurement_warnings(c).at(0).value, "by 6 other processes: 7 (1.5 GB), 8, 9, 9, ...");
  c.gpu->others.assign(1, {});
  EXPECT_EQ(measurement_warnings(c).at(0).value, "by 1 other process") << "of an unknown number";
}

TEST(Circumstances, NamesVariablesThatChangeLibraries) {
  for (const char* name : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "CUDA_LAUNCH_BLOCKING", "NVIDIA_TF32_OVERRIDE",
                           "LD_PRELOAD", "DUET_LAST_LEVEL_BYTES"}) {
    Circumstances c = quiet();
    c.environment = [name](const char* asked) -> const char* { return std::string(asked) == name ? "1" : nullptr; };
    const std::vector<Finding> found = measurement_warnings(c);
    ASSERT_EQ(found.size(), 1u) << name;
    EXPECT_EQ(found[0].name, name);
  }
  Circumstances c = quiet();
  const char* policy = "passive";  // what we set ourselves
  c.environment = [&](const char* asked) -> const char* {
    return std::string(asked) == "OMP_WAIT_POLICY" ? policy : nullptr;
  };
  EXPECT_TRUE(measurement_warnings(c).empty());
  policy = "active";
  EXPECT_EQ(measurement_warnings(c).size(), 1u);
}

}  // namespace
}  // namespace duet::bench
