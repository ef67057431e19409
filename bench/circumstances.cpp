// SPDX-License-Identifier: Apache-2.0
#include "bench/circumstances.h"

#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "core/build_info.h"
#include "core/context.h"
#include "results/rules.h"

namespace duet::bench {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// Environment variables that change how the libraries run, and their effect.
constexpr struct {
  const char *name, *effect;
  bool spoils_ratios = false;
} kVariables[] = {
    {"OPENBLAS_NUM_THREADS", "limits OpenBLAS's threads: unset it, --threads decides"},
    {"GOTO_NUM_THREADS", "limits OpenBLAS's threads: unset it, --threads decides"},
    {"OMP_NUM_THREADS", "limits the threads of OpenBLAS and OpenMP: unset it, --threads decides"},
    {"OMP_THREAD_LIMIT", "limits the threads of OpenMP: unset it"},
    {"OMP_PROC_BIND", "pins OpenMP threads, which then compete with those of oneTBB: unset it"},
    {"GOMP_CPU_AFFINITY", "pins OpenMP threads, which then compete with those of oneTBB: unset it"},
    {"LD_PRELOAD", "loads other code, perhaps another allocator, into every program"},
    {"CUDA_LAUNCH_BLOCKING", "makes every kernel launch wait: call times are wrong", true},
    {"CUDA_VISIBLE_DEVICES", "hides or reorders GPUs"},
    {"DUET_LAST_LEVEL_BYTES", "decides which results are written past the caches: unset it, it is for tests"},
    {"NVIDIA_TF32_OVERRIDE", "changes the arithmetic of f32: rows would be labelled wrongly", true},
};

void check_load(const Circumstances& c, std::vector<Finding>& found) {
  constexpr double kMaxLoad = 0.5;
  if (!c.state.load.empty() && c.state.load[0] > kMaxLoad)
    found.push_back(
        {"load", fmt::format("{:.2f} over the last minute", c.state.load[0]),
         "other work takes CPU time, and parallel loops wait for their slowest thread: wait until it is done"});
  if (results::contended(c.probe.foreign_cores, c.probe.steal_share))
    found.push_back({"foreign CPU",
                     fmt::format("{:.2f} cores during a probe of {:.1f} s", c.probe.foreign_cores, c.probe.wall_s),
                     "another process is running now; top shows which"});
  const double boot_steal =
      c.since_boot.total > 0 ? static_cast<double>(c.since_boot.steal) / static_cast<double>(c.since_boot.total) : 0;
  if (const double steal = std::max(c.probe.steal_share, boot_steal); steal > results::kContendedSteal)
    found.push_back({"steal", fmt::format("{:.1f} %", 100 * steal),
                     "the hypervisor gives CPU time of this machine to others: use one that is not shared"});
}

void check_cpu(const Circumstances& c, std::vector<Finding>& found) {
  if (c.state.governor != kUnavailable && c.state.governor != "performance")
    found.push_back(
        {"governor", c.state.governor, "the clock follows the load: cpupower frequency-set -g performance"});
  if (c.state.affinity_cpus > 0 && c.state.affinity_cpus < c.machine.cores)
    found.push_back({"affinity", fmt::format("CPUs {} of {}", c.state.affinity, c.machine.cores),
                     "the CPU side is not all cores: start without taskset or a CPU set"});
  if (c.state.cpu_quota && *c.state.cpu_quota < c.machine.cores)
    found.push_back({"cpu quota", fmt::format("{:.3g} of {} cores", *c.state.cpu_quota, c.machine.cores),
                     "the control group stops threads for the rest of each period: lift the quota or lower --threads"});
  if (c.machine.has("avx2")) {
    const std::string& core = c.blas_core;
    const bool wide = core == "SkylakeX" || core == "Cooperlake" || core == "Sapphirerapids";
    const bool avx2 = wide || core == "Haswell" || core == "Zen";
    if (!avx2 || (!wide && c.machine.has("avx512f") && c.machine.has("avx512dq")))
      found.push_back({"OpenBLAS core", core.empty() ? "unknown" : core,
                       fmt::format("kernels for older CPUs make cpu.openblas slow: OPENBLAS_CORETYPE={}",
                                   c.machine.has("avx512f") ? "SkylakeX" : "Haswell")});
  }
}

void check_memory(const Circumstances& c, std::vector<Finding>& found) {
  if (c.state.thp == "never")
    found.push_back({"huge pages", "transparent huge pages are off",
                     "memory rates are lower: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"});
  else if (c.huge_bytes >= 0 && c.huge_bytes < kHugeProbe / 2)
    found.push_back({"huge pages", fmt::format("{} of {} MiB were given", c.huge_bytes >> 20, kHugeProbe >> 20),
                     "memory is fragmented or the kernel refuses: memory rates are lower"});
  const int64_t usable = allocatable_bytes(c.state);
  if (usable > 0 && usable < 4 * kGiB)
    found.push_back({"memory", fmt::format("{:.1f} GB available", static_cast<double>(usable) * 1e-9),
                     "large cases are skipped for lack of memory"});
}

void check_gpu(const GpuUse& use, std::vector<Finding>& found) {
  constexpr size_t kShown = 4;
  if (!use.others.empty()) {
    std::string list;
    for (size_t i = 0; i < std::min(kShown, use.others.size()); ++i) {
      const GpuUse::Process& p = use.others[i];
      if (p.pid == 0) continue;
      list +=
          fmt::format("{}{}{}", list.empty() ? ": " : ", ", p.pid,
                      p.memory_bytes ? fmt::format(" ({:.1f} GB)", static_cast<double>(*p.memory_bytes) * 1e-9) : "");
    }
    if (use.others.size() > kShown && !list.empty()) list += ", ...";
    found.push_back(
        {"GPU in use",
         fmt::format("by {} other process{}{}", use.others.size(), use.others.size() == 1 ? "" : "es", list),
         "they take its time, memory and power: end them, or take another GPU with --gpu"});
  }
  if (use.mig)
    found.push_back({"MIG", "the GPU is divided into instances",
                     "rows and ceilings are those of one instance, and the others share its memory's bandwidth, power "
                     "and clocks: state the instance beside each figure"});
}

void check_build(const Circumstances& c, std::vector<Finding>& found) {
  if (c.build_type != "Release" && c.build_type != "RelWithDebInfo")
    found.push_back({"build", c.build_type, "not optimised: cmake --preset release", true});
  if (c.build_flags.find("-fsanitize") != c.build_flags.npos)
    found.push_back({"sanitizers", c.build_flags.substr(c.build_flags.find("-fsanitize")),
                     "for finding bugs, not for timing", true});
}

// Bytes of the mapping at `address` that lie in huge pages; negative where the kernel does not say.
int64_t huge_bytes_at(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t first = 0, last = 0;
    char dash = 0;
    std::istringstream range(line);
    if (line.find('-') < line.find(' ') && range >> std::hex >> first >> dash >> last && dash == '-')
      inside = first <= wanted && wanted < last;
    else if (inside && line.starts_with("AnonHugePages:"))
      return std::strtoll(line.c_str() + sizeof "AnonHugePages:", nullptr, 10) << 10;
  }
  return -1;
}

