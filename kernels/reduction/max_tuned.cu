// SPDX-License-Identifier: Apache-2.0
// max and argmax. Long rows and columns are divided into parts, so that there are enough blocks for the whole GPU; a
// second launch merges the parts. Along axis 1 a warp or a block takes a row or a part of it, in packs of 16 bytes;
// along axis 0 a thread takes packs of neighbouring columns, down the rows of a part.
#include <algorithm>

#include "core/plan.h"
#include "kernels/reduction/largest.cuh"
#include "kernels/vector.cuh"
#include "ops/reduction/max.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kWarp = 32, kBlock = 512;  // threads for one part of a row
constexpr int kWarps = kBlock / 32;
constexpr int64_t kMaxWarpCols = 1024;  // up to this length a row is taken by a warp

// What is stored for each part: (results, parts) along axis 1, (parts, cols) along axis 0.
struct StoreLargestPart {
  float* value;
  int* place;
  __device__ __forceinline__ void operator()(int64_t i, const Largest& l) const {
    value[i] = l.value;
    place[i] = l.place;
  }
};

// --- along axis 1 ---------------------------------------------------------------------------------------------------

// store(row * parts + part, the largest of at most `length` elements of row `row` from part * length on). kThreads =
// 32: blocks of (32, 8), a warp for each of 8 rows, parts = 1. kThreads = 512: one block for each row and part. 128
// bytes of shared memory. x: (rows, cols).
template <class T, int kThreads, class Store>
__global__ void __launch_bounds__(kThreads == kWarp ? 256 : kBlock)
    rows_kernel(const T* x, Store store, int64_t rows, int64_t cols, int64_t parts, int64_t length) {
  DUET_SHARED(float, values, [kWarps]);
  DUET_SHARED(int, places, [kWarps]);
  const int64_t index = int64_t{blockIdx.x} * blockDim.y + threadIdx.y, row = index / parts, part = index % parts;
  if (row >= rows) return;  // for a whole warp, which has no block barrier; it does not happen with kThreads = 512
  // A thread meets its elements in the order of their places.
  Largest largest;
  for_row<kThreads, kPack<T>>(x + row * cols + part * length, min(length, cols - part * length),
                              [&](const auto& pack, int64_t c) {
                                constexpr int kSize = sizeof(pack.at) / sizeof(T);
                                const int first = static_cast<int>(part * length + c);
#pragma unroll
                                for (int e = 0; e < kSize; ++e) largest.add(float(pack.at[e]), first + e);
                              });
  largest.merge_warp();
  if constexpr (kThreads > 32) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (threadIdx.x % 32 == 0) {
      values[warp] = largest.value;
      places[warp] = largest.place;
    }
    __syncthreads();
    if (threadIdx.x == 0)
      for (int w = 1; w < kWarps; ++w) largest.merge(values[w], places[w]);
  }
  if (threadIdx.x == 0) store(index, largest);
}

// store(row, the largest of the row's parts). Blocks of (32, 8), a warp for each of 8 rows, no shared memory. value,
// place: (rows, parts).
template <class Store>
__global__ void __launch_bounds__(256)
    merge_parts_kernel(const float* value, const int* place, Store store, int64_t rows, int64_t parts) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  Largest largest;
  for (int64_t k = threadIdx.x; k < parts; k += 32) largest.merge(value[row * parts + k], place[row * parts + k]);
  largest.merge_warp();
  if (threadIdx.x == 0) store(row, largest);
}

template <class T, class Store>
void launch_rows(cudaStream_t stream, const T* x, const Store& store, int64_t rows, int64_t cols, int64_t parts,
                 int64_t length) {
  if (parts == 1 && cols <= kMaxWarpCols)
    launch(rows_kernel<T, kWarp, Store>, Grid{.blocks = ceil_div(rows, 8), .threads = {kWarp, 8}, .stream = stream}, x,
           store, rows, cols, parts, length);
  else
    launch(rows_kernel<T, kBlock, Store>, Grid{.blocks = rows * parts, .threads = kBlock, .stream = stream}, x, store,
           rows, cols, parts, length);
}

