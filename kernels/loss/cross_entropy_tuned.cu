// SPDX-License-Identifier: Apache-2.0
// One warp or one block per row, which reads the row once, with maximum and sum in one pass (arXiv:1805.02867); then
// one block adds the losses of the rows in a fixed order.
#include "kernels/loss/score_rows.cuh"
#include "ops/loss/cross_entropy.h"

namespace duet::DUET_DEVICE {
namespace {
using namespace scores;

// A grid_of<kThreads>(rows), 64 bytes of shared memory. x: (rows, cols), label, lse, row_loss: (rows).
template <class T, int kThreads>
__global__ void __launch_bounds__(kThreads == kWarp ? 256 : kBlock)
    rows_kernel(const T* x, const int32_t* label, float* lse, float* row_loss, int64_t rows, int64_t cols,
                float smooth) {
  DUET_SHARED(float, part, [kBlock / 32]);
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;  // for a whole warp, which has no block barrier; it does not happen with a block per row
  x += row * cols;

  // Row maximum, sum of exponentials, and sum of x for label smoothing.
  RunningSoftmax mine;
  float all = 0;
  for_row<kThreads, kPack<T>>(x, cols, [&]<int kWidth>(const Pack<T, kWidth>& pack, int64_t) {
    mine.add(pack);
    float sum = 0;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) sum += float(pack.at[e]);
    all += sum;
  });
  const float max = block_reduce<MaxOp, kThreads>(mine.max, part);
  const float sum = block_reduce<SumOp, kThreads>(mine.sum_to(max), part);
  all = block_reduce<SumOp, kThreads>(all, part);

  // Write back.
  if (threadIdx.x == 0) {
    const float log_sum = max + logf(sum);
    const int32_t target = label[row];
    const float target_x = target >= 0 && target < cols ? float(x[target]) : 0;
    lse[row] = log_sum;
    const float spread = smooth != 0 ? smooth / cols * all : 0;  // a masked score of -inf stays out of the loss
    row_loss[row] = log_sum - (1 - smooth) * target_x - spread;
  }
}

// One block of kBlock, 4 KiB of shared memory. row_loss: (rows), loss: (1), which is 0 where there are no rows. Thread
// t adds rows t, t + kBlock, ... in double; a tree adds the threads' sums.
__global__ void __launch_bounds__(kBlock) mean_kernel(const float* row_loss, float* loss, int64_t rows) {
  DUET_SHARED(double, part, [kBlock]);
  const int thread = static_cast<int>(threadIdx.x);
  double sum = 0;
  for (int64_t r = thread; r < rows; r += kBlock) sum += row_loss[r];
  part[thread] = sum;
  for (int half = kBlock / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) part[thread] += part[thread + half];
  }
  if (thread == 0) *loss = rows > 0 ? static_cast<float>(part[0] / rows) : 0;
}

Plan cross_entropy_tuned(const CrossEntropy& p, GpuContext& gpu) {
  using P = CrossEntropy;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const auto losses = workspace.add<float>(p.rows);
    const bool warps = by_warp(p.rows, p.cols, gpu.multiprocessors());
    return Plan([p, losses, warps, stream = gpu.stream()](Args t) {
             float* const row_loss = t.workspace(losses);
             const auto run = [&]<int kThreads>() {
               launch(rows_kernel<T, kThreads>, grid_of<kThreads>(p.rows, stream), t[P::x].as<const T>(),
                      t[P::label].as<const int32_t>(), t[P::lse].as<float>(), row_loss, p.rows, p.cols,
                      static_cast<float>(p.smooth));
             };
             warps ? run.template operator()<kWarp>() : run.template operator()<kBlock>();
             launch(mean_kernel, Grid{.blocks = 1, .threads = kBlock, .stream = stream}, row_loss,
                    t[P::loss].as<float>(), p.rows);
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(cross_entropy_tuned);

// A grid_of<kThreads>(rows), no shared memory. x, dx: (rows, cols), with the same offset from a 16-byte boundary if
// kSize > 1; label, lse: (rows); loss_scale: null, or (1). dx may be x.
template <class T, int kThreads, int kSize>
__global__ void __launch_bounds__(kThreads == kWarp ? 256 : kBlock)
    backward_kernel(const T* x, const int32_t* label, const float* lse, const float* loss_scale, T* dx, int64_t rows,
                    int64_t cols, float smooth) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  x += row * cols;
  dx += row * cols;
  const float log_sum = lse[row], smooth_per_col = smooth / cols, scale = (loss_scale ? *loss_scale : 1.0f) / rows;
  const int64_t target = label[row];

  for_row<kThreads, kSize>(x, cols, [&]<int kWidth>(Pack<T, kWidth> pack, int64_t c) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const float q = (c + e == target ? 1 - smooth : 0) + smooth_per_col;
      pack.at[e] = T((expf(float(pack.at[e]) - log_sum) - q) * scale);
    }
    store_pack(dx + c, pack);
  });
}

Plan cross_entropy_backward_tuned(const CrossEntropyBackward& p, GpuContext& gpu) {
  using P = CrossEntropyBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const bool warps = by_warp(p.rows, p.cols, gpu.multiprocessors());
    return [p, warps, stream = gpu.stream()](Args t) {
      const T* x = t[P::x].as<const T>();
      const float* scale = p.scaled ? t[P::scale].as<const float>() : nullptr;
      T* dx = t[P::dx].as<T>();
      const auto run = [&]<int kThreads, int kSize>() {
        launch(backward_kernel<T, kThreads, kSize>, grid_of<kThreads>(p.rows, stream), x,
               t[P::label].as<const int32_t>(), t[P::lse].as<const float>(), scale, dx, p.rows, p.cols,
               static_cast<float>(p.smooth));
      };
      if (!same_offset16(x, dx))
        run.template operator()<kBlock, 1>();
      else if (warps)
        run.template operator()<kWarp, kPack<T>>();
      else
        run.template operator()<kBlock, kPack<T>>();
    };
  });
}
DUET_REGISTER(cross_entropy_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
