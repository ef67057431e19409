// SPDX-License-Identifier: Apache-2.0
// Owned CUDA objects: move-only; a failure to destroy one is logged.
#pragma once
#include <cstdint>
#include <utility>

#include "core/cuda/check.h"

namespace duet::cuda {

// kDestroy: the function of the API that destroys a handle.
template <class Handle, auto kDestroy>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != Handle{}) log_failure(kDestroy(handle_), "releasing a handle", __FILE__, __LINE__);
  }
  Handle get() const { return handle_; }
  Handle* out() { return &handle_; }  // for the function that creates it; only while empty

 private:
  Handle handle_{};
};

using Stream = Owned<cudaStream_t, &cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, &cudaEventDestroy>;
using Graph = Owned<cudaGraph_t, &cudaGraphDestroy>;
using GraphExec = Owned<cudaGraphExec_t, &cudaGraphExecDestroy>;
using DeviceMemory = Owned<void*, &cudaFree>;
using PinnedMemory = Owned<void*, &cudaFreeHost>;

inline Stream make_stream() {
  Stream s;
  DUET_CUDA(cudaStreamCreateWithFlags(s.out(), cudaStreamNonBlocking));
  return s;
}
inline Event make_event(unsigned flags = cudaEventDefault) {
  Event e;
  DUET_CUDA(cudaEventCreateWithFlags(e.out(), flags));
  return e;
}
inline DeviceMemory device_memory(int64_t bytes) {
  DeviceMemory m;
  DUET_CUDA(cudaMalloc(m.out(), static_cast<size_t>(bytes)));
  return m;
}
inline PinnedMemory pinned_memory(int64_t bytes) {
  PinnedMemory m;
  DUET_CUDA(cudaMallocHost(m.out(), static_cast<size_t>(bytes)));
  return m;
}

}  // namespace duet::cuda
