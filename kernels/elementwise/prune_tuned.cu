// SPDX-License-Identifier: Apache-2.0
// 2:4: one 16-byte pack per thread, which is one group of f32 or two of the halves.
// magnitude: a radix selection. For each digit of the sizes, 11 bits or fewer, the blocks count in shared memory how
// many elements have which value of it, and one block picks the value at which the elements to keep are reached. Where
// not all elements of the smallest size are kept, their number in each tile is counted and added up. The last launch
// writes y and mask. All counts are whole numbers, so that the result does not depend on the order of atomic additions.
#include <algorithm>

#include "core/context.h"
#include "kernels/elementwise/prune.cuh"
#include "kernels/vector.cuh"
#include "ops/elementwise/prune.h"

namespace duet::DUET_DEVICE {
namespace {

// --- 2:4 -------------------------------------------------------------------------------------------------------------

// ceil(n / (kMapBlock kSize)) blocks of kMapBlock, no shared memory; kSize: 4 or 8, or 4 with kAligned = false, where
// elements are loaded one by one. w, y, mask: (n). y may be w.
template <class T, int kSize, bool kAligned>
__global__ void __launch_bounds__(kMapBlock) groups_kernel(const T* w, T* y, uint8_t* mask, int64_t n) {
  const int64_t first = (int64_t{blockIdx.x} * kMapBlock + threadIdx.x) * kSize;
  if (kAligned && first + kSize <= n) {
    const auto pack = load_pack<kSize>(w + first);
    Pack<T, kSize> out;
    Pack<uint8_t, kSize> kept;
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      kept.at[e] = kept_of_four(pack.at + e / 4 * 4, e % 4, 4);
      out.at[e] = kept.at[e] ? pack.at[e] : T(0.0f);
    }
    store_pack(y + first, out);
    store_pack(mask + first, kept);
    return;
  }
  for (int64_t group = first; group < min(n, first + kSize); group += 4) {
    const int count = static_cast<int>(min(int64_t{4}, n - group));
    T values[4] = {};
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (k < count) values[k] = w[group + k];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (k < count) {
        const bool keep = kept_of_four(values, k, count);
        y[group + k] = keep ? values[k] : T(0.0f);
        mask[group + k] = keep;
      }
  }
}

// --- magnitude -------------------------------------------------------------------------------------------------------

constexpr int kMaxDigits = 1 << 11;
constexpr int kTile = 4096;  // elements of a block of the last launch

// Digits of the sizes, the highest first.
template <class T>
struct Radix {
  static constexpr int kPasses = 3, kShifts[] = {20, 10, 0}, kWidths[] = {11, 10, 10};
};
template <class T>
requires(sizeof(T) == 2) struct Radix<T> {
  static constexpr int kPasses = 2, kShifts[] = {7, 0}, kWidths[] = {8, 7};
};

struct Found {
  unsigned above;  // the digits of the threshold that are known
  int wanted;      // elements to keep of those that have these digits
  int ties;        // elements that have these digits
};

// Sums over a block of kMapBlock threads: of the threads before this one; total: of all. part: kMapBlock / 32 values of
// shared memory, which may be reused on return.
__device__ __forceinline__ int sum_before(int mine, int* part, int& total) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int through = mine;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, through, distance);
    if (lane >= distance) through += other;
  }
  if (lane == 31) part[warp] = through;
  __syncthreads();
  int before = 0;
  total = 0;
#pragma unroll
  for (int k = 0; k < kMapBlock / 32; ++k) {
    if (k < warp) before += part[k];
    total += part[k];
  }
  __syncthreads();
  return before + through - mine;
}

// Clears counts (kPasses, kMaxDigits) and sets *found. A map_grid(values, 1).
__global__ void __launch_bounds__(kMapBlock) clear_kernel(int* counts, int64_t values, Found* found, int kept) {
  const int64_t i = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (i < values) counts[i] = 0;
  if (i == 0) *found = {0, kept, 0};
}

