// SPDX-License-Identifier: Apache-2.0
// One 16-byte access per thread and tensor, in the order of y; x is read in runs of D elements, those of one head.
#include "kernels/memory/permute.cuh"
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {
namespace {
constexpr int64_t kMaxElements = INT32_MAX;

// A map_grid(packs, 1), no shared memory. by_head divides by the packs of kSize elements in a run of d elements.
template <class T, int kSize>
__global__ void __launch_bounds__(kMapBlock)
    permute_kernel(const T* x, T* y, uint32_t packs, Divider by_head, int64_t d, PermuteAxes axes) {
  const uint32_t pack = blockIdx.x * kMapBlock + threadIdx.x;
  if (pack >= packs) return;
  uint32_t run = pack;
  const int at = by_head.split(run) * kSize;
  store_pack(y + int64_t{pack} * kSize, load_pack<kSize>(x + axes.run_of_x(run) * d + at));
}

Plan permute_tuned(const Permute& p, GpuContext& gpu) {
  if (p.rows() * p.D > kMaxElements) return Unsupported{"more than 2^31 - 1 elements"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T* x = t[Permute::x].as<const T>();
      T* y = t[Permute::y].as<T>();
      const auto run = [&]<int kSize>() {
        const int64_t packs = p.rows() * p.D / kSize;
        launch(permute_kernel<T, kSize>, map_grid(packs, 1, stream), x, y, static_cast<uint32_t>(packs),
               Divider(p.D / kSize), p.D, PermuteAxes(p));
      };
      p.D % kPack<T> == 0 && aligned16(x, y) ? run.template operator()<kPack<T>>() : run.template operator()<1>();
    };
  });
}
DUET_REGISTER(permute_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
