// SPDX-License-Identifier: Apache-2.0
// This machine and its state, as the kernel reports them (/proc, /sys, system calls). Nothing is measured or guessed:
// what cannot be read is "unavailable", never 0. The run file and `duet doctor` show it; CpuSnapshot tells which
// samples were disturbed by other processes.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace duet {

inline constexpr const char* kUnavailable = "unavailable";

struct CpuCache {
  int level = 0;
  std::string type;  // Data, Instruction, Unified
  int64_t bytes = 0;
  int shared_by = 1;  // logical CPUs that share one of them
};

// Properties of the machine that do not change from run to run.
struct MachineInfo {
  std::string host_name, cpu_model, kernel;  // kernel: release, as 6.1.0-13-amd64
  int cores = 0;                             // logical CPUs online
  int64_t ram_bytes = 0;
  bool virtual_machine = false;
  std::vector<std::string> isa;  // the instruction sets that matter here and that it has, as named in /proc/cpuinfo
  std::vector<CpuCache> caches;  // of CPU 0, by level

  bool has(std::string_view extension) const;
  int64_t last_level_bytes() const;  // of the largest cache; 0 where no cache is described
  // What distinguishes machines: CPU model, cores, ISA, RAM in GiB, major version of the kernel. A run adds its GPU.
  std::vector<std::pair<std::string, std::string>> fingerprint_inputs() const;
};
std::string fingerprint(const std::vector<std::pair<std::string, std::string>>& inputs);  // 16 hex digits

// What may differ between runs.
struct MachineState {
  std::string governor = kUnavailable;  // performance, powersave, ...; of all CPUs, joined when they differ
  std::string turbo = kUnavailable;     // on, off
  std::string thp = kUnavailable;       // transparent huge pages: always, madvise, never
  std::string thp_defrag = kUnavailable;
  std::string aslr = kUnavailable;      // 0, 1, 2
  std::string smt = kUnavailable;       // on, off
  std::string affinity = kUnavailable;  // CPUs this process may use, as 0-3,8
  int affinity_cpus = 0;
  std::optional<double> cpu_quota;            // cores that the control group grants; none: no limit
  std::optional<int64_t> memory_limit_bytes;  // of the control group; none: no limit
  int64_t available_bytes = 0;                // memory that can be allocated without swapping
  std::vector<double> load;                   // means over 1, 5 and 15 minutes; empty: unavailable
};

// How many threads can run at the same time: the CPUs that the process may use, and no more than its quota grants. At
// least one.
int usable_threads(const MachineState& state);
int usable_threads();  // of this process

// What can be allocated: the memory that is available, and no more than the control group's limit.
int64_t allocatable_bytes(const MachineState& state);

// root: "" for this machine; tests pass the folder of an invented one.
MachineInfo read_machine(const std::string& root = {});
MachineState read_machine_state(const std::string& root = {});

// Time used by all CPUs since boot, in ticks of sysconf(_SC_CLK_TCK) (10 ms): too coarse for a sample, fine for a
// repetition.
struct CpuTimes {
  int64_t busy = 0;   // user, nice, system, irq, softirq
  int64_t steal = 0;  // the hypervisor ran other guests while a CPU of this one was ready
  int64_t total = 0;
};
CpuTimes read_cpu_times(const std::string& root = {});

// The CPU times at one moment. The difference of two snapshots tells which processes used the CPUs in between.
struct CpuSnapshot {
  CpuTimes machine;
  double own_s = 0;                  // CPU time of this process, all threads
  int64_t involuntary_switches = 0;  // how often one of its threads lost its CPU
  std::chrono::steady_clock::time_point at;
  static CpuSnapshot now();
};

struct CpuUse {
  double wall_s = 0;
  double own_cores = 0, foreign_cores = 0;    // CPU time per second of wall time: 1.0 is one core's worth
  double foreign_share = 0, steal_share = 0;  // of all CPUs' time
  int64_t involuntary_switches = 0;
};
CpuUse cpu_use(const CpuSnapshot& before, const CpuSnapshot& after);
double thread_cpu_s();  // CPU time of the calling thread

}  // namespace duet
