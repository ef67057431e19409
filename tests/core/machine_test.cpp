// SPDX-License-Identifier: Apache-2.0
// Reads /proc and /sys of invented machines, and checks that the answers of this machine are plausible.
#include "core/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace duet {
namespace {

namespace fs = std::filesystem;

// A folder in place of the root of the file system; removed after the test.
class InventedMachine : public testing::Test {
 protected:
  InventedMachine() : root(fs::temp_directory_path() / ("duet_machine_" + std::to_string(::getpid()))) {
    fs::create_directories(root);
  }
  ~InventedMachine() override { fs::remove_all(root); }
  void put(const std::string& path, const std::string& text) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  fs::path root;
};

TEST_F(InventedMachine, AnEmptyMachineSaysUnavailable) {
  const MachineInfo m = read_machine(root);
  EXPECT_EQ(m.cpu_model, kUnavailable);
  EXPECT_EQ(m.kernel, kUnavailable);
  EXPECT_TRUE(m.caches.empty());
  EXPECT_EQ(m.last_level_bytes(), 0);
  const MachineState s = read_machine_state(root);
  for (const std::string& text : {s.governor, s.turbo, s.thp, s.thp_defrag, s.aslr, s.smt})
    EXPECT_EQ(text, kUnavailable);
  EXPECT_FALSE(s.cpu_quota);
  EXPECT_FALSE(s.memory_limit_bytes);
  EXPECT_TRUE(s.load.empty());
}

TEST_F(InventedMachine, ReadsTheMachine) {
  std::string cpuinfo;
  for (int i = 0; i < 4; ++i)
    cpuinfo += "processor\t: " + std::to_string(i) +
               "\nmodel name\t: Example CPU @ 2.00GHz\nflags\t\t: fpu avx2 fma avx512_bf16 hypervisor\n\n";
  put("proc/cpuinfo", cpuinfo);
  put("proc/meminfo", "MemTotal:       16303040 kB\nMemFree: 1 kB\nMemAvailable:    8151520 kB\n");
  put("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n");
  const std::string cache = "sys/devices/system/cpu/cpu0/cache/index";
  put(cache + "0/level", "2\n");
  put(cache + "0/type", "Unified\n");
  put(cache + "0/size", "1280K\n");
  put(cache + "0/shared_cpu_list", "0\n");
  put(cache + "1/level", "1\n");
  put(cache + "1/type", "Instruction\n");
  put(cache + "1/size", "32K\n");
  put(cache + "1/shared_cpu_list", "0-1,3\n");
  const MachineInfo m = read_machine(root);
  EXPECT_EQ(m.cpu_model, "Example CPU @ 2.00GHz");
  EXPECT_EQ(m.cores, 4);
  EXPECT_TRUE(m.virtual_machine);
  EXPECT_TRUE(m.has("avx512_bf16"));
  EXPECT_FALSE(m.has("avx512f"));
  EXPECT_EQ(m.ram_bytes, int64_t{16303040} * 1024);
  ASSERT_EQ(m.caches.size(), 2u);
  EXPECT_EQ(m.caches[0].level, 1);
  EXPECT_EQ(m.caches[0].shared_by, 3);
  EXPECT_EQ(m.last_level_bytes(), 1280 * 1024);
}

TEST_F(InventedMachine, ReadsTheState) {
  for (const char* cpu : {"cpu0", "cpu1"})
    put(std::string("sys/devices/system/cpu/") + cpu + "/cpufreq/scaling_governor", "powersave\n");
  put("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
  put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  put("proc/sys/kernel/randomize_va_space", "2\n");
  put("proc/loadavg", "1.50 0.75 0.25 3/300 4242\n");
  MachineState s = read_machine_state(root);
  EXPECT_EQ(s.governor, "powersave");
  EXPECT_EQ(s.turbo, "off");
  EXPECT_EQ(s.thp, "madvise");
  EXPECT_EQ(s.aslr, "2");
  EXPECT_EQ(s.load, (std::vector<double>{1.5, 0.75, 0.25}));
  put("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n");
  EXPECT_EQ(read_machine_state(root).governor, "performance+powersave");
}

TEST_F(InventedMachine, TheNarrowestQuotaOfAllParentGroupsCounts) {
  put("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  put("proc/self/cgroup", "0::/user.slice/job\n");
  put("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
  put("sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
  put("proc/meminfo", "MemTotal: 1048576 kB\n");
  put("sys/fs/cgroup/user.slice/memory.max", "536870912\n");
  put("sys/fs/cgroup/user.slice/job/memory.max", "max\n");
  const MachineState s = read_machine_state(root);
  ASSERT_TRUE(s.cpu_quota);
  EXPECT_EQ(*s.cpu_quota, 1.5);
  put("sys/fs/cgroup/user.slice/job/cpu.max", "50000 100000\n");
  EXPECT_EQ(read_machine_state(root).cpu_quota, 0.5);
  EXPECT_EQ(s.memory_limit_bytes, int64_t{536870912});
}

TEST(UsableThreads, AreWithinTheAffinityAndTheQuota) {
  MachineState s;
  s.affinity_cpus = 4;
  EXPECT_EQ(usable_threads(s), 4);
  s.cpu_quota = 8;
  EXPECT_EQ(usable_threads(s), 4);
  s.cpu_quota = 2.5;
  EXPECT_EQ(usable_threads(s), 2) << "a third thread would use up the quota of the others";
  s.cpu_quota = 0.5;
  EXPECT_EQ(usable_threads(s), 1);
  s.cpu_quota.reset();
  s.affinity_cpus = 1;
  EXPECT_EQ(usable_threads(s), 1);
}

TEST_F(InventedMachine, OldControlGroups) {
  put("proc/self/cgroup", "4:cpu,cpuacct:/box\n2:memory:/box\n");
  put("proc/meminfo", "MemTotal: 1048576 kB\n");
  put("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "50000\n");
  put("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n");  // "no limit" in version 1
  const MachineState s = read_machine_state(root);
  ASSERT_TRUE(s.cpu_quota);
  EXPECT_EQ(*s.cpu_quota, 0.5);
  EXPECT_FALSE(s.memory_limit_bytes);
  put("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
  EXPECT_FALSE(read_machine_state(root).cpu_quota);
}

TEST_F(InventedMachine, CountsTicks) {
  put("proc/stat", "cpu  100 10 40 800 50 3 7 20 90 0\ncpu0 1 1 1 1 1 1 1 1\n");
  const CpuTimes t = read_cpu_times(root);
  EXPECT_EQ(t.busy, 160);  // guest time (90) is part of user
  EXPECT_EQ(t.steal, 20);
  EXPECT_EQ(t.total, 1030);
}

TEST(CpuUse, SubtractsOwnTimeAndIsNeverNegative) {
  CpuSnapshot a, b;
  b.at = a.at + std::chrono::seconds(2);
  const auto ticks = [](double s) { return static_cast<int64_t>(s * static_cast<double>(sysconf(_SC_CLK_TCK))); };
  b.machine = {ticks(3), ticks(0.08), ticks(8)};  // four cores for two seconds
  b.own_s = 2;
  CpuUse use = cpu_use(a, b);
  EXPECT_DOUBLE_EQ(use.wall_s, 2);
  EXPECT_DOUBLE_EQ(use.own_cores, 1);
  EXPECT_DOUBLE_EQ(use.foreign_cores, 0.5);
  EXPECT_DOUBLE_EQ(use.foreign_share, 0.125);
  EXPECT_DOUBLE_EQ(use.steal_share, 0.01);
  b.own_s = 3.01;
  use = cpu_use(a, b);
  EXPECT_EQ(use.foreign_cores, 0);
  EXPECT_EQ(cpu_use(a, a).foreign_cores, 0);  // no time at all
}

TEST(ThisMachine, IsPlausible) {
  const MachineInfo m = read_machine();
  EXPECT_GE(m.cores, 1);
  EXPECT_GT(m.ram_bytes, int64_t{64} << 20);
  EXPECT_NE(m.cpu_model, "");
  const MachineState s = read_machine_state();
  EXPECT_GE(s.affinity_cpus, 1);
  EXPECT_LE(s.affinity_cpus, m.cores);
  EXPECT_GT(s.available_bytes, 0);
  EXPECT_GT(read_cpu_times().total, 0);
}

TEST(Fingerprint, DependsOnEveryInputAndOnNothingElse) {
  const MachineInfo m = read_machine();
  auto inputs = m.fingerprint_inputs();
  const std::string mine = fingerprint(inputs);
  EXPECT_EQ(mine.size(), 16u);
  EXPECT_EQ(mine, fingerprint(read_machine().fingerprint_inputs()));
  for (auto& [key, value] : inputs) {
    const std::string before = value;
    value += "x";
    EXPECT_NE(fingerprint(inputs), mine) << key;
    value = before;
  }
  EXPECT_NE(fingerprint({{"a", "bc"}}), fingerprint({{"ab", "c"}}));
}

}  // namespace
}  // namespace duet
