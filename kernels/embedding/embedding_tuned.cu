// SPDX-License-Identifier: Apache-2.0
// Forward: a warp per row of y, or a part of one where rows are short. Backward: the tokens are first sorted by word,
// stably and 8 bits of the word at a time (a radix sort: sort_count_kernel, start_kernel, sort_scatter_kernel). Then a
// warp adds the rows of dy of a word in the order of the tokens, so that the result is the same in every run. The
// tokens of a frequent word, such as padding, are divided among many warps first (pieces_kernel).
#include <algorithm>
#include <bit>

#include "core/context.h"
#include "kernels/vector.cuh"
#include "ops/embedding/embedding.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kLanes = 32, kRows = 8;    // threads of a block
constexpr int64_t kMaxAdditions = 1024;  // of a thread in one f32 sum: fewer than ops/summation.h allows

// A row of threads, at most 32, for each token, no shared memory. cols is a multiple of kSize, and rows are aligned to
// kSize elements. token: (B, T), table: (words, cols), position: (T, cols) or null, y: (B, T, cols).
template <class T, int kSize>
__global__ void __launch_bounds__(kLanes* kRows)
    embedding_kernel(const int32_t* token, const T* table, const T* position, T* y, int64_t tokens, int64_t length,
                     int64_t words, int64_t cols) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= tokens) return;
  const int64_t word = token[row];
  const bool known = word >= 0 && word < words;
#pragma unroll 4
  for (int64_t c = threadIdx.x * kSize; c < cols; c += blockDim.x * kSize) {
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
        const int64_t lanes = std::min<int64_t>(kLanes, std::bit_ceil(static_cast<uint64_t>(ceil_div(p.C, kSize))));
        const int64_t rows = kLanes * kRows / lanes;
        const Grid grid{.blocks = ceil_div(p.tokens(), rows), .threads = {lanes, rows}, .stream = stream};
        launch(embedding_kernel<T, kSize>, grid, t[P::token].as<const int32_t>(), table, position, y, p.tokens(), p.T,
               p.V, p.C);
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

constexpr int kDigits = 256, kDigitBits = 8;
constexpr int kSteps = 8, kWarpItems = kLanes * kSteps, kTile = kWarpItems * kRows;  // tokens of a warp and of a block

// Tokens outside the table come last, as a word behind the last.
struct Words {
  const int32_t* token;
  int64_t words;
  __device__ __forceinline__ int32_t at(int32_t i) const {
    const int32_t word = token[i];
    return word >= 0 && word < words ? word : static_cast<int32_t>(words);
  }
};

// count[digit][tile]: the tokens of a tile by the digit of their word at bit `shift`. order: (tokens), or null for
// their own order. Blocks of (32, 8), one for each tile, 1 KiB of shared memory.
__global__ void __launch_bounds__(kLanes* kRows)
    sort_count_kernel(Words words, const int32_t* order, int32_t* count, int64_t tokens, int shift) {
  DUET_SHARED(int32_t, sums, [kDigits]);
  const int t = static_cast<int>(threadIdx.y * kLanes + threadIdx.x);
  static_assert(kLanes * kRows == kDigits);
  sums[t] = 0;
  __syncthreads();
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int64_t i = int64_t{blockIdx.x} * kTile + step * kDigits + t;
    if (i < tokens) atomicAdd(&sums[words.at(order ? order[i] : static_cast<int32_t>(i)) >> shift & (kDigits - 1)], 1);
  }
  __syncthreads();
  count[t * int64_t{gridDim.x} + blockIdx.x] = sums[t];
}

// start[v] = sum_{w < v} count[w] for v < n (exclusive prefix sums). One block of (32, 32), 128 bytes of shared memory.
// Each warp has a range of the counts and reads it twice: for the sum of the range, then for the prefix sums within it.
__global__ void __launch_bounds__(1024) start_kernel(const int32_t* count, int32_t* start, int64_t n) {
  DUET_SHARED(int32_t, sums, [32]);
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int64_t range = (n + 1023) / 1024 * 32, first = warp * range, last = min(n, first + range);

  // Sum of each warp's range, then of the ranges before it.
  int32_t sum = 0;
  for (int64_t v = first + lane; v < last; v += 32) sum += count[v];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  int32_t before = 0;
  for (int w = 0; w < warp; ++w) before += sums[w];

  // Prefix sums within the range, 32 counts at a time. All lanes have the same number of iterations.
  for (int64_t v = first; v < last; v += 32) {
    const int32_t mine = v + lane < last ? count[v + lane] : 0;
    int32_t through = mine;
    for (int distance = 1; distance < 32; distance *= 2) {
      const int32_t other = __shfl_up_sync(0xffffffffu, through, distance);
      if (lane >= distance) through += other;
    }
    if (v + lane < last) start[v + lane] = before + through - mine;
    before += __shfl_sync(0xffffffffu, through, 31);
  }
}

