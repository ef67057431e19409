// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's functions of errors and of the device.
#include <cuda_profiler_api.h>

#include <cstdio>

#include "softgpu/runtime.h"

namespace duet::softgpu {
namespace {
cudaError_t latest = cudaSuccess;

const char* text_of(cudaError_t status) {
  switch (status) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorLaunchOutOfResources:
      return "too many resources requested for launch";
    case cudaErrorInvalidSymbol:
      return "invalid device symbol";
    case cudaErrorInvalidMemcpyDirection:
      return "invalid copy direction for memcpy";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorMisalignedAddress:
      return "misaligned address";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorCooperativeLaunchTooLarge:
      return "too many blocks in cooperative launch";
    case cudaErrorNotSupported:
      return "operation not supported";
    case cudaErrorInvalidPtx:
      return "a PTX compilation failed";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorIllegalState:
      return "the operation cannot be performed in the present state";
    default:
      return "an error that the software GPU has no text for";
  }
}
}  // namespace

std::recursive_mutex& runtime_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

cudaError_t refuse(cudaError_t status, std::string message) {
  latest = status;
  device().latest_message = std::move(message);
  return status;
}

cudaError_t lost() {
  switch (device().first_error_kind) {
    case Fault::Kind::address:
      return cudaErrorIllegalAddress;
    case Fault::Kind::alignment:
      return cudaErrorMisalignedAddress;
    case Fault::Kind::launch:
      break;
  }
  return cudaErrorLaunchFailure;
}

cudaError_t lose(const std::string& text, Fault::Kind kind) {
  device().first_error = text;
  device().first_error_kind = kind;
  std::fprintf(stderr, "software GPU: %s\n", text.c_str());
  return refuse(lost());
}

}  // namespace duet::softgpu

using namespace duet::softgpu;  // NOLINT: the file's subject is the functions below

extern "C" {
// NOLINTBEGIN(readability-identifier-naming)
cudaError_t cudaGetLastError() {
  const std::lock_guard lock(runtime_mutex());
  const cudaError_t status = latest;
  latest = device().first_error.empty() ? cudaSuccess : lost();
  return status;
}
cudaError_t cudaPeekAtLastError() { return latest; }
const char* cudaGetErrorString(cudaError_t status) {
  static thread_local std::string text;
  text = text_of(status);
  const std::string& more = device().first_error.empty() ? device().latest_message : device().first_error;
  if (status != cudaSuccess && !more.empty()) text += ": " + more;
  return text.c_str();
}
const char* cudaGetErrorName(cudaError_t status) {
  static thread_local std::string name;
  name = fmt::format("cudaError {}", static_cast<int>(status));
  return status == cudaSuccess ? "cudaSuccess" : name.c_str();
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* number) {
  *number = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int number) {
  return call([&] { return number == 0 ? cudaSuccess : refuse(cudaErrorInvalidDevice); });
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  return call([&] {
    const Limits& l = device().limits;
    *p = {};
    std::snprintf(p->name, sizeof p->name, "software GPU (PTX, sm_%d)", l.capability);
    p->major = l.capability / 10;
    p->minor = l.capability % 10;
    p->multiProcessorCount = l.multiprocessors;
    p->l2CacheSize = l.l2_bytes;
    p->totalGlobalMem = l.memory_bytes;
    p->sharedMemPerBlock = l.shared_bytes;
    p->sharedMemPerBlockOptin = l.shared_opt_in_bytes;
    p->sharedMemPerMultiprocessor = l.shared_opt_in_bytes + 1024;
    p->reservedSharedMemPerBlock = 1024;
    p->warpSize = kLanes;
    p->maxThreadsPerBlock = static_cast<int>(l.max_threads);
    p->maxThreadsPerMultiProcessor = 2048;
    p->maxBlocksPerMultiProcessor = 32;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = static_cast<int>(l.max_block_z);
    p->maxGridSize[0] = INT32_MAX;
    p->maxGridSize[1] = p->maxGridSize[2] = static_cast<int>(l.max_grid_yz);
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  return call([&] {
    const Limits& l = device().limits;
    switch (attribute) {
      case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = static_cast<int>(l.shared_opt_in_bytes);
        return cudaSuccess;
      case cudaDevAttrMultiProcessorCount:
        *value = l.multiprocessors;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMajor:
        *value = l.capability / 10;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMinor:
        *value = l.capability % 10;
        return cudaSuccess;
      case cudaDevAttrTextureAlignment:
        *value = static_cast<int>(l.texture_alignment);
        return cudaSuccess;
      case cudaDevAttrCooperativeLaunch:
        *value = 1;
        return cudaSuccess;
      case cudaDevAttrClockRate:
      case cudaDevAttrMemoryClockRate:
        *value = 1'000'000;  // kHz; nothing is timed
        return cudaSuccess;
      default:
        return refuse(cudaErrorNotSupported, fmt::format("attribute {} of the device", static_cast<int>(attribute)));
    }
  });
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int) {
  std::snprintf(text, static_cast<size_t>(bytes), "software");
  return cudaSuccess;
}
}
// NOLINTEND(readability-identifier-naming)
