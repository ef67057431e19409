// SPDX-License-Identifier: Apache-2.0
// Forward: one warp per row of y. Backward: the tokens are first sorted by word, with integer atomics only: they are
// counted, scattered to their words in any order, and then each computes its rank among its word's tokens. After that
// one warp per row of dtable adds rows of dy in the order of the tokens, so that the result is the same in every run.
#include "core/context.h"
#include "kernels/vector.cuh"
#include "ops/embedding/embedding.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kLanes = 32, kRows = 8;    // threads of a block
constexpr int64_t kMaxAdditions = 1024;  // of a thread in one f32 sum: fewer than ops/summation.h allows

Grid rows_grid(int64_t rows, cudaStream_t stream) {
  return {.blocks = ceil_div(rows, kRows), .threads = {kLanes, kRows}, .stream = stream};
}

// A rows_grid(tokens), no shared memory. cols is a multiple of kSize, and rows are aligned to kSize elements. token:
// (B, T), table: (words, cols), position: (T, cols) or null, y: (B, T, cols).
template <class T, int kSize>
__global__ void __launch_bounds__(kLanes* kRows)
    embedding_kernel(const int32_t* token, const T* table, const T* position, T* y, int64_t tokens, int64_t length,
                     int64_t words, int64_t cols) {
  const int64_t row = int64_t{blockIdx.x} * kRows + threadIdx.y;
  if (row >= tokens) return;
  const int64_t word = token[row];
  const bool known = word >= 0 && word < words;
#pragma unroll 4
  for (int64_t c = threadIdx.x * kSize; c < cols; c += kLanes * kSize) {
    Pack<T, kSize> pack;
#pragma unroll
    for (int e = 0; e < kSize; ++e) pack.at[e] = T(0.0f);
    if (known) pack = load_pack<kSize>(table + word * cols + c);
    if (position) {
      const auto place = load_pack<kSize>(position + row % length * cols + c);
#pragma unroll
      for (int e = 0; e < kSize; ++e) pack.at[e] = T(float(pack.at[e]) + float(place.at[e]));
    }
    store_pack(y + row * cols + c, pack);
  }
}

Plan embedding_tuned(const Embedding& p, GpuContext& gpu) {
  using P = Embedding;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T *table = t[P::table].as<const T>(), *position = p.position ? t[P::place].as<const T>() : nullptr;
      T* y = t[P::y].as<T>();
      const auto run = [&]<int kSize>() {
        launch(embedding_kernel<T, kSize>, rows_grid(p.tokens(), stream), t[P::token].as<const int32_t>(), table,
               position, y, p.tokens(), p.T, p.V, p.C);
      };
      if (p.C % kPack<T> == 0 && aligned16(table, position, y))
        run.template operator()<kPack<T>>();
      else
        run.template operator()<1>();
    };
  });
}
DUET_REGISTER(embedding_tuned);

// --- backward: sorting the tokens by word ---------------------------------------------------------------------------

__global__ void __launch_bounds__(kMapBlock) clear_kernel(int32_t* to, int64_t n) {  // a map_grid(n, 1)
  const int64_t i = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (i < n) to[i] = 0;
}

// A map_grid(tokens, 1). count: (words), zeros before.
__global__ void __launch_bounds__(kMapBlock)
    count_kernel(const int32_t* token, int32_t* count, int64_t tokens, int64_t words) {
  const int64_t i = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (i < tokens && token[i] >= 0 && token[i] < words) atomicAdd(&count[token[i]], 1);
}

// start[v] = sum_{w < v} count[w] for v = 0 .. words (exclusive prefix sums); count becomes a copy of start. One block
// of (32, 32), 128 bytes of shared memory. Each warp has a range of the words and reads it twice: for the sum of the
// range, then for the prefix sums within it.
__global__ void __launch_bounds__(1024) start_kernel(int32_t* count, int32_t* start, int64_t words) {
  DUET_SHARED(int32_t, sums, [32]);
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int64_t range = (words + 1023) / 1024 * 32, first = warp * range, last = min(words, first + range);

  // Sum of each warp's range, then of the ranges before it.
  int32_t sum = 0;
  for (int64_t v = first + lane; v < last; v += 32) sum += count[v];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  int32_t before = 0;
  for (int w = 0; w < warp; ++w) before += sums[w];

  // Prefix sums within the range, 32 words at a time. All lanes have the same number of iterations.
  for (int64_t v = first; v < last; v += 32) {
    const int32_t mine = v + lane < last ? count[v + lane] : 0;
    int32_t through = mine;
    for (int distance = 1; distance < 32; distance *= 2) {
      const int32_t other = __shfl_up_sync(0xffffffffu, through, distance);
      if (lane >= distance) through += other;
    }
    if (v + lane < last) {
      start[v + lane] = before + through - mine;
      count[v + lane] = before + through - mine;
    }
    before += __shfl_sync(0xffffffffu, through, 31);
  }
  if (lane == 0 && warp == 31) start[words] = before;
}

// A map_grid(tokens, 1). next: (words), initially the start of each word. scattered: (tokens), by word, in any order
// within a word.
__global__ void __launch_bounds__(kMapBlock)
    scatter_kernel(const int32_t* token, int32_t* next, int32_t* scattered, int64_t tokens, int64_t words) {
  const int64_t i = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (i < tokens && token[i] >= 0 && token[i] < words)
    scattered[atomicAdd(&next[token[i]], 1)] = static_cast<int32_t>(i);
}

