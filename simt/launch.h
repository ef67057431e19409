// SPDX-License-Identifier: Apache-2.0
// What every kernel file includes first: CUDA's vocabulary, a checked launch(), and the device's context. Under nvcc
// this is a thin layer over CUDA; for g++, simt/host/ supplies the same vocabulary, and kernels run and are checked on
// the CPU.
#pragma once
#ifndef DUET_DEVICE
#error "simt/launch.h: the build sets DUET_DEVICE to cuda (nvcc) or simt (g++)"
#endif

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <type_traits>

#include "core/cuda/gpu_context.h"
#include "core/cuda/launch.h"
#else
#include "simt/host/context.h"
#include "simt/host/launch.h"
#include "simt/host/words.h"
#endif

#include "core/dtype.h"
#include "core/registration.h"

namespace duet {

template <>
struct DTypeOf<__half> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<__nv_bfloat16> {
  static constexpr DType value = DType::bf16;
};

#ifdef __CUDACC__
namespace cuda {

// Enqueues kernel(args...) on grid.stream. Skips an empty grid; throws Error, which names the limit, for one too large.
template <class... P, class... A>
void launch(void (*kernel)(P...), const Grid& grid, A&&... args) {
  static_assert(sizeof...(P) == sizeof...(A), "launch: as many arguments as the kernel has parameters");
  [&](std::remove_cv_t<P>... values) {  // of the kernel's parameter types: the runtime reads them as raw bytes
    void* pointers[] = {static_cast<void*>(&values)..., nullptr};
    launch_kernel(reinterpret_cast<const void*>(kernel), grid, pointers);
  }(static_cast<std::remove_cv_t<P>>(args)...);
}

__device__ __forceinline__ void spin_pause() { __nanosleep(32); }  // goes into every loop that waits for another thread

}  // namespace cuda

// Static shared memory, aligned to 16 bytes: DUET_SHARED(float, tile, [16][17]). Dynamic shared memory, with the size
// that the launch requests, aligned to 128 bytes: DUET_DYN_SHARED(float, s);
#define DUET_SHARED(T, name, ...) __shared__ __align__(16) T name __VA_ARGS__
#define DUET_DYN_SHARED(T, name)                                         \
  extern __shared__ __align__(128) unsigned char duet_dynamic_shared_[]; \
  T* const name = reinterpret_cast<T*>(duet_dynamic_shared_)
#endif

namespace DUET_DEVICE {

// f.template operator()<T>() for the device type of `dtype`: float, __nv_bfloat16 or __half.
template <class F>
Plan for_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::bf16:
      return f.template operator()<__nv_bfloat16>();
    case DType::f16:
      return f.template operator()<__half>();
    default:
      return Unsupported{std::string("dtype ") + name_of(dtype)};
  }
}

}  // namespace DUET_DEVICE
}  // namespace duet
