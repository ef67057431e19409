// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/check.h"

#include <cstdio>

#include "core/error.h"
#include "core/gpu.h"

namespace duet::cuda {
namespace {
thread_local int64_t calls = 0;

// After such an error the context is lost: every later call returns the same code.
bool is_sticky(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorExternalDevice:
    case cudaErrorMpsClientTerminated:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

std::string describe(cudaError_t status, const char* expression, const char* file, int line) {
  return fmt::format("{}: {} ({}) at {}:{}", expression, cudaGetErrorString(status), cudaGetErrorName(status), file,
                     line);
}
}  // namespace

void check(cudaError_t status, const char* expression, const char* file, int line) {
  if (status == cudaSuccess) return count_checked_call();
  cudaGetLastError();  // clears an error that is not sticky, so that the next call does not report it again
  const std::string text = describe(status, expression, file, line);
  if (is_sticky(status)) {
    require_usable_gpu();  // lost before: its first error is the reason, here as for calls that ask beforehand
    report_lost_gpu(text);
  }
  throw Error(text);
}

template <>
void log_failure(cudaError_t status, const char* expression, const char* file, int line) noexcept {
  if (status == cudaSuccess || status == cudaErrorCudartUnloading) return;
  cudaGetLastError();
  try {
    const std::string text = describe(status, expression, file, line);
    if (is_sticky(status)) report_lost_gpu(text);
    std::fprintf(stderr, "duet: %s\n", text.c_str());
  } catch (...) {  // out of memory: the message cannot be made
  }
}

int64_t checked_calls() { return calls; }
void count_checked_call() { ++calls; }

void refuse(const std::string& text) { throw Error(text); }

}  // namespace duet::cuda
