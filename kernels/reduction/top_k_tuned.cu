// SPDX-License-Identifier: Apache-2.0
// Each warp keeps the k largest elements of what it has read as a sorted list in its registers, a few keys in each lane
// (the list of Johnson, Douze, Jegou, arXiv:1702.08734, without their queues). An element is first compared with the
// last of the list, so that most packs cost a vote; the others are inserted one by one. A warp takes a short row, a
// block of eight warps a long one or a part of it; parts leave their lists in memory, and a second launch merges them.
#include <algorithm>

#include "core/plan.h"
#include "kernels/reduction/rank_key.cuh"
#include "kernels/vector.cuh"
#include "ops/reduction/top_k.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kWarps = 8;               // of a block
constexpr int64_t kMaxWarpCols = 1024;  // up to this length a row is taken by a warp
constexpr int64_t kMinPart = 8192;      // elements
constexpr int64_t kMaxK = 128;

// The kKeys * 32 largest keys, in descending order: key r * 32 + lane is top[r] of that lane. 0 where there are fewer.
template <int kKeys>
struct WarpList {
  RankKey top[kKeys] = {};

  // Called by all lanes with the same key, which is above the last.
  __device__ __forceinline__ void insert(RankKey key, int lane) {
    int place = 0;
#pragma unroll
    for (int r = 0; r < kKeys; ++r) place += __popc(__ballot_sync(kAllLanes, top[r] > key));
#pragma unroll
    for (int r = kKeys - 1; r >= 0; --r) {
      RankKey before = __shfl_up_sync(kAllLanes, top[r], 1);
      if (r > 0) {
        const RankKey carried = __shfl_sync(kAllLanes, top[r > 0 ? r - 1 : 0], 31);
        if (lane == 0) before = carried;
      }
      const int at = r * 32 + lane;
      top[r] = at < place ? top[r] : at == place ? key : before;
    }
  }
  // Key k - 1, for all lanes.
  __device__ __forceinline__ RankKey last(int k) const {
    RankKey key = 0;
#pragma unroll
    for (int r = 0; r < kKeys; ++r)
      if ((k - 1) / 32 == r) key = __shfl_sync(kAllLanes, top[r], (k - 1) % 32);
    return key;
  }
  // Inserts one key of each lane; 0 stands for none. `least` is last(k), and stays it.
  __device__ __forceinline__ void add(RankKey key, int lane, int k, RankKey& least) {
    unsigned wanted = __ballot_sync(kAllLanes, key > least);
    while (wanted != 0) {
      const int source = __popc((wanted & (0u - wanted)) - 1);  // the lowest lane
      const RankKey next = __shfl_sync(kAllLanes, key, source);
      wanted &= wanted - 1;
      if (next <= least) continue;
      insert(next, lane);
      least = last(k);
    }
  }
};

// Adds the elements of a row from `first` to `last` that are this warp's: every kStep-th group of 32 packs. x is the
// row, which is aligned to kSize elements from `first` on, up to the last, single elements.
template <int kSize, int kStep, class T, int kKeys>
__device__ __forceinline__ void add_packs(const T* x, int64_t first, int64_t packs, int warp, int lane, int k,
                                          WarpList<kKeys>& list, RankKey& least) {
  for (int64_t group = warp * int64_t{32}; group < packs; group += kStep * 32) {
    const int64_t pack = group + lane, c = first + pack * kSize;
    const bool exists = pack < packs;
    Pack<T, kSize> values;
    if (exists) values = load_pack<kSize>(x + c);

    // Which elements may get in. Those of lower columns were added before, except in this group, so that an element
    // that equals the last of the list stays out.
    const bool full = least != 0;
    const float bound = value_of(least);
    unsigned candidates = 0;
    if (exists) {
#pragma unroll
      for (int e = 0; e < kSize; ++e) candidates |= (!full || !(float(values.at[e]) <= bound) ? 1u : 0u) << e;
    }
    if (!__any_sync(kAllLanes, candidates != 0)) continue;
#pragma unroll
    for (int e = 0; e < kSize; ++e)
      list.add(candidates >> e & 1 ? rank_key(float(values.at[e]), static_cast<int>(c + e)) : 0, lane, k, least);
  }
}

// Where a sorted list goes: keys of a part, or the results of a row.
struct StoreKeys {
  RankKey* keys;  // (rows * parts, k)
  __device__ __forceinline__ void operator()(int64_t list, int i, int k, RankKey key) const {
    keys[list * k + i] = key;
  }
};
template <class T>
struct StoreTop {
  const T* x;  // (rows, cols)
  int64_t cols;
  T* value;
  int* index;  // (rows, k)
  __device__ __forceinline__ void operator()(int64_t row, int i, int k, RankKey key) const {
    value[row * k + i] = x[row * cols + column_of(key)];
    index[row * k + i] = column_of(key);
  }
};

// Merges the lists of the warps of a block into that of the first warp. shared: kWarps * kKeys * 32 keys.
template <int kKeys>
__device__ __forceinline__ void merge_warps(WarpList<kKeys>& list, int warp, int lane, int k, RankKey& least,
                                            RankKey* shared) {
#pragma unroll
  for (int r = 0; r < kKeys; ++r) shared[(warp * kKeys + r) * 32 + lane] = list.top[r];
  __syncthreads();
  if (warp != 0) return;
  for (int other = kKeys; other < kWarps * kKeys; ++other) list.add(shared[other * 32 + lane], lane, k, least);
}