// Adds to counts (1 << width) how many elements have which digit, of those whose higher digits are found->above. Any
// number of blocks of kMapBlock, 8 KiB of shared memory.
template <class T, int kSize>
__global__ void __launch_bounds__(kMapBlock)
    digits_kernel(const T* w, int64_t n, const Found* found, int* counts, int shift, int width) {
  DUET_SHARED(int, mine, [kMaxDigits]);
  const int digits = 1 << width;
  for (int d = static_cast<int>(threadIdx.x); d < digits; d += kMapBlock) mine[d] = 0;
  const unsigned above = found->above;
  __syncthreads();

  // Count in shared memory.
  const auto count = [&](T value) {
    const unsigned size = weight_size(value) >> shift;
    if (size >> width == above) atomicAdd(&mine[size & static_cast<unsigned>(digits - 1)], 1);
  };
  const int64_t step = int64_t{gridDim.x} * kMapBlock * kSize;
  for (int64_t i = (int64_t{blockIdx.x} * kMapBlock + threadIdx.x) * kSize; i < n; i += step) {
    if (i + kSize <= n) {
      const auto pack = load_pack<kSize>(w + i);
#pragma unroll
      for (int e = 0; e < kSize; ++e) count(pack.at[e]);
    } else {
      for (int64_t k = i; k < n; ++k) count(w[k]);
    }
  }
  __syncthreads();

  // Add to the counts of all blocks.
  for (int d = static_cast<int>(threadIdx.x); d < digits; d += kMapBlock)
    if (mine[d]) atomicAdd(&counts[d], mine[d]);
}

// Finds the digit of the threshold: from the highest on, the one at which found->wanted elements are reached. One block
// of kMapBlock, 32 bytes of shared memory. Each thread adds the counts of some digits.
__global__ void __launch_bounds__(kMapBlock) pick_kernel(const int* counts, int width, Found* found) {
  DUET_SHARED(int, part, [kMapBlock / 32]);
  const int digits = 1 << width, share = (digits + kMapBlock - 1) / kMapBlock;
  const int highest = digits - 1 - static_cast<int>(threadIdx.x) * share;  // of this thread
  int mine = 0;
  for (int d = highest; d > highest - share; --d)
    if (d >= 0) mine += counts[d];
  const Found before = *found;
  int total;
  int sum = sum_before(mine, part, total);
  if (sum >= before.wanted || sum + mine < before.wanted) return;
  for (int d = highest; d > highest - share && d >= 0; --d) {
    if (sum + counts[d] >= before.wanted) {
      *found = {before.above << width | static_cast<unsigned>(d), before.wanted - sum, counts[d]};
      return;
    }
    sum += counts[d];
  }
}

// The sizes of this thread's kSize elements from i on; those beyond n get one that no element has.
template <int kSize, class T>
__device__ __forceinline__ Pack<T, kSize> load_some(const T* w, int64_t i, int64_t n) {
  if (i + kSize <= n) return load_pack<kSize>(w + i);
  Pack<T, kSize> pack;
#pragma unroll
  for (int e = 0; e < kSize; ++e) pack.at[e] = i + e < n ? w[i + e] : T(0.0f);
  return pack;
}

// before[tile] = elements of the threshold's size in the tile. One block of kMapBlock for each tile, 32 bytes of shared
// memory. Where all of them are kept, nothing is counted.
template <class T, int kSize>
__global__ void __launch_bounds__(kMapBlock) ties_kernel(const T* w, int64_t n, const Found* found, int* before) {
  DUET_SHARED(int, part, [kMapBlock / 32]);
  if (found->ties == found->wanted) return;
  const unsigned threshold = found->above;
  int mine = 0;
#pragma unroll
  for (int r = 0; r < kTile / (kMapBlock * kSize); ++r) {
    const int64_t i = int64_t{blockIdx.x} * kTile + (r * kMapBlock + static_cast<int>(threadIdx.x)) * kSize;
    const auto pack = load_some<kSize>(w, i, n);
#pragma unroll
    for (int e = 0; e < kSize; ++e) mine += i + e < n && weight_size(pack.at[e]) == threshold;
  }
  int total;
  sum_before(mine, part, total);
  if (threadIdx.x == 0) before[blockIdx.x] = total;
}

// before[tile] = the sum of those of the tiles before it. One block of kMapBlock, 32 bytes of shared memory.
__global__ void __launch_bounds__(kMapBlock) add_up_kernel(const Found* found, int* before, int64_t tiles) {
  DUET_SHARED(int, part, [kMapBlock / 32]);
  if (found->ties == found->wanted) return;
  int sum = 0;
  for (int64_t first = 0; first < tiles; first += kMapBlock) {
    const int64_t tile = first + threadIdx.x;
    const int ties = tile < tiles ? before[tile] : 0;
    int total;
    const int here = sum + sum_before(ties, part, total);
    if (tile < tiles) before[tile] = here;
    sum += total;
  }
}

