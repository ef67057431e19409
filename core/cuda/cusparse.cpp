// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/cusparse.h"

#include <cstdio>

#include "core/error.h"

namespace duet::cuda {

void check(cusparseStatus_t status, const char* expression, const char* file, int line) {
  if (status == CUSPARSE_STATUS_SUCCESS) return count_checked_call();
  DUET_CUDA(cudaGetLastError());  // throws a clearer message where a CUDA error is the cause
  throw Error("{}: {} ({}) at {}:{}", expression, cusparseGetErrorString(status), cusparseGetErrorName(status), file,
              line);
}

template <>
void log_failure(cusparseStatus_t status, const char* expression, const char* file, int line) noexcept {
  if (status != CUSPARSE_STATUS_SUCCESS)
    std::fprintf(stderr, "duet: %s: %s at %s:%d\n", expression, cusparseGetErrorString(status), file, line);
}

}  // namespace duet::cuda
