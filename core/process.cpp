// SPDX-License-Identifier: Apache-2.0
#include "core/process.h"

#include <unistd.h>

#include <cstdlib>

namespace duet {

void prepare_process(int, char** argv) {
  bool changed = false;
  const auto propose = [&](const char* name, const char* value) {
    if (std::getenv(name)) return;
    setenv(name, value, 1);
    changed = true;
  };
  propose("OMP_WAIT_POLICY", "passive");
  propose("CUDA_MODULE_LOADING", "EAGER");
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq"))
    propose("OPENBLAS_CORETYPE", "SkylakeX");
  else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    propose("OPENBLAS_CORETYPE", "Haswell");
  if (changed) execv("/proc/self/exe", argv);  // returns only on failure; the program then runs with the defaults
}

}  // namespace duet
