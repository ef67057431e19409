// SPDX-License-Identifier: Apache-2.0
// Sums of columns: the sum along axis 0, gradients of a bias and of a norm's gamma and beta, channels-last averages,
// and the parts that other kernels leave. The rows are divided into parts, so that there are enough blocks for the
// whole GPU; a second launch of the same kernel adds the parts. Which thread adds what depends on the shape only, so
// that the result is the same in every run. Start reading at columns_kernel; ColumnSums is what a plan uses.
#pragma once
#include <algorithm>

#include "core/plan.h"
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {

// A Load gives the terms of the sums. It has kSums, the number of sums for each column; Element, the type that it
// reads; aligned(), whether packs of Element may be read; and operator()<kSize>(row, c, terms), which writes the terms
// of the kSize columns from c on.
template <class T>
struct LoadColumns {
  static constexpr int kSums = 1;
  using Element = T;
  const T* x;  // (rows, cols)
  int64_t cols;
  template <int kSize>
  __device__ __forceinline__ void operator()(int64_t row, int64_t c, float (&terms)[1][kSize]) const {
    const auto pack = load_pack<kSize>(x + row * cols + c);
#pragma unroll
    for (int e = 0; e < kSize; ++e) terms[0][e] = float(pack.at[e]);
  }
  bool aligned() const { return aligned16(x); }
};
// g = dy where y > 0, else 0: also stores g.
template <class T>
struct LoadMasked {
  static constexpr int kSums = 1;
  using Element = T;
  const T *y, *dy;
  T* g;  // all (rows, cols)
  int64_t cols;
  template <int kSize>
  __device__ __forceinline__ void operator()(int64_t row, int64_t c, float (&terms)[1][kSize]) const {
    const int64_t i = row * cols + c;
    const auto gate = load_pack<kSize>(y + i);
    auto pack = load_pack<kSize>(dy + i);
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      if (!(float(gate.at[e]) > 0)) pack.at[e] = T(0.0f);
      terms[0][e] = float(pack.at[e]);
    }
    store_pack(g + i, pack);
  }
  bool aligned() const { return aligned16(y, dy, g); }
};
// The sums of the parts, (kSums, parts, cols); a part is a row.
template <int kSums_>
struct LoadParts {
  static constexpr int kSums = kSums_;
  using Element = float;
  const float* part;
  int64_t parts, cols;
  template <int kSize>
  __device__ __forceinline__ void operator()(int64_t row, int64_t c, float (&terms)[kSums][kSize]) const {
#pragma unroll
    for (int s = 0; s < kSums; ++s) {
      const auto pack = load_pack<kSize>(part + (s * parts + row) * cols + c);
#pragma unroll
      for (int e = 0; e < kSize; ++e) terms[s][e] = pack.at[e];
    }
  }
  bool aligned() const { return aligned16(part); }
};

// A Store is called as store(part, c, sums) with the sums of column c over the rows of a part.
template <int kSums>
struct StoreParts {
  float* part;  // as LoadParts reads it
  int64_t parts, cols;
  __device__ __forceinline__ void operator()(int64_t k, int64_t c, const float (&sums)[kSums]) const {
#pragma unroll
    for (int s = 0; s < kSums; ++s) part[(s * parts + k) * cols + c] = sums[s];
  }
};
template <class T>
struct StoreSum {
  T* y;  // (cols)
  __device__ __forceinline__ void operator()(int64_t, int64_t c, const float (&sums)[1]) const { y[c] = T(sums[0]); }
};

struct Columns {
  // Threads of a block: (lanes, rows). With packs, 8 lanes read 128 bytes of a row, so that tensors of few columns fill
  // blocks too.
  static constexpr int lanes(int size) { return size > 1 ? 8 : 32; }
  static constexpr int rows(int size) { return 256 / lanes(size); }
  static constexpr int kManyRows = 32;            // or (32, kManyRows), of single columns
  static constexpr int64_t kMaxAdditions = 1024;  // of one thread
};