// --- along axis 0 ---------------------------------------------------------------------------------------------------

constexpr int kLanes = 32, kRows = 8;  // threads of a block

// What the kernel reads: elements of x, or parts.
template <class T>
struct LoadMatrix {
  const T* x;  // (rows, cols)
  int64_t cols;
  template <int kSize>
  __device__ __forceinline__ void operator()(int64_t row, int64_t c, Largest (&to)[kSize]) const {
    const auto pack = load_pack<kSize>(x + row * cols + c);
#pragma unroll
    for (int e = 0; e < kSize; ++e) to[e].add(float(pack.at[e]), static_cast<int>(row));
  }
};
struct LoadParts {
  const float* value;
  const int* place;  // (parts, cols)
  int64_t cols;
  template <int kSize>
  __device__ __forceinline__ void operator()(int64_t row, int64_t c, Largest (&to)[kSize]) const {
#pragma unroll
    for (int e = 0; e < kSize; ++e) to[e].merge(value[row * cols + c + e], place[row * cols + c + e]);
  }
};

// store(part * cols + c, the largest of column c in rows part * height ... of at most `height`). Blocks of (32, kRows),
// one for each strip of 32 * kSize columns (grid x) and part (grid y). A thread takes every kRows-th row of kSize
// columns: the loads of a warp coalesce. kRows * kSize * 256 bytes of shared memory. Rows are aligned to kSize
// elements.
template <int kSize, class Load, class Store>
__global__ void __launch_bounds__(kLanes* kRows)
    columns_kernel(Load load, Store store, int64_t rows, int64_t cols, int64_t height) {
  DUET_SHARED(float, values, [kRows][kLanes * kSize]);
  DUET_SHARED(int, places, [kRows][kLanes * kSize]);
  const int64_t c = (int64_t{blockIdx.x} * kLanes + threadIdx.x) * kSize, first = blockIdx.y * height;
  const int64_t last = min(rows, first + height);
  const int lane = static_cast<int>(threadIdx.x) * kSize, row = static_cast<int>(threadIdx.y);

  // The largest of this thread's rows.
  Largest largest[kSize];
  if (c < cols) {
#pragma unroll 4
    for (int64_t r = first + row; r < last; r += kRows) load.template operator()<kSize>(r, c, largest);
  }

  // Merge the rows of threads.
#pragma unroll
  for (int e = 0; e < kSize; ++e) {
    values[row][lane + e] = largest[e].value;
    places[row][lane + e] = largest[e].place;
  }
  __syncthreads();
  for (int i = row * kLanes + static_cast<int>(threadIdx.x); i < kLanes * kSize; i += kLanes * kRows) {
    const int64_t column = int64_t{blockIdx.x} * kLanes * kSize + i;
    Largest all;
#pragma unroll
    for (int r = 0; r < kRows; ++r) all.merge(values[r][i], places[r][i]);
    if (column < cols) store(blockIdx.y * cols + column, all);
  }
}

template <class T, class Store>
void launch_columns(cudaStream_t stream, const T* x, const Store& store, int64_t rows, int64_t cols, int64_t parts,
                    int64_t height) {
  const auto run = [&]<int kSize>() {
    launch(columns_kernel<kSize, LoadMatrix<T>, Store>,
           Grid{.blocks = {ceil_div(cols, kLanes * kSize), parts}, .threads = {kLanes, kRows}, .stream = stream},
           LoadMatrix<T>{x, cols}, store, rows, cols, height);
  };
  cols % kPack<T> == 0 && aligned16(x) ? run.template operator()<kPack<T>>() : run.template operator()<1>();
}

// --- plans ----------------------------------------------------------------------------------------------------------

