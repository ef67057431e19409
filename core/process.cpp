// SPDX-License-Identifier: Apache-2.0
#include "core/process.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace duet {
namespace {

// The number after `name` in a file of lines "name number".
std::optional<int64_t> counter(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  int64_t value = 0;
  for (std::string key; file >> key >> value;)
    if (key == name) return value;
  return {};
}

}  // namespace

std::optional<int64_t> memory_kills() {
  // Lines "0::/path" (version 2) and "4:memory:/path" (version 1). In a container the path may start at its own group.
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    for (const std::string& folder : {path, std::string()}) {
      std::optional<int64_t> kills;
      if (controllers.empty()) kills = counter("/sys/fs/cgroup" + folder + "/memory.events", "oom_kill");
      if (controllers == "memory")
        kills = counter("/sys/fs/cgroup/memory" + folder + "/memory.oom_control", "oom_kill");
      if (kills) return kills;
    }
  }
  return counter("/proc/vmstat", "oom_kill");
}

void prepare_process(int, char** argv) {
  bool changed = false;
  const auto propose = [&](const char* name, const char* value) {
    if (std::getenv(name)) return;
    setenv(name, value, 1);
    changed = true;
  };
  propose("OMP_WAIT_POLICY", "passive");
  // OpenBLAS's idle threads look for work for 2^20 cycles, 0.3 to 0.5 ms, in place of 2^26, in which they would take
  // cores from the probe and from the row that come next.
  propose("OPENBLAS_THREAD_TIMEOUT", "20");
  propose("CUDA_MODULE_LOADING", "EAGER");
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq"))
    propose("OPENBLAS_CORETYPE", "SkylakeX");
  else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    propose("OPENBLAS_CORETYPE", "Haswell");
  if (changed) execv("/proc/self/exe", argv);  // returns only on failure; the program then runs with the defaults
}

}  // namespace duet