// Of a buffer as an op of the CPU has it.
int64_t huge_bytes_given(Context& cpu) {
  const Buffer memory(cpu, kHugeProbe);
  return std::min(kHugeProbe, huge_bytes_at(memory.data()));
}

}  // namespace

Circumstances circumstances(Context* cpu, Context* gpu) {
  return {.machine = read_machine(),
          .state = read_machine_state(),
          .probe = {},
          .since_boot = read_cpu_times(),
          .build_type = build_info().type,
          .build_flags = build_info().flags,
          .blas_core = openblas_get_corename(),
          .environment = [](const char* name) -> const char* { return std::getenv(name); },
          .gpu = gpu ? gpu_use(*gpu) : std::nullopt,
          .huge_bytes = cpu ? huge_bytes_given(*cpu) : -1};
}

std::vector<Finding> measurement_warnings(const Circumstances& here) {
  std::vector<Finding> found;
  check_load(here, found);
  check_cpu(here, found);
  check_memory(here, found);
  for (const auto& v : kVariables)
    if (const char* value = here.environment(v.name))
      found.push_back({v.name, fmt::format("'{}'", value), v.effect, v.spoils_ratios});
  if (const char* policy = here.environment("OMP_WAIT_POLICY"); policy && std::string_view(policy) == "active")
    found.push_back(
        {"OMP_WAIT_POLICY", "'active'", "idle OpenMP threads spin and take cores from those of oneTBB: unset it"});
  if (here.gpu) check_gpu(*here.gpu, found);
  check_build(here, found);
  return found;
}

}  // namespace duet::bench
