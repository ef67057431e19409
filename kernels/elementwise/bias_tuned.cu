// SPDX-License-Identifier: Apache-2.0
// Forward: one 16-byte pack per thread; its biases are a pack (inner = 1), one value, or looked up for each element.
// Backward: for inner = 1 the column sums of columns.cuh; else warps add segments of planes, and a second launch adds
// their parts. With relu, the same pass masks dy and writes dx.
#include <algorithm>

#include "core/context.h"
#include "kernels/reduction/columns.cuh"
#include "ops/elementwise/bias.h"

namespace duet::DUET_DEVICE {
namespace {
enum class BiasAccess {
  pack,
  single,
  each
};  // a pack's biases: a pack too, one for all elements, or looked up for each

// A map_grid(n, kSize), no shared memory. x, y: (n), bias: (c). Index: an integer type that holds n. y may be x.
template <class T, int kSize, BiasAccess kAccess, class Index>
__global__ void __launch_bounds__(kMapBlock)
    bias_kernel(const T* x, const T* bias, T* y, int64_t n, Index c, Index inner, bool relu) {
  for_my_pack<kSize>(n, [&]<int kWidth>(int64_t i) {
    auto pack = load_pack<kWidth>(x + i);
    Pack<T, kWidth> add;
    if constexpr (kAccess == BiasAccess::pack) {
      add = load_pack<kWidth>(bias + Index(i) % c);
    } else {
      const Index plane = Index(i) / inner;
      Index channel = plane % c, left = inner - (Index(i) - plane * inner);
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        add.at[e] = bias[channel];
        if (kAccess == BiasAccess::each && --left == 0) {
          left = inner;
          channel = channel + 1 == c ? 0 : channel + 1;
        }
      }
    }
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const float sum = float(pack.at[e]) + float(add.at[e]);
      pack.at[e] = T(relu ? fmaxf(sum, 0) : sum);
    }
    store_pack(y + i, pack);
  });
}

Plan bias_tuned(const Bias& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      constexpr int kFull = kPack<T>;
      const T *x = t[Bias::x].as<const T>(), *bias = t[Bias::bias].as<const T>();
      T* y = t[Bias::y].as<T>();
      const auto run = [&]<int kSize, BiasAccess kAccess, class Index>() {
        launch(bias_kernel<T, kSize, kAccess, Index>, map_grid(p.elements(), kSize, stream), x, bias, y, p.elements(),
               static_cast<Index>(p.c), static_cast<Index>(p.inner), p.act == Act::relu);
      };
      if (!aligned16(x, bias, y) ||
          p.elements() > INT32_MAX)  // 64-bit division, which takes several times as long as 32-bit division
        run.template operator()<1, BiasAccess::single, int64_t>();
      else if (p.inner == 1 && p.c % kFull == 0)
        run.template operator()<kFull, BiasAccess::pack, uint32_t>();
      else if (p.inner % kFull == 0)
        run.template operator()<kFull, BiasAccess::single, uint32_t>();
      else
        run.template operator()<kFull, BiasAccess::each, uint32_t>();
    };
  });
}
DUET_REGISTER(bias_tuned);

constexpr int kWarps = 8;              // of a block
constexpr int64_t kSegment = 1 << 12;  // elements that a warp adds in f32 before it adds their sum to a double

