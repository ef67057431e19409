#include "core/process.h"

#include <unistd.h>

#include <cstdlib>

namespace duet {

void prepare_process(int, char** argv) {
  constexpr const char* kDone = "DUET_PREPARED";
  if (std::getenv(kDone)) return;
  setenv(kDone, "1", 1);
  setenv("OMP_WAIT_POLICY", "passive", 0);
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq"))
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
  else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    setenv("OPENBLAS_CORETYPE", "Haswell", 0);
  execv("/proc/self/exe", argv);  // returns only on failure, and then the defaults serve
}

}  // namespace duet
