// SPDX-License-Identifier: Apache-2.0
// Checked CUDA runtime calls. Light enough for device code: no fmt.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace duet::cuda {

// Throws Error with expression, file, line and the API's text unless `status` is success. Errors after which every call
// fails are reported to core/gpu.h.
void check(cudaError_t status, const char* expression, const char* file, int line);
// The same for destructors, which must not throw: one line on standard error. cublas.h and cudnn.h add their status
// types.
template <class Status>
void log_failure(Status status, const char* expression, const char* file, int line) noexcept;
template <>
void log_failure(cudaError_t status, const char* expression, const char* file, int line) noexcept;

// Checked calls on this thread so far, library calls included: an estimate of how much has been enqueued.
int64_t checked_calls();
void count_checked_call();

[[noreturn]] void refuse(const std::string& text);  // throws Error

}  // namespace duet::cuda

#define DUET_CUDA(expression) ::duet::cuda::check((expression), #expression, __FILE__, __LINE__)
#define DUET_CUDA_LOG(expression) ::duet::cuda::log_failure((expression), #expression, __FILE__, __LINE__)