// Writes the tokens of each tile to `to`, stably sorted by the digit. start: (digits, tiles), the place of the first
// token of each. Grid as of sort_count_kernel; 8 KiB of shared memory. A warp has kWarpItems neighbours.
__global__ void __launch_bounds__(kLanes* kRows)
    sort_scatter_kernel(Words words, const int32_t* order, const int32_t* start, int32_t* to, int64_t tokens,
                        int shift) {
  DUET_SHARED(int32_t, next, [kRows][kDigits]);
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y), t = warp * kLanes + lane;
#pragma unroll
  for (int w = 0; w < kRows; ++w) next[w][t] = 0;
  __syncthreads();

  // Rank of each token among those of its warp with the same digit.
  int32_t item[kSteps], digit[kSteps], rank[kSteps];
  const int64_t first = int64_t{blockIdx.x} * kTile + warp * kWarpItems + lane;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int64_t i = first + step * kLanes;
    const bool exists = i < tokens;
    item[step] = exists ? (order ? order[i] : static_cast<int32_t>(i)) : 0;
    digit[step] = exists ? words.at(item[step]) >> shift & (kDigits - 1) : 0;
    unsigned same = __ballot_sync(0xffffffffu, exists);  // the lanes with this digit
#pragma unroll
    for (int bit = 0; bit < kDigitBits; ++bit) {
      const bool set = digit[step] >> bit & 1;
      const unsigned lanes = __ballot_sync(0xffffffffu, set);
      same &= set ? lanes : ~lanes;
    }
    const unsigned below = same & ((1u << lane) - 1);
    const int32_t before = next[warp][digit[step]];
    rank[step] = before + __popc(below);
    __syncwarp();
    if (exists && below == 0) next[warp][digit[step]] = before + __popc(same);
    __syncwarp();
  }
  __syncthreads();

  // Place of the first token of each warp and digit.
  int32_t place = start[t * int64_t{gridDim.x} + blockIdx.x];
#pragma unroll
  for (int w = 0; w < kRows; ++w) {
    const int32_t count = next[w][t];
    next[w][t] = place;
    place += count;
  }
  __syncthreads();

  // Write back.
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
    if (first + step * kLanes < tokens) to[next[warp][digit[step]] + rank[step]] = item[step];
}

// start[v]: the first place in `order` of a word that is not below v, for v = 0 .. words. A map_grid(words + 1, 1).
__global__ void __launch_bounds__(kMapBlock)
    bounds_kernel(Words words, const int32_t* order, int32_t* start, int32_t tokens) {
  const int64_t v = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (v > words.words) return;
  int32_t first = 0, last = tokens;
  while (first < last) {
    const int32_t middle = first + (last - first) / 2;
    if (words.at(order[middle]) < v)
      first = middle + 1;
    else
      last = middle;
  }
  start[v] = first;
}

// --- backward: sums of rows -----------------------------------------------------------------------------------------

// The sorted tokens are cut into pieces of kPiece. A word of more tokens than that is long: its rows of dy are added
// piece by piece. A piece has tokens of two long words at most: that of its first token, and that of its last.
constexpr int kPiece = 256;