// One block of kMapBlock for each tile, 32 bytes of shared memory. w, y, mask: (n). y may be w: a thread reads its
// elements before it writes them. kept: elements that are kept in all.
template <class T, int kSize>
__global__ void __launch_bounds__(kMapBlock)
    prune_kernel(const T* w, T* y, uint8_t* mask, int64_t n, const Found* found, const int* before, int kept) {
  DUET_SHARED(int, part, [kMapBlock / 32]);
  const Found threshold = *found;
  const bool in_order = threshold.ties != threshold.wanted;  // not all ties are kept
  int rank = in_order ? before[blockIdx.x] : 0;              // of the next tie
#pragma unroll
  for (int r = 0; r < kTile / (kMapBlock * kSize); ++r) {
    const int64_t i = int64_t{blockIdx.x} * kTile + (r * kMapBlock + static_cast<int>(threadIdx.x)) * kSize;
    const auto pack = load_some<kSize>(w, i, n);
    int mine = 0;
#pragma unroll
    for (int e = 0; e < kSize; ++e) mine += i + e < n && weight_size(pack.at[e]) == threshold.above;
    int own = 0;
    if (in_order) {
      int total;
      own = rank + sum_before(mine, part, total);
      rank += total;
    }
    Pack<T, kSize> out;
    Pack<uint8_t, kSize> keeps;
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      const unsigned size = weight_size(pack.at[e]);
      const bool tie = size == threshold.above;
      const bool keep = kept > 0 && (size > threshold.above || (tie && own < threshold.wanted));
      own += tie && in_order;
      keeps.at[e] = keep;
      out.at[e] = keep ? pack.at[e] : T(0.0f);
    }
    if (i + kSize <= n) {
      store_pack(y + i, out);
      store_pack(mask + i, keeps);
    } else {
#pragma unroll
      for (int e = 0; e < kSize; ++e)
        if (i + e < n) {
          y[i + e] = out.at[e];
          mask[i + e] = keeps.at[e];
        }
    }
  }
}

template <class T>
Plan by_magnitude(const Prune& p, GpuContext& gpu) {
  using P = Prune;
  if (p.n > INT32_MAX) return Unsupported{"more than 2^31 - 1 elements"};
  WorkspaceLayout workspace;
  const int64_t tiles = ceil_div(p.n, kTile), values = Radix<T>::kPasses * kMaxDigits;
  const auto found_piece = workspace.add<Found>(1);
  const auto counts_piece = workspace.add<int>(values), before_piece = workspace.add<int>(tiles);
  const int64_t blocks = std::min<int64_t>(tiles, 8 * gpu.multiprocessors());
  return Plan([=, stream = gpu.stream()](Args t) {
           if (p.n == 0) return;
           const T* w = t[P::w].as<const T>();
           T* y = t[P::y].as<T>();
           auto* mask = t[P::mask].as<uint8_t>();
           Found* found = t.workspace(found_piece);
           int *counts = t.workspace(counts_piece), *before = t.workspace(before_piece);
           const auto grid = [stream](int64_t count) {
             return Grid{.blocks = count, .threads = kMapBlock, .stream = stream};
           };
           const auto run = [&]<int kSize>() {
             launch(clear_kernel, map_grid(values, 1, stream), counts, values, found, static_cast<int>(p.kept()));
             for (int k = 0; k < Radix<T>::kPasses; ++k) {
               int* of_pass = counts + k * kMaxDigits;
               launch(digits_kernel<T, kSize>, grid(blocks), w, p.n, static_cast<const Found*>(found), of_pass,
                      Radix<T>::kShifts[k], Radix<T>::kWidths[k]);
               launch(pick_kernel, grid(1), static_cast<const int*>(of_pass), Radix<T>::kWidths[k], found);
             }
             launch(ties_kernel<T, kSize>, grid(tiles), w, p.n, static_cast<const Found*>(found), before);
             launch(add_up_kernel, grid(1), static_cast<const Found*>(found), before, tiles);
             launch(prune_kernel<T, kSize>, grid(tiles), w, y, mask, p.n, static_cast<const Found*>(found),
                    static_cast<const int*>(before), static_cast<int>(p.kept()));
           };
           aligned16(w, y, mask) ? run.template operator()<kPack<T>>() : run.template operator()<1>();
         })
      .with(std::move(workspace));
}

Plan prune_tuned(const Prune& p, GpuContext& gpu) {
  using P = Prune;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    if (p.scheme == PruneScheme::magnitude) return by_magnitude<T>(p, gpu);
    return [p, stream = gpu.stream()](Args t) {
      const T* w = t[P::w].as<const T>();
      T* y = t[P::y].as<T>();
      auto* mask = t[P::mask].as<uint8_t>();
      if (aligned16(w, y, mask))
        launch(groups_kernel<T, kPack<T>, true>, map_grid(p.n, kPack<T>, stream), w, y, mask, p.n);
      else
        launch(groups_kernel<T, 4, false>, map_grid(p.n, 4, stream), w, y, mask, p.n);
    };
  });
}
DUET_REGISTER(prune_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