// The results of `rows` rows of `cols` elements. x and out: of a run's Args.
template <class T, class X, class Out>
Plan rows_plan(int64_t rows, int64_t cols, const X& x, const Out& out, GpuContext& gpu) {
  const int64_t wanted = 4 * gpu.multiprocessors();  // blocks
  const int64_t parts =
      rows == 0 || cols <= 4 * kMaxWarpCols ? 1 : std::clamp<int64_t>(ceil_div(wanted, rows), 1, ceil_div(cols, 4096));
  const int64_t length = ceil_div(ceil_div(cols, parts), 4096) * 4096;
  WorkspaceLayout workspace;
  const auto values = workspace.add<float>(parts > 1 ? rows * parts : 0);
  const auto places = workspace.add<int>(parts > 1 ? rows * parts : 0);
  return Plan([=, stream = gpu.stream()](Args t) {
           const StoreLargest store{out(t)};
           if (parts == 1) return launch_rows(stream, x(t), store, rows, cols, 1, cols);
           const StoreLargestPart part{t.workspace(values), t.workspace(places)};
           launch_rows(stream, x(t), part, rows, cols, parts, length);
           launch(merge_parts_kernel<decltype(store)>,
                  Grid{.blocks = ceil_div(rows, 8), .threads = {kWarp, 8}, .stream = stream}, part.value, part.place,
                  store, rows, parts);
         })
      .with(std::move(workspace));
}

// The results of `cols` columns of `rows` elements.
template <class T, class X, class Out>
Plan columns_plan(int64_t rows, int64_t cols, const X& x, const Out& out, GpuContext& gpu) {
  const int64_t strips = std::max<int64_t>(1, ceil_div(cols, kLanes * (cols % kPack<T> == 0 ? kPack<T> : 1)));
  const int64_t parts = std::max<int64_t>(1, std::min(ceil_div(4 * gpu.multiprocessors(), strips), ceil_div(rows, 64)));
  const int64_t height = ceil_div(rows, parts);
  WorkspaceLayout workspace;
  const auto values = workspace.add<float>(parts > 1 ? parts * cols : 0);
  const auto places = workspace.add<int>(parts > 1 ? parts * cols : 0);
  return Plan([=, stream = gpu.stream()](Args t) {
           const StoreLargest store{out(t)};
           if (parts == 1) return launch_columns(stream, x(t), store, rows, cols, 1, height);
           const StoreLargestPart part{t.workspace(values), t.workspace(places)};
           launch_columns(stream, x(t), part, rows, cols, parts, height);
           launch(columns_kernel<1, LoadParts, decltype(store)>,
                  Grid{.blocks = ceil_div(cols, kLanes), .threads = {kLanes, kRows}, .stream = stream},
                  LoadParts{part.value, part.place, cols}, store, parts, cols, parts);
         })
      .with(std::move(workspace));
}

// P: Max or ArgMax.
template <class T, class P, class Out>
Plan plan(const P& p, const Out& out, GpuContext& gpu) {
  if (p.length() > INT32_MAX) return Unsupported{"2^31 elements or more behind a result"};
  const auto x = [](Args t) { return t[P::x].template as<const T>(); };
  if (p.axis == 1) return rows_plan<T>(p.rows, p.cols, x, out, gpu);
  if (p.cols == 1) return rows_plan<T>(1, p.rows, x, out, gpu);  // a single column is a row
  return columns_plan<T>(p.rows, p.cols, x, out, gpu);
}

Plan max_tuned(const Max& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() {
    return plan<T>(
        p, [](Args t) { return t[Max::y].as<T>(); }, gpu);
  });
}
DUET_REGISTER(max_tuned);

Plan argmax_tuned(const ArgMax& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() {
    return plan<T>(
        p, [](Args t) { return t[ArgMax::index].as<int>(); }, gpu);
  });
}
DUET_REGISTER(argmax_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