// The rows that are added to a row of dtable: of dy, or for a long word of the sums of pieces, (pieces, 2, cols).
// offsets(r, cols): a function of k = 0, 1, ... in this order, which returns the first element of the k-th row.
struct WordRows {
  const int32_t *start, *order;
  const float* piece;
  __device__ __forceinline__ int64_t count(int64_t word) const { return start[word + 1] - start[word]; }
  __device__ __forceinline__ auto offsets(int64_t word, int64_t cols) const {
    return [tokens = order + start[word], cols](int64_t k) { return tokens[k] * cols; };
  }
  __device__ __forceinline__ bool is_long(int64_t word) const { return count(word) > kPiece; }
  __device__ __forceinline__ int64_t pieces(int64_t word) const {
    return (start[word + 1] - 1) / kPiece - start[word] / kPiece + 1;
  }
  // Only the first piece may begin with another word.
  __device__ __forceinline__ int64_t piece_at(int64_t word, int64_t k) const {
    return (start[word] / kPiece + k) * 2 + (k == 0 && start[word] % kPiece != 0);
  }
};
struct PositionRows {  // the rows of dy that are added to a row of dposition
  int64_t sequences, length;
  __device__ __forceinline__ int64_t count(int64_t) const { return sequences; }
  __device__ __forceinline__ auto offsets(int64_t position, int64_t cols) const {
    return [next = position * cols, step = length * cols](int64_t) mutable {
      const int64_t offset = next;
      next += step;
      return offset;
    };
  }
  static constexpr const float* piece = nullptr;
  __device__ __forceinline__ bool is_long(int64_t) const { return false; }
  __device__ __forceinline__ int64_t pieces(int64_t) const { return 0; }
  __device__ __forceinline__ int64_t piece_at(int64_t, int64_t) const { return 0; }
};

Grid strips_grid(int64_t rows, int64_t cols, int64_t size, cudaStream_t stream) {
  return {
      .blocks = {ceil_div(rows, kRows), ceil_div(cols, kLanes * size)}, .threads = {kLanes, kRows}, .stream = stream};
}

// Adds the kSize elements of from + at(k), for k = 0 ... count - 1 in this order, kMaxAdditions at a time.
template <int kSize, class T, class At>
__device__ __forceinline__ void add_packs(float (&total)[kSize], int64_t count, const T* from, At&& at) {
  constexpr int kWidth = kSize < kPack<T> ? kSize : kPack<T>;
  for (int64_t first = 0; first < count; first += kMaxAdditions) {
    const int64_t last = min(count, first + kMaxAdditions);
    float sum[kSize] = {};
#pragma unroll kSize == 1 ? 8 : 4
    for (int64_t k = first; k < last; ++k) {
      const T* row = from + at(k);
#pragma unroll
      for (int part = 0; part < kSize; part += kWidth) {
        const auto pack = load_pack<kWidth>(row + part);
#pragma unroll
        for (int e = 0; e < kWidth; ++e) sum[part + e] += float(pack.at[e]);
      }
    }
#pragma unroll
    for (int e = 0; e < kSize; ++e) total[e] += sum[e];
  }
}

// sums[piece][0]: the sum of the rows of dy of the tokens of the piece's first word, if that is long; sums[piece][1]:
// the same of its last word, if that is another. A strips_grid(2 pieces), no shared memory. Alignment as of
// add_rows_kernel.
template <class T, int kSize>
__global__ void __launch_bounds__(kLanes* kRows)
    pieces_kernel(Words words, WordRows from, const T* dy, float* sums, int64_t tokens, int64_t cols) {
  const int64_t row = int64_t{blockIdx.x} * kRows + threadIdx.y;
  const int64_t c = (int64_t{blockIdx.y} * kLanes + threadIdx.x) * kSize, begin = row / 2 * kPiece;
  if (begin >= tokens || c >= cols) return;
  const int64_t end = min(tokens, begin + kPiece);
  const int32_t word = words.at(from.order[begin]), last = words.at(from.order[end - 1]);
  const int64_t mine = row % 2 == 0 ? word : last;
  if ((row % 2 == 1 && last == word) || mine >= words.words || !from.is_long(mine)) return;
  const int64_t first = max(begin, int64_t{from.start[mine]}), count = min(end, int64_t{from.start[mine + 1]}) - first;
  float total[kSize] = {};
  add_packs(total, count, dy + c, [&](int64_t k) { return from.order[first + k] * cols; });
#pragma unroll
  for (int e = 0; e < kSize; ++e) sums[row * cols + c + e] = total[e];
}