template <int kKeys, class Store>
__device__ __forceinline__ void store_list(const WarpList<kKeys>& list, int64_t number, int lane, int k,
                                           const Store& store) {
#pragma unroll
  for (int r = 0; r < kKeys; ++r)
    if (r * 32 + lane < k) store(number, r * 32 + lane, k, list.top[r]);
}

// The k largest of at most `length` elements of row `row` from part * length on, as list row * parts + part. Blocks of
// (32, kWarps). kBlockPerRow: one block for each row and part, 2 KiB * kKeys of shared memory; otherwise a warp for
// each row, parts = 1. x: (rows, cols).
template <class T, int kKeys, bool kBlockPerRow, class Store>
__global__ void __launch_bounds__(32 * kWarps)
    rows_kernel(const T* x, Store store, int64_t rows, int64_t cols, int64_t parts, int64_t length, int k) {
  DUET_SHARED(RankKey, shared, [kBlockPerRow ? kWarps * kKeys * 32 : 1]);
  constexpr int kStep = kBlockPerRow ? kWarps : 1;
  const int lane = static_cast<int>(threadIdx.x), warp = kBlockPerRow ? static_cast<int>(threadIdx.y) : 0;
  const int64_t number = kBlockPerRow ? int64_t{blockIdx.x} : int64_t{blockIdx.x} * kWarps + threadIdx.y;
  const int64_t row = number / parts, first = number % parts * length, last = min(cols, first + length);
  if (row >= rows) return;  // for a whole warp, which has no block barrier; it does not happen with a block per row
  WarpList<kKeys> list;
  RankKey least = 0;

  // Single elements up to the first 16-byte boundary, packs, single elements.
  x += row * cols;
  const int64_t head = min(last - first, elements_to_alignment(x + first));
  const int64_t packs = (last - first - head) / kPack<T>, tail = first + head + packs * kPack<T>;
  add_packs<1, kStep>(x, first, head, warp, lane, k, list, least);
  add_packs<kPack<T>, kStep>(x, first + head, packs, warp, lane, k, list, least);
  add_packs<1, kStep>(x, tail, last - tail, warp, lane, k, list, least);

  if constexpr (kBlockPerRow) {
    merge_warps(list, warp, lane, k, least, shared);
    if (warp != 0) return;
  }
  store_list(list, number, lane, k, store);
}

// The k largest of the lists of a row's parts. One block of (32, kWarps) for each row, 2 KiB * kKeys of shared memory.
// keys: (rows, count).
template <int kKeys, class Store>
__global__ void __launch_bounds__(32 * kWarps) merge_kernel(const RankKey* keys, Store store, int64_t count, int k) {
  DUET_SHARED(RankKey, shared, [kWarps * kKeys * 32]);
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  keys += blockIdx.x * count;
  WarpList<kKeys> list;
  RankKey least = 0;
  for (int64_t group = warp * int64_t{32}; group < count; group += kWarps * 32)
    list.add(group + lane < count ? keys[group + lane] : 0, lane, k, least);
  merge_warps(list, warp, lane, k, least, shared);
  if (warp == 0) store_list(list, blockIdx.x, lane, k, store);
}

template <class T, int kKeys>
Plan plan(const TopK& p, GpuContext& gpu) {
  const int64_t wanted = 4 * gpu.multiprocessors();  // blocks
  const bool warp_per_row = p.cols <= kMaxWarpCols;
  const int64_t parts =
      warp_per_row || p.rows == 0 ? 1 : std::clamp<int64_t>(ceil_div(wanted, p.rows), 1, ceil_div(p.cols, kMinPart));
  const int64_t length = ceil_div(ceil_div(p.cols, parts), kMinPart) * kMinPart;
  WorkspaceLayout workspace;
  const auto piece = workspace.add<RankKey>(parts > 1 ? p.rows * parts * p.k : 0);
  return Plan([p, warp_per_row, parts, length, piece, stream = gpu.stream()](Args t) {
           const int k = static_cast<int>(p.k);
           const T* x = t[TopK::x].as<const T>();
           const StoreTop<T> store{x, p.cols, t[TopK::value].as<T>(), t[TopK::index].as<int>()};
           const auto grid = [&](int64_t blocks) {
             return Grid{.blocks = blocks, .threads = {32, kWarps}, .stream = stream};
           };
           if (warp_per_row)
             return launch(rows_kernel<T, kKeys, false, StoreTop<T>>, grid(ceil_div(p.rows, kWarps)), x, store, p.rows,
                           p.cols, parts, length, k);
           if (parts == 1)
             return launch(rows_kernel<T, kKeys, true, StoreTop<T>>, grid(p.rows), x, store, p.rows, p.cols, parts,
                           p.cols, k);
           RankKey* keys = t.workspace(piece);
           launch(rows_kernel<T, kKeys, true, StoreKeys>, grid(p.rows * parts), x, StoreKeys{keys}, p.rows, p.cols,
                  parts, length, k);
           launch(merge_kernel<kKeys, StoreTop<T>>, grid(p.rows), keys, store, parts * p.k, k);
         })
      .with(std::move(workspace));
}

Plan top_k_tuned(const TopK& p, GpuContext& gpu) {
  if (p.k > kMaxK) return Unsupported{"k over 128, the keys in the registers of a warp"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return p.k <= 32 ? plan<T, 1>(p, gpu) : p.k <= 64 ? plan<T, 2>(p, gpu) : plan<T, 4>(p, gpu);
  });
}
DUET_REGISTER(top_k_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
