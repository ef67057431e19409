// SPDX-License-Identifier: Apache-2.0
// 2:4: one thread per group of four.
// magnitude: the smallest size that is kept is found bit by bit, from the highest: one launch for each bit counts the
// elements of at least that size with an atomic addition, and another one, of a single thread, decides. Then each
// thread prunes a run of elements, after one thread has added up how many elements of that size lie before each run.
#include "kernels/elementwise/prune.cuh"
#include "ops/elementwise/prune.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;
constexpr int64_t kRun = 256;  // elements

// One thread per group of four, kThreads a block; no shared memory. w, y, mask: (n). y may be w.
template <class T>
__global__ void groups_kernel(const T* w, T* y, uint8_t* mask, int64_t n) {
  const int64_t first = 4 * (int64_t{blockIdx.x} * kThreads + threadIdx.x);
  if (first >= n) return;
  const int count = static_cast<int>(min(int64_t{4}, n - first));
  T group[4];
  for (int k = 0; k < count; ++k) group[k] = w[first + k];
  for (int k = 0; k < count; ++k) {
    const bool keep = kept_of_four(group, k, count);
    y[first + k] = keep ? group[k] : T(0.0f);
    mask[first + k] = keep;
  }
}

struct Search {
  unsigned threshold, candidate;  // the bits that are known; those with the next bit set
  int at_least;                   // elements of at least the candidate
  int ties;                       // elements of the threshold's size that are kept
};

// One thread. bit: the one that is looked at next; kept: elements that are kept.
__global__ void decide_kernel(Search* search, int bit, int top, int kept) {
  if (bit == top) search->threshold = 0;
  if (bit < top && search->at_least >= kept) search->threshold = search->candidate;
  search->candidate = bit >= 0 ? search->threshold | 1u << bit : search->threshold + 1;
  search->at_least = 0;
}

// ceil(n / kThreads) blocks of kThreads, no shared memory.
template <class T>
__global__ void count_kernel(const T* w, int64_t n, Search* search) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n && weight_size(w[i]) >= search->candidate) atomicAdd(&search->at_least, 1);
}

// before[k] = elements of the threshold's size in run k. One thread per run.
template <class T>
__global__ void ties_kernel(const T* w, int64_t n, const Search* search, int* before) {
  const int64_t run = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (run * kRun >= n) return;
  int ties = 0;
  for (int64_t i = run * kRun; i < min(n, (run + 1) * kRun); ++i) ties += weight_size(w[i]) == search->threshold;
  before[run] = ties;
}

// before[k] = the sum of those of the runs before k. One thread.
__global__ void add_up_kernel(Search* search, int* before, int64_t runs, int kept) {
  search->ties = kept - search->at_least;
  int sum = 0;
  for (int64_t k = 0; k < runs; ++k) {
    const int ties = before[k];
    before[k] = sum;
    sum += ties;
  }
}

// One thread per run. w, y, mask: (n). y may be w.
template <class T>
__global__ void prune_kernel(const T* w, T* y, uint8_t* mask, int64_t n, const Search* search, const int* before,
                             int kept) {
  const int64_t run = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (run * kRun >= n) return;
  int left = search->ties - before[run];
  for (int64_t i = run * kRun; i < min(n, (run + 1) * kRun); ++i) {
    const T value = w[i];
    const unsigned size = weight_size(value);
    const bool tie = size == search->threshold;
    const bool keep = kept > 0 && (size > search->threshold || (tie && left > 0));
    left -= tie;
    y[i] = keep ? value : T(0.0f);
    mask[i] = keep;
  }
}

Plan prune_naive(const Prune& p, GpuContext& gpu) {
  using P = Prune;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const auto grid = [stream = gpu.stream()](int64_t threads) {
      return Grid{.blocks = ceil_div(threads, kThreads), .threads = kThreads, .stream = stream};
    };
    if (p.scheme == PruneScheme::two_of_four)
      return [p, grid](Args t) {
        launch(groups_kernel<T>, grid(ceil_div(p.n, 4)), t[P::w].as<const T>(), t[P::y].as<T>(),
               t[P::mask].as<uint8_t>(), p.n);
      };
    if (p.n > INT32_MAX) return Unsupported{"more than 2^31 - 1 elements"};
    WorkspaceLayout workspace;
    const int64_t runs = ceil_div(p.n, kRun);
    const auto search = workspace.add<Search>(1);
    const auto before = workspace.add<int>(runs);
    return Plan([=, stream = gpu.stream()](Args t) {
             const T* w = t[P::w].as<const T>();
             Search* found = t.workspace(search);
             const int kept = static_cast<int>(p.kept());
             const Grid one{.stream = stream};
             for (int bit = kSizeBits<T> - 1; bit >= -1; --bit) {
               launch(decide_kernel, one, found, bit, kSizeBits<T> - 1, kept);
               launch(count_kernel<T>, grid(p.n), w, p.n, found);
             }
             launch(ties_kernel<T>, grid(runs), w, p.n, static_cast<const Search*>(found), t.workspace(before));
             launch(add_up_kernel, one, found, t.workspace(before), runs, kept);
             launch(prune_kernel<T>, grid(runs), w, t[P::y].as<T>(), t[P::mask].as<uint8_t>(), p.n,
                    static_cast<const Search*>(found), static_cast<const int*>(t.workspace(before)), kept);
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(prune_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
