// SPDX-License-Identifier: Apache-2.0
// The gradients of layernorm and rmsnorm. Called by layernorm_tuned.cu and rmsnorm_tuned.cu; start reading at
// norm_backward_kernel.
//
// x and dy are read once. A fixed number of blocks goes through the rows. A warp or a block holds one row in registers,
// forms its dx, and adds its terms of dgamma and dbeta to sums that stay in registers from row to row: a thread has the
// same columns in every row. At the end each block writes its sums, and a second launch adds those of all blocks
// (columns.cuh). Rows that do not fit a block's registers are read once for the column sums and then, by
// long_backward_kernel, for each pass.
#pragma once
#include "kernels/norm/rows.cuh"
#include "kernels/reduction/columns.cuh"

namespace duet::DUET_DEVICE {

// x, dy, dx: (rows, cols), gamma, dgamma, dbeta: (cols), mean, rstd: (rows). rmsnorm has neither mean nor dbeta.
template <class T>
struct NormGradients {
  const T *x, *gamma, *dy;
  const float *mean, *rstd;
  T *dx, *dgamma, *dbeta;
  int64_t rows, cols;
  float inv_cols;
};

// kThreads: threads for a row; kItems: elements of a row that a thread holds, of each tensor; kPerMultiprocessor:
// blocks whose registers fit a multiprocessor without spills. The loads of those blocks cover the latency of memory.
template <int kThreads_, int kItems_, int kPerMultiprocessor_>
struct NormBlock {
  static constexpr int kThreads = kThreads_, kItems = kItems_, kPerMultiprocessor = kPerMultiprocessor_;
  static constexpr int kRows = kThreads < kBlock ? kBlock / kThreads : 1, kAll = kThreads * kRows;
  // Rows of a block, so that the sums it writes are few bytes beside those rows.
  static constexpr int kMinRows = kRows > 1 ? 2 * kRows : 8;
  static constexpr int64_t kMaxCols = int64_t{kThreads} * kItems;
};

// Sums over the threads of a row, for all of them: of b, and with kPair of a. part: 4 floats of shared memory for each
// warp; `turn` alternates between 0 and 1 from call to call, so that one barrier is enough.
template <int kThreads, bool kPair>
__device__ __forceinline__ void sum_pair(float& a, float& b, float* part, int turn) {
  if constexpr (kPair) a = warp_reduce<SumOp>(a);
  b = warp_reduce<SumOp>(b);
  if constexpr (kThreads > 32) {
    constexpr int kWarps = kThreads / 32;
    float* mine = part + turn * 2 * kWarps;
    if (threadIdx.x % 32 == 0) {
      if constexpr (kPair) mine[threadIdx.x / 32] = a;
      mine[kWarps + threadIdx.x / 32] = b;
    }
    __syncthreads();
    if constexpr (kPair) a = mine[0];
    b = mine[kWarps];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) {
      if constexpr (kPair) a += mine[w];
      b += mine[kWarps + w];
    }
  }
}

