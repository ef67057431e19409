// SPDX-License-Identifier: Apache-2.0
// Textures over linear memory: a tensor read through the path of textures, which takes an index and no address. A plan
// keeps Textures and gives its kernels, by value, what of() makes of a tensor: texture[i].
#pragma once
#include "simt/launch.h"

#ifdef __CUDACC__
#include "core/cuda/texture.h"
#else
#include "simt/host/texture.h"
#endif

namespace duet::DUET_DEVICE {

// Of T of 32 bits. CUDA has formats for halves and for integers of 8 and 16 bits, too, and none for bf16.
template <class T>
class Texture {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, int32_t> || std::is_same_v<T, uint32_t>,
                "Texture: float, int32_t or uint32_t");

 public:
#ifdef __CUDACC__
  explicit Texture(TextureView view) : view_(view) {}
  __device__ __forceinline__ T operator[](int64_t i) const {
    return tex1Dfetch<T>(view_.object, view_.first + static_cast<int>(i));
  }

 private:
  TextureView view_;
#else
  Texture(const T* data, int64_t count) : data_(data), count_(count) {}
  DUET_UNCHECKED T operator[](int64_t i) const {
    host::check_fetch(data_, count_, i, sizeof(T), DUET_CALLER);
    return data_[i];
  }

 private:
  const T* data_;
  int64_t count_;
#endif
};

// The textures of a plan, each made when its tensor is seen first.
class Textures {
 public:
#ifdef __CUDACC__
  explicit Textures(const GpuContext& gpu) : kept_(gpu.stream()) {}
  // Of at most max_texture_elements() elements.
  template <class T>
  Texture<T> of(const T* data, int64_t count) {
    constexpr cudaChannelFormatKind kKind = std::is_same_v<T, float>     ? cudaChannelFormatKindFloat
                                            : std::is_same_v<T, int32_t> ? cudaChannelFormatKindSigned
                                                                         : cudaChannelFormatKindUnsigned;
    return Texture<T>(kept_.of(data, count, kKind));
  }

 private:
  LinearTextures kept_;
#else
  explicit Textures(const GpuContext&) {}
  template <class T>
  Texture<T> of(const T* data, int64_t count) {
    return {data, count};
  }
#endif
};

}  // namespace duet::DUET_DEVICE
