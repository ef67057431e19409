// SPDX-License-Identifier: Apache-2.0
// core/digest.h on the GPU: a hash of each word and of its place, added up modulo 2^64, so that the order of the
// additions does not matter.
#include "core/digest.h"

#include <algorithm>

#include "core/cuda/check.h"
#include "core/cuda/gpu_context.h"
#include "core/cuda/launch.h"

namespace duet {
namespace {
constexpr int kThreads = 256;

struct Sums {
  unsigned long long checksum;
  unsigned int not_finite;
};

// Of a word at place i: the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
__device__ __forceinline__ unsigned long long hash_of(unsigned long long word, int64_t i) {
  unsigned long long h = word + static_cast<unsigned long long>(i + 1) * 0x9e3779b97f4a7c15ull;
  h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
  h = (h ^ h >> 27) * 0x94d049bb133111ebull;
  return h ^ h >> 31;
}

// Any number of blocks of kThreads. Adds to *sums. data: aligned to kBytes, the size of an element and of a word.
// exponent: the bits that are all set in what is not finite; 0 for integers.
template <class Word>
__global__ void __launch_bounds__(kThreads)
    digest_kernel(const Word* data, int64_t words, unsigned long long exponent, Sums* sums) {
  unsigned long long checksum = 0;
  bool not_finite = false;
  const int64_t step = int64_t{gridDim.x} * kThreads;
#pragma unroll 4
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < words; i += step) {
    const unsigned long long word = data[i];
    checksum += hash_of(word, i);
    not_finite |= exponent != 0 && (word & exponent) == exponent;
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) checksum += __shfl_xor_sync(0xffffffffu, checksum, distance);
  not_finite = __any_sync(0xffffffffu, not_finite);
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&sums->checksum, checksum);
    if (not_finite) atomicOr(&sums->not_finite, 1u);
  }
}

const void* kernel_of(int64_t element_bytes) {
  switch (element_bytes) {
    case 8:
      return reinterpret_cast<const void*>(&digest_kernel<unsigned long long>);
    case 4:
      return reinterpret_cast<const void*>(&digest_kernel<uint32_t>);
    case 2:
      return reinterpret_cast<const void*>(&digest_kernel<uint16_t>);
    default:
      return reinterpret_cast<const void*>(&digest_kernel<uint8_t>);
  }
}
}  // namespace

Digest digest(Context& context, const void* data, DType dtype, int64_t elements) {
  auto* const gpu = dynamic_cast<cuda::GpuContext*>(&context);
  if (!gpu) {
    context.synchronize();
    return host_digest(data, dtype, elements);  // the CPU's memory, and that of kernels on the host
  }
  const Buffer memory(context, sizeof(Sums), "digest", 8);
  auto* sums = static_cast<Sums*>(memory.data());
  context.fill_bytes(sums, 0, sizeof(Sums));
  unsigned long long exponent = exponent_bits(dtype);
  void* args[] = {&data, &elements, &exponent, &sums};
  const int64_t blocks = std::min<int64_t>((elements + kThreads - 1) / kThreads, 8 * gpu->multiprocessors());
  cuda::launch_kernel(kernel_of(size_of(dtype)), {.blocks = blocks, .threads = kThreads, .stream = gpu->stream()},
                      args);
  Sums got{};
  context.download(&got, sums, sizeof got);
  return {.checksum = got.checksum, .finite = got.not_finite == 0};
}

}  // namespace duet
