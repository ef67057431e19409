// SPDX-License-Identifier: Apache-2.0
// What the functions of the CUDA runtime have in common. runtime.cpp has memory, copies and launches,
// runtime_streams.cpp streams, events and graphs, runtime_textures.cpp textures, runtime_device.cpp the device's
// properties.
//
// Rules of CUDA that are kept: a failed kernel loses the device for good; a capture refuses what waits, allocates or
// releases; a copy from pageable memory has read it on return, one from pinned memory reads it when it runs.
#pragma once
#include <cuda_runtime_api.h>

#include <mutex>
#include <string>

#include "softgpu/device.h"

namespace duet::softgpu {

std::recursive_mutex& runtime_mutex();
inline Device& device() { return Device::get(); }

// The call is answered with this status; cudaGetLastError and the text of errors tell it.
cudaError_t refuse(cudaError_t status, std::string message = "");
cudaError_t lost();  // what every call is answered with once a kernel has failed
cudaError_t lose(const std::string& text, Fault::Kind kind);

// Runs the body of an API call.
template <class F>
cudaError_t call(F&& body) {
  const std::lock_guard lock(runtime_mutex());
  if (!device().first_error.empty()) return refuse(lost());
  try {
    return body();
  } catch (const KernelError& e) {
    return lose(e.what(), e.kind);
  } catch (const Fault& f) {
    return lose(f.what, f.kind);
  } catch (const Error& e) {
    return refuse(cudaErrorNotSupported, e.what());
  }
}

// Of calls that a capture does not allow: it ends without a graph.
bool breaks_capture();
cudaError_t in_capture(const char* what);

bool is_stream(cudaStream_t s);

template <class T>
cudaError_t destroy(std::set<T*>& all, void* handle) {
  auto* object = static_cast<T*>(handle);
  if (all.erase(object) == 0)
    return refuse(cudaErrorInvalidResourceHandle, "a handle that does not exist is destroyed");
  delete object;
  return cudaSuccess;
}

}  // namespace duet::softgpu
