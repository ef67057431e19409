// SPDX-License-Identifier: Apache-2.0
// One warp or one block per row. Up to 8192 columns it holds the row in registers (as rows.cuh of kernels/norm), so
// that an exponential is computed once and memory is read once. A longer row is read twice, the second time from L2:
// blocks are large, so that few rows are in flight and stay there. Then the losses of the rows are added.
#include "kernels/norm/rows.cuh"
#include "kernels/reduction/total.cuh"
#include "ops/loss/cross_entropy_fused.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kItems = 32;       // elements of a row that a thread holds
constexpr int kVeryLong = 1024;  // threads for a row that does not fit registers

struct Target {              // what the loss and the gradient of a row need besides its scores
  float hot, spread, scale;  // q of the label is hot + spread, of other columns spread
};

// Writes the loss of a row. all: the sum of its scores; x: their first one. One thread calls it, before dx is written.
template <class T>
__device__ __forceinline__ void store_loss(float* row_loss, float log_sum, float all, const T* x, int32_t label,
                                           int64_t cols, const Target& to) {
  const float score = label >= 0 && label < cols ? float(x[label]) : 0;
  const float spread = to.spread != 0 ? to.spread * all : 0;  // a masked score of -inf stays out of the loss
  *row_loss = log_sum - to.hot * score - spread;
}

// kThreads = 32: blocks of (32, 8), 8 rows each. kThreads = 256: blocks of (256, 1), one row each. 32 bytes of shared
// memory. cols <= kThreads * kItems. Rows are aligned to kSize elements. x, dx: (rows, cols); label, row_loss: (rows);
// loss_scale: null, or (1). dx may be x: all scores were read when the first is overwritten.
template <class T, int kThreads, int kSize>
__global__ void __launch_bounds__(kBlock) rows_kernel(const T* x, const int32_t* label, const float* loss_scale,
                                                      float* row_loss, T* dx, int64_t rows, int cols, Target to) {
  DUET_SHARED(float, part, [kBlock / 32]);
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;  // for a whole warp, which has no block barrier; it does not happen with a block per row
  x += row * cols;
  dx += row * cols;
  const int32_t target = label[row];
  if (loss_scale) to.scale *= *loss_scale;

  // Load the row. Maximum, and sum for label smoothing.
  float v[kItems], max = -INFINITY, all = 0;
#pragma unroll
  for (int load = 0; load < kItems / kSize; ++load) {
    const int c = first_column<kThreads, kSize>(load);
    Pack<T, kSize> pack;
    if (c < cols) pack = load_pack<kSize>(x + c);
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      float& element = v[load * kSize + i];
      element = c < cols ? float(pack.at[i]) : -INFINITY;
      max = fmaxf(max, element);
      all += c < cols ? element : 0;
    }
  }
  max = block_reduce<MaxOp, kThreads>(max, part);
  if (to.spread != 0) all = block_reduce<SumOp, kThreads>(all, part);

  // Sum of exponentials.
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    v[i] = expf(v[i] - max);
    sum += v[i];
  }
  sum = block_reduce<SumOp, kThreads>(sum, part);
  if (threadIdx.x == 0) store_loss(row_loss + row, max + logf(sum), all, x, target, cols, to);
  if constexpr (kThreads > kWarp)
    __syncthreads();  // the score of the label is read before it is overwritten
  else
    __syncwarp();

  // Write back.
  const float inv_sum = 1 / sum;
#pragma unroll
  for (int load = 0; load < kItems / kSize; ++load) {
    const int c = first_column<kThreads, kSize>(load);
    if (c >= cols) continue;
    Pack<T, kSize> pack;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const float q = (c + i == target ? to.hot : 0) + to.spread;
      pack.at[i] = T((v[load * kSize + i] * inv_sum - q) * to.scale);
    }
    store_pack(dx + c, pack);
  }
}

// As rows_kernel, with one block of kVeryLong per row, 128 bytes of shared memory. kSize > 1: x and dx have the same
// offset from a 16-byte boundary. A thread has the same columns in both passes.
template <class T, int kSize>
__global__ void __launch_bounds__(kVeryLong) long_rows_kernel(const T* x, const int32_t* label, const float* loss_scale,
                                                              float* row_loss, T* dx, int64_t cols, Target to) {
  DUET_SHARED(float, part, [kVeryLong / 32]);
  x += blockIdx.x * cols;
  dx += blockIdx.x * cols;
  const int64_t target = label[blockIdx.x];
  if (loss_scale) to.scale *= *loss_scale;

  // Maximum, sum of exponentials, and sum of x for label smoothing.
  RunningSoftmax mine;
  float all = 0;
  for_row<kVeryLong, kSize>(x, cols, [&]<int kWidth>(const Pack<T, kWidth>& pack, int64_t) {
    mine.add(pack);
    float sum = 0;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) sum += float(pack.at[e]);
    all += sum;
  });
  const float max = block_reduce<MaxOp, kVeryLong>(mine.max, part);
  const float sum = block_reduce<SumOp, kVeryLong>(mine.sum_to(max), part);
  if (to.spread != 0) all = block_reduce<SumOp, kVeryLong>(all, part);
  const float log_sum = max + logf(sum);
  if (threadIdx.x == 0) store_loss(row_loss + blockIdx.x, log_sum, all, x, static_cast<int32_t>(target), cols, to);
  __syncthreads();  // the score of the label is read before it is overwritten

  // Write back.
  for_row<kVeryLong, kSize>(x, cols, [&]<int kWidth>(Pack<T, kWidth> pack, int64_t c) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const float q = (c + e == target ? to.hot : 0) + to.spread;
      pack.at[e] = T((expf(float(pack.at[e]) - log_sum) - q) * to.scale);
    }
    store_pack(dx + c, pack);
  });
}

struct RowLoss {
  __device__ __forceinline__ float operator()(float v) const { return v; }
};

Plan cross_entropy_fused_tuned(const CrossEntropyFused& p, GpuContext& gpu) {
  using P = CrossEntropyFused;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const auto losses = workspace.add<float>(p.rows);
    const Total mean(p.rows, gpu, workspace);
    return Plan([p, losses, mean, of = RowShape{p.rows, p.cols, gpu.multiprocessors()}, stream = gpu.stream()](Args t) {
             const T* x = t[P::x].as<const T>();
             const auto* label = t[P::label].as<const int32_t>();
             const float* scale = p.scaled ? t[P::scale].as<const float>() : nullptr;
             T* dx = t[P::dx].as<T>();
             float* const row_loss = t.workspace(losses);
             const Target to{.hot = static_cast<float>(1 - p.smooth),
                             .spread = static_cast<float>(p.smooth / static_cast<double>(std::max<int64_t>(1, p.cols))),
                             .scale = 1 / static_cast<float>(std::max<int64_t>(1, p.rows))};
             const auto run = [&]<int kThreads, int kSize>() {
               if constexpr (kThreads > 0)
                 launch(rows_kernel<T, kThreads, kSize>, grid_of<kThreads>(p.rows, stream), x, label, scale, row_loss,
                        dx, p.rows, p.cols, to);
               else
                 launch(long_rows_kernel<T, kSize>, Grid{.blocks = p.rows, .threads = kVeryLong, .stream = stream}, x,
                        label, scale, row_loss, dx, p.cols, to);
             };
             by_row_length<T, kItems>(of, aligned16(x, dx), same_offset16(x, dx), run);
             mean.enqueue(t, RowLoss{}, MeanOf{static_cast<double>(p.rows)}, t[P::loss].as<float>(),
                          static_cast<const float*>(row_loss));
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(cross_entropy_fused_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