// partial[part, k] = the sum of channel k over at most `height` segments from part * height on; a plane has `segments`
// of kSegment elements, the last perhaps fewer, and sample follows sample. Blocks of (32, 8), one for each channel
// (grid x) and part (grid y); a warp adds every 8th segment. 32 bytes of shared memory. y, dx: null without relu.
// kSize > 1: all tensors have the same offset from a 16-byte boundary. dx may be dy. partial: (parts, c).
template <class T, int kSize, class Out>
__global__ void __launch_bounds__(32 * kWarps)
    planes_kernel(const T* y, const T* dy, T* dx, Out* partial, int64_t outer, int64_t c, int64_t inner,
                  int64_t segments, int64_t height) {
  DUET_SHARED(float, shared, [kWarps]);
  const int64_t first = blockIdx.y * height, last = min(outer * segments, first + height);

  // Sum of this warp's segments.
  double sum = 0;
  int64_t sample = (first + threadIdx.y) / segments, segment = (first + threadIdx.y) % segments;
  for (int64_t i = first + threadIdx.y; i < last; i += kWarps) {
    const int64_t at = segment * kSegment, begin = (sample * c + blockIdx.x) * inner + at;
    float run = 0;
    for_row<32, kSize>(dy + begin, min(kSegment, inner - at), [&]<int kWidth>(Pack<T, kWidth> pack, int64_t e0) {
      if (y) {
        const auto gate = load_pack<kWidth>(y + begin + e0);
#pragma unroll
        for (int e = 0; e < kWidth; ++e)
          if (!(float(gate.at[e]) > 0)) pack.at[e] = T(0.0f);
        store_pack(dx + begin + e0, pack);
      }
#pragma unroll
      for (int e = 0; e < kWidth; ++e) run += float(pack.at[e]);
    });
    sum += run;
    for (segment += kWarps; segment >= segments; segment -= segments) ++sample;
  }

  // Sum over the lanes, then over the warps.
  const float mine = warp_reduce<SumOp>(static_cast<float>(sum));
  if (threadIdx.x == 0) shared[threadIdx.y] = mine;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    float total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += shared[w];
    partial[blockIdx.y * c + blockIdx.x] = Out(total);
  }
}

template <class T>
Plan sum_rows(const BiasBackward& p, GpuContext& gpu) {
  using P = BiasBackward;
  if (!ColumnSums<T>::supports(p.outer)) return Unsupported{"more than 2^26 samples"};
  WorkspaceLayout workspace;
  const ColumnSums<T> sum(p.outer, p.c, gpu, workspace);
  return Plan([relu = p.act == Act::relu, c = p.c, sum](Args t) {
           const T* dy = t[P::dy].as<const T>();
           T* dbias = t[P::dbias].as<T>();
           if (relu)
             sum.enqueue(t, LoadMasked<T>{t[P::y].as<const T>(), dy, t[P::dx].as<T>(), c}, StoreSum<T>{dbias});
           else
             sum.enqueue(t, LoadColumns<T>{dy, c}, StoreSum<T>{dbias});
         })
      .with(std::move(workspace));
}

template <class T>
Plan sum_planes(const BiasBackward& p, GpuContext& gpu) {
  using P = BiasBackward;
  const int64_t segments = std::max<int64_t>(1, ceil_div(p.inner, kSegment));              // of a plane
  const int64_t wanted = ceil_div(16 * gpu.multiprocessors(), std::max<int64_t>(1, p.c));  // parts, to fill the GPU
  const int64_t parts = std::clamp<int64_t>(ceil_div(p.outer * segments, kWarps), 1, std::min<int64_t>(wanted, 1024));
  const int64_t height = ceil_div(p.outer * segments, parts);
  WorkspaceLayout workspace;
  const auto partial = workspace.add<float>(parts > 1 ? parts * p.c : 0);
  return Plan([p, segments, parts, height, partial, stream = gpu.stream()](Args t) {
           const bool relu = p.act == Act::relu;
           const T *y = relu ? t[P::y].as<const T>() : nullptr, *dy = t[P::dy].as<const T>();
           T *dx = relu ? t[P::dx].as<T>() : nullptr, *dbias = t[P::dbias].as<T>();
           const Grid grid{.blocks = {p.c, parts}, .threads = {32, kWarps}, .stream = stream};
           const auto run = [&]<int kSize, class Out>(Out* out) {
             launch(planes_kernel<T, kSize, Out>, grid, y, dy, dx, out, p.outer, p.c, p.inner, segments, height);
           };
           const auto into = [&](auto* out) {
             relu && !same_offset16(dy, y, dx) ? run.template operator()<1>(out)
                                               : run.template operator()<kPack<T>>(out);
           };
           if (parts == 1) return into(dbias);
           into(t.workspace(partial));
           launch_add_parts<1>(stream, t.workspace(partial), parts, p.c, StoreSum<T>{dbias});
         })
      .with(std::move(workspace));
}

Plan bias_backward_tuned(const BiasBackward& p, GpuContext& gpu) {
  return for_float(p.dtype,
                   [&]<class T>() -> Plan { return p.inner == 1 ? sum_rows<T>(p, gpu) : sum_planes<T>(p, gpu); });
}
DUET_REGISTER(bias_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