// The sums over rows part * height ... of at most `height`, for each part. Blocks of (lanes, kRows), one for each strip
// of lanes * kSize columns (grid x) and part (grid y). A thread adds every kRows-th row of kSize columns: the loads of
// a warp coalesce, and four rows are in flight at once. kSums * kRows * lanes * kSize * 4 bytes of shared memory. Rows
// are aligned to kSize elements.
template <int kRows, int kSize, class Load, class Store>
__global__ void __launch_bounds__(Columns::lanes(kSize) * kRows)
    columns_kernel(Load load, Store store, int64_t rows, int64_t cols, int64_t height) {
  constexpr int kLanes = Columns::lanes(kSize), kSums = Load::kSums;
  DUET_SHARED(float, shared, [kSums][kRows][kLanes * kSize]);
  const int64_t c = (int64_t{blockIdx.x} * kLanes + threadIdx.x) * kSize, first = blockIdx.y * height;
  const int64_t last = min(rows, first + height);
  const int lane = static_cast<int>(threadIdx.x) * kSize, row = static_cast<int>(threadIdx.y);

  // Sums of this thread's rows.
  float sum[kSums][kSize] = {};
  if (c < cols) {
#pragma unroll 4
    for (int64_t r = first + row; r < last; r += kRows) {
      float terms[kSums][kSize];
      load.template operator()<kSize>(r, c, terms);
#pragma unroll
      for (int s = 0; s < kSums; ++s)
#pragma unroll
        for (int e = 0; e < kSize; ++e) sum[s][e] += terms[s][e];
    }
  }

  // Sums over the rows of threads.
#pragma unroll
  for (int s = 0; s < kSums; ++s)
#pragma unroll
    for (int e = 0; e < kSize; ++e) shared[s][row][lane + e] = sum[s][e];
  __syncthreads();
  for (int i = row * kLanes + static_cast<int>(threadIdx.x); i < kLanes * kSize; i += kLanes * kRows) {
    const int64_t column = int64_t{blockIdx.x} * kLanes * kSize + i;
    float total[kSums] = {};
#pragma unroll
    for (int s = 0; s < kSums; ++s)
#pragma unroll
      for (int r = 0; r < kRows; ++r) total[s] += shared[s][r][i];
    if (column < cols) store(blockIdx.y, column, total);
  }
}

// Launches columns_kernel with packs of 16 bytes where columns and addresses allow, else with single columns.
template <class Load, class Store>
void launch_columns(cudaStream_t stream, const Load& load, const Store& store, int64_t rows, int64_t cols,
                    int64_t parts, int64_t height) {
  constexpr int kFull = kPack<typename Load::Element>;
  const auto run = [&]<int kSize>() {
    constexpr int kLanes = Columns::lanes(kSize), kRows = Columns::rows(kSize);
    const Grid grid{.blocks = {ceil_div(cols, kLanes * kSize), parts}, .threads = {kLanes, kRows}, .stream = stream};
    launch(columns_kernel<kRows, kSize, Load, Store>, grid, load, store, rows, cols, height);
  };
  cols % kFull == 0 && load.aligned() ? run.template operator()<kFull>() : run.template operator()<1>();
}

// Adds the parts, (kSums, parts, cols), and calls store(0, c, sums) for each column. From 32 parts on, blocks have
// 32 rows of threads of single columns; fewer parts are read in packs.
template <int kSums, class Store>
void launch_add_parts(cudaStream_t stream, const float* part, int64_t parts, int64_t cols, const Store& store) {
  constexpr int kFull = kPack<float>, kManyRows = Columns::kManyRows;
  using Load = LoadParts<kSums>;
  const Load load{part, parts, cols};
  const auto run = [&]<int kRows, int kSize>() {
    constexpr int kLanes = Columns::lanes(kSize);
    launch(columns_kernel<kRows, kSize, Load, Store>,
           Grid{.blocks = ceil_div(cols, kLanes * kSize), .threads = {kLanes, kRows}, .stream = stream}, load, store,
           parts, cols, parts);
  };
  if (parts < kManyRows && cols % kFull == 0 && load.aligned())
    run.template operator()<Columns::rows(kFull), kFull>();
  else
    run.template operator()<kManyRows, 1>();
}

// Prepared sums over the rows of (rows, cols), kSums for each column, of a Load that reads T. The sums of the parts lie
// in the workspace of the plan.
template <class T, int kSums = 1>
class ColumnSums {
 public:
  ColumnSums(int64_t rows, int64_t cols, GpuContext& gpu, WorkspaceLayout& workspace)
      : rows_(rows), cols_(cols), stream_(gpu.stream()) {
    const int size = cols % kPack<T> == 0 ? kPack<T> : 1;
    const int64_t strips = std::max<int64_t>(1, ceil_div(cols, Columns::lanes(size) * size));
    const int64_t min_rows = size > 1 ? 128 : 64;  // of a part, to be worth a block
    const int64_t for_speed = std::min(ceil_div(4 * gpu.multiprocessors(), strips), ceil_div(rows, min_rows));
    parts_ = std::max({int64_t{1}, for_speed, ceil_div(rows, Columns::rows(1) * Columns::kMaxAdditions)});
    height_ = ceil_div(rows, parts_);
    if (parts_ > 1) partial_ = workspace.add<float>(kSums * parts_ * cols);
  }
  // Up to 2^13 parts, which a thread of launch_add_parts adds by 2^8 additions: within ops/summation.h.
  static bool supports(int64_t rows) { return rows <= int64_t{1} << 26; }

  // args: of the plan's run.
  template <class Load, class Store>
  void enqueue(const Args& args, const Load& load, const Store& store) const {
    static_assert(Load::kSums == kSums);
    if (parts_ == 1) return launch_columns(stream_, load, store, rows_, cols_, 1, height_);
    float* part = args.workspace(partial_);
    launch_columns(stream_, load, StoreParts<kSums>{part, parts_, cols_}, rows_, cols_, parts_, height_);
    launch_add_parts<kSums>(stream_, part, parts_, cols_, store);
  }

 private:
  int64_t rows_, cols_, parts_, height_;
  cudaStream_t stream_;
  WorkspacePiece<float> partial_;
};

}  // namespace duet::DUET_DEVICE