// A map_grid(tokens, 1). order: as scattered, but ascending within each word.
__global__ void __launch_bounds__(kMapBlock)
    rank_kernel(const int32_t* token, const int32_t* start, const int32_t* scattered, int32_t* order, int64_t tokens,
                int64_t words) {
  const int64_t i = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (i >= tokens || token[i] < 0 || token[i] >= words) return;
  const int32_t first = start[token[i]], last = start[token[i] + 1];
  int32_t rank = 0;
  for (int32_t k = first; k < last; ++k) rank += scattered[k] < i;
  order[first + rank] = static_cast<int32_t>(i);
}

// --- backward: sums of rows -----------------------------------------------------------------------------------------

struct WordRows {  // the rows of dy that are added to a row of dtable
  const int32_t *start, *order;
  __device__ __forceinline__ int64_t count(int64_t word) const { return start[word + 1] - start[word]; }
  __device__ __forceinline__ int64_t at(int64_t word, int64_t k) const { return order[start[word] + k]; }
};
struct PositionRows {  // the rows of dy that are added to a row of dposition
  int64_t sequences, length;
  __device__ __forceinline__ int64_t count(int64_t) const { return sequences; }
  __device__ __forceinline__ int64_t at(int64_t position, int64_t k) const { return k * length + position; }
};

// to[r] = the sum of the rows dy[from.at(r, k)], added to to[r] with `accumulate`. A rows_grid(rows), no shared memory.
// cols is a multiple of kSize, and rows are aligned to kSize elements. dy: (tokens, cols), to: (rows, cols).
template <class T, int kSize, class From>
__global__ void __launch_bounds__(kLanes* kRows)
    add_rows_kernel(From from, const T* dy, T* to, int64_t rows, int64_t cols, bool accumulate) {
  const int64_t row = int64_t{blockIdx.x} * kRows + threadIdx.y;
  if (row >= rows) return;
  const int64_t count = from.count(row);
  if (count == 0 && accumulate) return;
  for (int64_t c = threadIdx.x * kSize; c < cols; c += kLanes * kSize) {
    float total[kSize] = {};
    if (accumulate) {
      const auto pack = load_pack<kSize>(to + row * cols + c);
#pragma unroll
      for (int e = 0; e < kSize; ++e) total[e] = float(pack.at[e]);
    }
    for (int64_t first = 0; first < count; first += kMaxAdditions) {
      const int64_t last = min(count, first + kMaxAdditions);
      float sum[kSize] = {};
#pragma unroll 4
      for (int64_t k = first; k < last; ++k) {
        const auto pack = load_pack<kSize>(dy + from.at(row, k) * cols + c);
#pragma unroll
        for (int e = 0; e < kSize; ++e) sum[e] += float(pack.at[e]);
      }
#pragma unroll
      for (int e = 0; e < kSize; ++e) total[e] += sum[e];
    }
    Pack<T, kSize> pack;
#pragma unroll
    for (int e = 0; e < kSize; ++e) pack.at[e] = T(total[e]);
    store_pack(to + row * cols + c, pack);
  }
}
template <class T, class From>
void add_rows(cudaStream_t stream, const From& from, const T* dy, T* to, int64_t rows, int64_t cols, bool accumulate) {
  if (cols % kPack<T> == 0 && aligned16(dy, to))
    launch(add_rows_kernel<T, kPack<T>, From>, rows_grid(rows, stream), from, dy, to, rows, cols, accumulate);
  else
    launch(add_rows_kernel<T, 1, From>, rows_grid(rows, stream), from, dy, to, rows, cols, accumulate);
}

Plan embedding_backward_tuned(const EmbeddingBackward& p, GpuContext& gpu) {
  using P = EmbeddingBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const auto next = workspace.add<int32_t>(p.V), start = workspace.add<int32_t>(p.V + 1);
    const auto scattered = workspace.add<int32_t>(p.tokens()), order = workspace.add<int32_t>(p.tokens());
    return Plan([p, next, start, scattered, order, stream = gpu.stream()](Args t) {
             const auto* token = t[P::token].as<const int32_t>();
             const T* dy = t[P::dy].as<const T>();
             auto *begin = t.workspace(start), *end = t.workspace(next);
             const Grid tokens = map_grid(p.tokens(), 1, stream);
             launch(clear_kernel, map_grid(p.V, 1, stream), end, p.V);
             launch(count_kernel, tokens, token, end, p.tokens(), p.V);
             launch(start_kernel, Grid{.blocks = 1, .threads = {32, 32}, .stream = stream}, end, begin, p.V);
             launch(scatter_kernel, tokens, token, end, t.workspace(scattered), p.tokens(), p.V);
             launch(rank_kernel, tokens, token, begin, t.workspace(scattered), t.workspace(order), p.tokens(), p.V);
             add_rows(stream, WordRows{begin, t.workspace(order)}, dy, t[P::dtable].as<T>(), p.V, p.C, p.accumulate);
             if (p.position) add_rows(stream, PositionRows{p.B, p.T}, dy, t[P::dposition].as<T>(), p.T, p.C, false);
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(embedding_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