// to[r] = the sum of the rows of dy that `from` names, added to to[r] with `accumulate`. A strips_grid(rows), no shared
// memory. cols is a multiple of kSize, and rows are aligned to kSize elements. dy: (tokens, cols), to: (rows, cols).
template <class T, int kSize, class From>
__global__ void __launch_bounds__(kLanes* kRows)
    add_rows_kernel(From from, const T* dy, T* to, int64_t rows, int64_t cols, bool accumulate) {
  const int64_t row = int64_t{blockIdx.x} * kRows + threadIdx.y;
  const int64_t c = (int64_t{blockIdx.y} * kLanes + threadIdx.x) * kSize;
  if (row >= rows || c >= cols) return;
  const int64_t count = from.count(row);
  if (count == 0 && accumulate) return;
  Pack<T, kSize> pack;
  float total[kSize] = {};
  if (accumulate) {
    pack = load_pack<kSize>(to + row * cols + c);
#pragma unroll
    for (int e = 0; e < kSize; ++e) total[e] = float(pack.at[e]);
  }
  if (from.is_long(row))
    add_packs(total, from.pieces(row), from.piece + c, [&](int64_t k) { return from.piece_at(row, k) * cols; });
  else
    add_packs(total, count, dy + c, from.offsets(row, cols));
#pragma unroll
  for (int e = 0; e < kSize; ++e) pack.at[e] = T(total[e]);
  store_pack(to + row * cols + c, pack);
}

template <class T>
Plan plan_backward(const EmbeddingBackward& p, GpuContext& gpu) {
  using P = EmbeddingBackward;
  const int64_t tokens = p.tokens(), tiles = ceil_div(tokens, kTile), pieces = ceil_div(tokens, kPiece);
  int passes = 1;
  while (p.V >> (passes * kDigitBits) > 0) ++passes;  // words up to V: that of tokens outside the table
  WorkspaceLayout workspace;
  const auto count = workspace.add<int32_t>(kDigits * tiles), place = workspace.add<int32_t>(kDigits * tiles);
  const auto even = workspace.add<int32_t>(tokens), odd = workspace.add<int32_t>(tokens);
  const auto start = workspace.add<int32_t>(p.V + 1);
  const bool may_be_long = tokens > kPiece;
  const auto sums = workspace.add<float>(may_be_long ? pieces * 2 * p.C : 0);
  return Plan([=, stream = gpu.stream()](Args t) {
           const T* dy = t[P::dy].as<const T>();
           T *dtable = t[P::dtable].as<T>(), *dposition = p.position ? t[P::dposition].as<T>() : nullptr;
           // Sort.
           const Words words{t[P::token].as<const int32_t>(), p.V};
           const Grid grid{.blocks = tiles, .threads = {kLanes, kRows}, .stream = stream};
           const int32_t* order = nullptr;
           for (int pass = 0; pass < passes; ++pass) {
             int32_t* to = t.workspace(pass % 2 == 0 ? even : odd);
             const int shift = pass * kDigitBits;
             launch(sort_count_kernel, grid, words, order, t.workspace(count), tokens, shift);
             launch(start_kernel, Grid{.blocks = 1, .threads = {32, 32}, .stream = stream}, t.workspace(count),
                    t.workspace(place), kDigits * tiles);
             launch(sort_scatter_kernel, grid, words, order, t.workspace(place), to, tokens, shift);
             order = to;
           }
           launch(bounds_kernel, map_grid(p.V + 1, 1, stream), words, order, t.workspace(start), tokens);
           // Add.
           const WordRows rows{t.workspace(start), order, t.workspace(sums)};
           const auto add = [&]<int kSize>() {
             if (may_be_long)
               launch(pieces_kernel<T, kSize>, strips_grid(2 * pieces, p.C, kSize, stream), words, rows, dy,
                      t.workspace(sums), tokens, p.C);
             launch(add_rows_kernel<T, kSize, WordRows>, strips_grid(p.V, p.C, kSize, stream), rows, dy, dtable, p.V,
                    p.C, p.accumulate);
             if (p.position)
               launch(add_rows_kernel<T, kSize, PositionRows>, strips_grid(p.T, p.C, kSize, stream),
                      PositionRows{p.B, p.T}, dy, dposition, p.T, p.C, false);
           };
           if (p.C % kPack<T> == 0 && aligned16(dy, dtable, dposition))
             add.template operator()<kPack<T>>();
           else
             add.template operator()<1>();
         })
      .with(std::move(workspace));
}

Plan embedding_backward_tuned(const EmbeddingBackward& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan { return plan_backward<T>(p, gpu); });
}
DUET_REGISTER(embedding_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
