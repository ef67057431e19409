// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/texture.h"

namespace duet::cuda {
namespace {
constexpr int64_t kElementBytes = 4;

cudaChannelFormatDesc format_of(cudaChannelFormatKind kind) { return {8 * kElementBytes, 0, 0, 0, kind}; }

// Of the address of a texture, in bytes.
int64_t alignment() {
  int device = 0, bytes = 0;
  DUET_CUDA(cudaGetDevice(&device));
  DUET_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrTextureAlignment, device));
  return bytes;
}
}  // namespace

int64_t max_texture_elements() {
  int device = 0;
  size_t elements = 0;
  const cudaChannelFormatDesc format = format_of(cudaChannelFormatKindFloat);
  DUET_CUDA(cudaGetDevice(&device));
  DUET_CUDA(cudaDeviceGetTexture1DLinearMaxWidth(&elements, &format, device));
  return static_cast<int64_t>(elements) - alignment() / kElementBytes;
}

LinearTextures::~LinearTextures() {
  if (!kept_.empty()) DUET_CUDA_LOG(cudaStreamSynchronize(stream_));
}

TextureView LinearTextures::of(const void* data, int64_t count, cudaChannelFormatKind kind) {
  if (count == 0) return {};
  for (const Kept& k : kept_)
    if (k.data == data && k.count == count && k.kind == kind) return {k.texture.get(), k.first};
  // From the aligned address before the tensor, which lies in the same allocation: those are aligned to more.
  const int64_t before = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data)) % alignment();
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = static_cast<char*>(const_cast<void*>(data)) - before;
  resource.res.linear.desc = format_of(kind);
  resource.res.linear.sizeInBytes = static_cast<size_t>(before + count * kElementBytes);
  cudaTextureDesc how{};
  how.readMode = cudaReadModeElementType;
  Texture texture;
  DUET_CUDA(cudaCreateTextureObject(texture.out(), &resource, &how, nullptr));
  kept_.push_back({data, count, kind, std::move(texture), static_cast<int>(before / kElementBytes)});
  return {kept_.back().texture.get(), kept_.back().first};
}

}  // namespace duet::cuda
