// SPDX-License-Identifier: Apache-2.0
// Textures over linear memory, of elements of 32 bits. Kernels reach them through simt/texture.h.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "core/cuda/handle.h"

namespace duet::cuda {

// What a kernel gets of a texture. It begins at an aligned address: `first` is the index of the first element asked
// for.
struct TextureView {
  cudaTextureObject_t object;
  int first;
};

// How many elements a texture may have, wherever in memory they begin.
int64_t max_texture_elements();

// The textures of a plan, made when a tensor is seen first and kept for the next runs. They are destroyed with it,
// after a wait for the stream: until then, work that reads them may be enqueued.
class LinearTextures {
 public:
  explicit LinearTextures(cudaStream_t stream) : stream_(stream) {}
  LinearTextures(LinearTextures&&) noexcept = default;
  ~LinearTextures();
  // Of at most max_texture_elements(); none where count is 0.
  TextureView of(const void* data, int64_t count, cudaChannelFormatKind kind);

 private:
  using Texture = Owned<cudaTextureObject_t, &cudaDestroyTextureObject>;
  struct Kept {
    const void* data;
    int64_t count;
    cudaChannelFormatKind kind;
    Texture texture;
    int first;
  };
  cudaStream_t stream_;
  std::vector<Kept> kept_;
};

}  // namespace duet::cuda