// Blocks of (kThreads, kRows); as many as fit the GPU at once. Shared memory: where kThreads = 32, a row of sums for
// each warp, 32 KiB at most; else 256 bytes. Rows and gamma are aligned to kSize elements; cols <= kMaxCols. dx may be
// x or dy: a thread writes the elements that it read. part: (2 sums, or 1 of rmsnorm; blocks; cols).
template <class T, bool kCentred, class Block, int kSize>
__global__ void __launch_bounds__(Block::kAll, Block::kPerMultiprocessor)
    norm_backward_kernel(NormGradients<T> t, float* part) {
  constexpr int kThreads = Block::kThreads, kItems = Block::kItems, kLoads = kItems / kSize;
  constexpr int kSums = kCentred ? 2 : 1;
  constexpr int kPitch = kThreads + (kSize > 1 ? kThreads / kSize : 1);  // in shared memory: without bank conflicts
  DUET_SHARED(float, shared, [Block::kRows > 1 ? Block::kRows * kItems * kPitch : 4 * kThreads / 32]);
  const int cols = static_cast<int>(t.cols);
  const int64_t step = int64_t{gridDim.x} * Block::kRows;

  float column[kSums][kItems] = {};  // sums of dgamma and dbeta
  int turn = 0;
  for (int64_t row = int64_t{blockIdx.x} * Block::kRows + threadIdx.y; row < t.rows; row += step) {
    // Load the row.
    const T *x = t.x + row * cols, *dy = t.dy + row * cols;
    Pack<T, kSize> pack_x[kLoads], pack_dy[kLoads];
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int c = first_column<kThreads, kSize>(load);
#pragma unroll
      for (int i = 0; i < kSize; ++i) pack_x[load].at[i] = pack_dy[load].at[i] = T(0.0f);
      if (c < cols) {
        pack_x[load] = load_pack<kSize>(x + c);
        pack_dy[load] = load_pack<kSize>(dy + c);
      }
    }
    const float scale = t.rstd[row], mean = kCentred ? t.mean[row] : 0;

    // Terms of dgamma and dbeta. Means of g = dy gamma and of g xhat.
    float xhat[kItems], g[kItems], sum = 0, dot = 0;
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int c = first_column<kThreads, kSize>(load);
      Pack<T, kSize> pack_gamma;
#pragma unroll
      for (int i = 0; i < kSize; ++i) pack_gamma.at[i] = T(0.0f);
      if (c < cols) pack_gamma = load_pack<kSize>(t.gamma + c);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const int item = load * kSize + i;
        const float gradient = float(pack_dy[load].at[i]);
        xhat[item] = kCentred ? (float(pack_x[load].at[i]) - mean) * scale : float(pack_x[load].at[i]) * scale;
        g[item] = gradient * float(pack_gamma.at[i]);
        column[0][item] += gradient * xhat[item];
        if constexpr (kCentred) {
          column[1][item] += gradient;
          sum += g[item];
        }
        dot += g[item] * xhat[item];
      }
    }
    sum_pair<kThreads, kCentred>(sum, dot, shared, turn);
    turn ^= 1;
    sum *= t.inv_cols;
    dot *= t.inv_cols;

    // Write back.
    store_row<kThreads, kSize, kItems>(t.dx + row * cols, cols, [&](int i) {
      return kCentred ? scale * (g[i] - sum - xhat[i] * dot) : scale * (g[i] - xhat[i] * dot);
    });
  }

  // Sums of the block's rows.
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    float* to = part + (int64_t{s} * gridDim.x + blockIdx.x) * cols;
    if constexpr (Block::kRows == 1) {
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
        const int c = first_column<kThreads, kSize>(item / kSize) + item % kSize;
        if (c < cols) to[c] = column[s][item];
      }
    } else {
      const int me = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
#pragma unroll
      for (int item = 0; item < kItems; ++item) shared[(warp * kItems + item) * kPitch + me] = column[s][item];
      __syncthreads();
      for (int c = warp * kThreads + me; c < cols; c += Block::kAll) {
        const int item = c / (kThreads * kSize) * kSize + c % kSize, owner = c / kSize % kThreads;
        float total = 0;
#pragma unroll
        for (int w = 0; w < Block::kRows; ++w) total += shared[(w * kItems + item) * kPitch + owner];
        to[c] = total;
      }
      if (s + 1 < kSums) __syncthreads();  // before the next sums are written
    }
  }
}

// For rows of any length. One block of kLongBlock per row, 64 bytes of shared memory. kSize > 1: x, dy and dx have the
// same offset from a 16-byte boundary.
template <class T, bool kCentred, int kSize>
__global__ void __launch_bounds__(kLongBlock) long_backward_kernel(NormGradients<T> t) {
  DUET_SHARED(float, part, [kLongBlock / 32]);
  const float m = kCentred ? t.mean[blockIdx.x] : 0, scale = t.rstd[blockIdx.x];
  const int64_t first = blockIdx.x * t.cols;
  const T *x = t.x + first, *dy = t.dy + first, *gamma = t.gamma;
  T* dx = t.dx + first;

  // Means of g = dy gamma and of g xhat.
  float sum = 0, dot = 0;
  for_row<kLongBlock, kSize>(x, t.cols, [&]<int kWidth>(const Pack<T, kWidth>& pack, int64_t c) {
    const auto other = load_pack<kWidth>(dy + c);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float g = float(other.at[i]) * float(gamma[c + i]);
      if constexpr (kCentred) sum += g;
      dot += g * (kCentred ? (float(pack.at[i]) - m) * scale : float(pack.at[i]) * scale);
    }
  });
  if constexpr (kCentred) sum = block_reduce<SumOp, kLongBlock>(sum, part) * t.inv_cols;
  dot = block_reduce<SumOp, kLongBlock>(dot, part) * t.inv_cols;

  // Write back.
  for_row<kLongBlock, kSize>(x, t.cols, [&]<int kWidth>(Pack<T, kWidth> pack, int64_t c) {
    const auto other = load_pack<kWidth>(dy + c);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float g = float(other.at[i]) * float(gamma[c + i]);
      const float xhat = kCentred ? (float(pack.at[i]) - m) * scale : float(pack.at[i]) * scale;
      pack.at[i] = T(kCentred ? scale * (g - sum - xhat * dot) : scale * (g - xhat * dot));
    }
    store_pack(dx + c, pack);
  });
}

