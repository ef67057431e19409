// SPDX-License-Identifier: Apache-2.0
// launch_channel_map(): elementwise work on a tensor (outer, c, inner) whose channels have a scale and a zero point
// each, for quantise_tuned.cu and fake_quantise_tuned.cu; and the arithmetic that these share with the naive kernels.
// One 16-byte pack of the floating tensor per thread; its scales are packs too (inner = 1), one value, or looked up for
// each element.
#pragma once
#include "kernels/divider.cuh"
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {

__device__ __forceinline__ int clamp_level(int level, int lo, int hi) { return max(min(level, hi), lo); }

// rne(x / scale) + z as ops/elementwise/quantise_formula.h says, before it is clamped. The division is IEEE's: builds
// do not set -use_fast_math. Quotients beyond 2^23 count as that: they are clamped in any case, because lo, hi and z
// lie far below.
__device__ __forceinline__ int unclamped_level(float x, float scale, int z) {
  float quotient = x / scale;
  quotient = quotient == quotient ? fminf(fmaxf(quotient, -0x1p23f), 0x1p23f) : 0;
  return __float2int_rn(quotient) + z;
}

enum class ChannelAccess { pack, single, each };

struct LongDivider {  // as Divider, for dividends of any size
  int64_t by;
  explicit LongDivider(int64_t b) : by(b < 1 ? 1 : b) {}
  __device__ __forceinline__ int64_t operator()(int64_t n) const { return n / by; }
};

// y[i] = op(scale[channel], zero[channel], x[i]...). A map_grid(n, kSize), no shared memory. y may be one of x: a
// thread reads its elements before it writes them. x, y: (outer, c, inner) of n elements; scale, zero: (c). Index:
// holds n.
template <class Op, int kSize, ChannelAccess kAccess, class Index, class By, class Y, class... X>
__global__ void __launch_bounds__(kMapBlock)
    channel_map_kernel(Op op, int64_t n, Index c, Index inner, By by_c, By by_inner, const float* scale,
                       const int32_t* zero, Y* y, const X*... x) {
  for_my_pack<kSize>(n, [&]<int kWidth>(int64_t i) {
    const Index plane = by_inner(static_cast<Index>(i));
    Index channel = plane - by_c(plane) * c, left = inner - (static_cast<Index>(i) - plane * inner);

    // Scales and zero points of the elements.
    float scales[kWidth];
    int zeros[kWidth];
    if constexpr (kAccess == ChannelAccess::pack && kWidth > 1) {
#pragma unroll
      for (int e = 0; e < kWidth; e += 4) {
        const auto four_scales = load_pack<4>(scale + channel + e);
        const auto four_zeros = load_pack<4>(zero + channel + e);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          scales[e + k] = four_scales.at[k];
          zeros[e + k] = four_zeros.at[k];
        }
      }
    } else {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        if (e == 0 || kAccess == ChannelAccess::each) {
          scales[e] = scale[channel];
          zeros[e] = zero[channel];
        } else {
          scales[e] = scales[0];
          zeros[e] = zeros[0];
        }
        if (kAccess == ChannelAccess::each && --left == 0) {
          left = inner;
          channel = channel + 1 == c ? 0 : channel + 1;
        }
      }
    }

    // The results.
    [&](const auto&... packs) {
      Pack<Y, kWidth> out;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) out.at[e] = op(scales[e], zeros[e], packs.at[e]...);
      store_pack(y + i, out);
    }(load_pack<kWidth>(x + i)...);
  });
}

// kSize: elements of a pack, a multiple of 4. Where an address is not aligned, and beyond 2^31 elements, single
// elements.
template <int kSize, class Op, class Y, class... X>
void launch_channel_map(cudaStream_t stream, Op op, int64_t outer, int64_t c, int64_t inner, const float* scale,
                        const int32_t* zero, Y* y, const X*... x) {
  static_assert(kSize % 4 == 0);
  const int64_t n = outer * c * inner;
  if (n == 0) return;
  const auto run = [&]<int kWidth, ChannelAccess kAccess, class Index, class By>() {
    launch(channel_map_kernel<Op, kWidth, kAccess, Index, By, Y, X...>, map_grid(n, kWidth, stream), op, n,
           static_cast<Index>(c), static_cast<Index>(inner), By(c), By(inner), scale, zero, y, x...);
  };
  if (n > INT32_MAX || !aligned16(scale, zero, y, x...))
    run.template operator()<1, ChannelAccess::single, int64_t, LongDivider>();
  else if (inner == 1 && c % kSize == 0)
    run.template operator()<kSize, ChannelAccess::pack, uint32_t, Divider>();
  else if (inner % kSize == 0 || c == 1)
    run.template operator()<kSize, ChannelAccess::single, uint32_t, Divider>();
  else
    run.template operator()<kSize, ChannelAccess::each, uint32_t, Divider>();
}

}  // namespace duet::DUET_DEVICE
