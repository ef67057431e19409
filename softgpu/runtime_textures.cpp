// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's functions of texture objects: over linear memory, of one component of 32 bits that is read as it
// is. Others are refused by name.
#include "softgpu/runtime.h"

using namespace duet::softgpu;  // NOLINT: the file's subject is the functions below

extern "C" {
// NOLINTBEGIN(readability-identifier-naming)
cudaError_t cudaCreateTextureObject(cudaTextureObject_t* texture, const cudaResourceDesc* resource,
                                    const cudaTextureDesc* how, const cudaResourceViewDesc* view) {
  return call([&] {
    *texture = 0;
    Device& d = device();
    if (resource->resType != cudaResourceTypeLinear || view || how->readMode != cudaReadModeElementType ||
        how->normalizedCoords)
      return refuse(cudaErrorNotSupported, "a texture other than linear memory whose elements are read as they are");
    const auto& linear = resource->res.linear;
    const cudaChannelFormatDesc& f = linear.desc;
    if (f.x != 32 || f.y != 0 || f.z != 0 || f.w != 0)
      return refuse(cudaErrorNotSupported, fmt::format("a texture of {}, {}, {} and {} bits", f.x, f.y, f.z, f.w));
    const char kind = f.f == cudaChannelFormatKindFloat      ? 'f'
                      : f.f == cudaChannelFormatKindSigned   ? 's'
                      : f.f == cudaChannelFormatKindUnsigned ? 'u'
                                                             : '\0';
    if (kind == '\0') return refuse(cudaErrorNotSupported, "a texture of another kind of elements");
    const auto address = reinterpret_cast<uint64_t>(linear.devPtr);
    if (address % d.limits.texture_alignment != 0)
      return refuse(cudaErrorInvalidValue, fmt::format("a texture at {}, which is not aligned to {} bytes",
                                                       d.memory.describe(address), d.limits.texture_alignment));
    const auto [begin, bytes] = d.memory.allocation_at(address);
    if (bytes == 0 || linear.sizeInBytes == 0 || address + linear.sizeInBytes > begin + bytes)
      return refuse(cudaErrorInvalidValue,
                    fmt::format("a texture of {} bytes at {}", linear.sizeInBytes, d.memory.describe(address)));
    const uint64_t elements = linear.sizeInBytes / 4;
    if (elements > d.limits.texture_elements)
      return refuse(cudaErrorInvalidValue,
                    fmt::format("a texture of {} elements; at most {}", elements, d.limits.texture_elements));
    d.textures[d.next_texture] = {address, elements, kind};
    *texture = d.next_texture++;
    return cudaSuccess;
  });
}
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t texture) {
  return call([&] {
    return device().textures.erase(texture) > 0
               ? cudaSuccess
               : refuse(cudaErrorInvalidResourceHandle, "a texture that does not exist is destroyed");
  });
}
cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t* elements, const cudaChannelFormatDesc*, int) {
  return call([&] {
    *elements = device().limits.texture_elements;
    return cudaSuccess;
  });
}
}
// NOLINTEND(readability-identifier-naming)
