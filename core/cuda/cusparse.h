// SPDX-License-Identifier: Apache-2.0
// cuSPARSE: checks and owned descriptors.
#pragma once
#include <cusparse.h>

#include "core/cuda/gpu_context.h"
#include "core/cuda/handle.h"
#include "core/registration.h"

namespace duet::cuda {

void check(cusparseStatus_t status, const char* expression, const char* file, int line);  // throws Error
template <>
void log_failure(cusparseStatus_t status, const char* expression, const char* file, int line) noexcept;

using CusparseHandle = Owned<cusparseHandle_t, &cusparseDestroy>;
using CusparseMatrix = Owned<cusparseSpMatDescr_t, &cusparseDestroySpMat>;
using CusparseDense = Owned<cusparseDnMatDescr_t, &cusparseDestroyDnMat>;

}  // namespace duet::cuda

#define DUET_CUSPARSE(expression) ::duet::cuda::check((expression), #expression, __FILE__, __LINE__)