// The terms of dgamma and dbeta, as a Load of columns.cuh, and where their sums go.
template <class T, bool kCentred>
struct LoadNormTerms {
  static constexpr int kSums = kCentred ? 2 : 1;
  using Element = T;
  const T *x, *dy;
  const float *mean, *rstd;
  int64_t cols;
  template <int kSize>
  __device__ __forceinline__ void operator()(int64_t row, int64_t c, float (&terms)[kSums][kSize]) const {
    const auto pack_x = load_pack<kSize>(x + row * cols + c), pack_dy = load_pack<kSize>(dy + row * cols + c);
    const float m = kCentred ? mean[row] : 0, scale = rstd[row];
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      const float gradient = float(pack_dy.at[e]);
      terms[0][e] = gradient * (kCentred ? (float(pack_x.at[e]) - m) * scale : float(pack_x.at[e]) * scale);
      if constexpr (kCentred) terms[1][e] = gradient;
    }
  }
  bool aligned() const { return aligned16(x, dy); }
};
template <class T, bool kCentred>
struct StoreNormSums {
  T *dgamma, *dbeta;
  __device__ __forceinline__ void operator()(int64_t, int64_t c, const float (&sums)[kCentred ? 2 : 1]) const {
    dgamma[c] = T(sums[0]);
    if constexpr (kCentred) dbeta[c] = T(sums[1]);
  }
};

// Prepared gradients of (rows, cols). kCentred: of layernorm, else of rmsnorm. The sums of blocks lie in the workspace
// of the plan.
template <class T, bool kCentred>
class NormBackward {
 public:
  static constexpr int kSums = kCentred ? 2 : 1;
  NormBackward(int64_t rows, int64_t cols, GpuContext& gpu, WorkspaceLayout& workspace)
      : stream_(gpu.stream()), long_rows_(rows, is_long<1>(cols) ? cols : 0, gpu, workspace) {
    if (is_long<kPack<T>>(cols)) return;
    by_length<kPack<T>>(cols, [&]<class Block>() {  // as many blocks as for single elements
      blocks_ =
          std::min(ceil_div(rows, Block::kMinRows), std::max(int64_t{Block::kPerMultiprocessor} * gpu.multiprocessors(),
                                                             ceil_div(rows, Block::kRows * Columns::kMaxAdditions)));
    });
    partial_ = workspace.add<float>(kSums * blocks_ * cols);
  }
  static bool supports(int64_t rows) { return ColumnSums<T, kSums>::supports(rows); }

  // args: of the plan's run.
  void enqueue(const Args& args, const NormGradients<T>& t) const {
    t.cols % kPack<T> == 0 && aligned16(t.x, t.gamma, t.dy, t.dx) ? enqueue_with<kPack<T>>(args, t)
                                                                  : enqueue_with<1>(args, t);
  }

 private:
  template <int kSize>
  static constexpr bool kHalfPacks = kSize > 1 && sizeof(T) == 2;
  // The longest rows that fit a block's registers.
  template <int kSize>
  using Widest = NormBlock<kLongBlock, kHalfPacks<kSize> ? 24 : 16, 1>;
  template <int kSize>
  static bool is_long(int64_t cols) {
    return cols > Widest<kSize>::kMaxCols;
  }
  template <int kSize, class F>
  static void by_length(int64_t cols, F&& f) {
    using Wide = NormBlock<kWarp, 24, (kSize > 1 ? 2 : 1)>;
    using Long = NormBlock<kBlock, 24, kHalfPacks<kSize> ? 2 : 1>;
    if (cols <= NormBlock<kWarp, 8, 4>::kMaxCols)
      f.template operator()<NormBlock<kWarp, 8, 4>>();
    else if (cols <= Wide::kMaxCols)
      f.template operator()<Wide>();
    else if (cols <= NormBlock<kBlock, 8, 4>::kMaxCols)
      f.template operator()<NormBlock<kBlock, 8, 4>>();
    else if (cols <= Long::kMaxCols)
      f.template operator()<Long>();
    else
      f.template operator()<Widest<kSize>>();
  }
  template <int kSize>
  void enqueue_with(const Args& args, const NormGradients<T>& t) const {
    const StoreNormSums<T, kCentred> store{t.dgamma, t.dbeta};
    if (is_long<kSize>(t.cols)) {
      // The columns first, since dx may be x or dy.
      long_rows_.enqueue(args, LoadNormTerms<T, kCentred>{t.x, t.dy, t.mean, t.rstd, t.cols}, store);
      const Grid grid{.blocks = t.rows, .threads = kLongBlock, .stream = stream_};
      if (same_offset16(t.x, t.dy, t.dx))
        launch(long_backward_kernel<T, kCentred, kPack<T>>, grid, t);
      else
        launch(long_backward_kernel<T, kCentred, 1>, grid, t);
      return;
    }
    float* part = args.workspace(partial_);
    by_length<kSize>(t.cols, [&]<class Block>() {
      const Grid grid{.blocks = blocks_, .threads = {Block::kThreads, Block::kRows}, .stream = stream_};
      launch(norm_backward_kernel<T, kCentred, Block, kSize>, grid, t, part);
    });
    launch_add_parts<kSums>(stream_, part, blocks_, t.cols, store);
  }
  cudaStream_t stream_;
  ColumnSums<T, kSums> long_rows_;
  WorkspacePiece<float> partial_;
  int64_t blocks_ = 0;
};

}  // namespace duet::DUET_DEVICE
