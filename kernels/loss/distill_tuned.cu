// SPDX-License-Identifier: Apache-2.0
// One warp or one block per row, which reads both rows once, with maxima and sums in one pass (arXiv:1805.02867); then
// the losses of the rows are added. Backward, the block reads its rows a second time, from L1 or L2, and writes.
#include "kernels/loss/score_rows.cuh"
#include "kernels/reduction/total.cuh"
#include "ops/loss/distill.h"

namespace duet::DUET_DEVICE {
namespace {
using namespace scores;

// What the formulas need of a row: sums of exponentials relative to the largest score so far.
struct RowSums {
  float max = -INFINITY, teacher_max = -INFINITY;
  float hard = 0, soft = 0;      // of exp(x - max), of exp((x - max) / T)
  float teacher = 0, apart = 0;  // of e = exp((teacher - teacher_max) / T), of e (teacher - x)

  // Makes the sums relative to other maxima, which are not smaller.
  __device__ __forceinline__ void rescale(float to, float teacher_to, float inv) {
    hard *= expf(max - to);
    soft *= expf((max - to) * inv);
    const float factor = expf((teacher_max - teacher_to) * inv);
    teacher *= factor;
    apart *= factor;
    max = to;
    teacher_max = teacher_to;
  }
  template <class T, int kSize>
  __device__ __forceinline__ void add(const Pack<T, kSize>& x, const Pack<T, kSize>& t, float inv) {
    float larger = max, teacher_larger = teacher_max;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      larger = fmaxf(larger, float(x.at[i]));
      teacher_larger = fmaxf(teacher_larger, float(t.at[i]));
    }
    rescale(larger, teacher_larger, inv);
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const float v = float(x.at[i]), w = float(t.at[i]), e = expf((w - teacher_max) * inv);
      hard += expf(v - max);
      soft += expf((v - max) * inv);
      teacher += e;
      apart += e * (w - v);
    }
  }
  // Over the threads of a row: all of them get the result. Scores are finite.
  template <int kThreads>
  __device__ __forceinline__ void reduce(float inv, float* part) {
    const float to = block_reduce<MaxOp, kThreads>(max, part);
    const float teacher_to = block_reduce<MaxOp, kThreads>(teacher_max, part);
    rescale(to, teacher_to, inv);
    hard = block_reduce<SumOp, kThreads>(hard, part);
    soft = block_reduce<SumOp, kThreads>(soft, part);
    teacher = block_reduce<SumOp, kThreads>(teacher, part);
    apart = block_reduce<SumOp, kThreads>(apart, part);
  }
};

// A grid_of<kThreads>(rows), 64 bytes of shared memory. x, teacher: (rows, cols), with the same offset from a 16-byte
// boundary if kSize > 1; label, row_loss: (rows).
template <class T, int kThreads, int kSize>
__global__ void __launch_bounds__(kThreads == kWarp ? 256 : kBlock)
    rows_kernel(const T* x, const T* teacher, const int32_t* label, float* row_loss, int64_t rows, int64_t cols,
                float inv, float soft_factor, float hard_factor) {
  DUET_SHARED(float, part, [kBlock / 32]);
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;  // for a whole warp, which has no block barrier; it does not happen with a block per row
  x += row * cols;
  teacher += row * cols;

  RowSums sums;
  for_row<kThreads, kSize>(x, cols, [&]<int kWidth>(const Pack<T, kWidth>& pack, int64_t c) {
    sums.add(pack, load_pack<kWidth>(teacher + c), inv);
  });
  sums.template reduce<kThreads>(inv, part);

  // Write back.
  if (threadIdx.x == 0) {
    const int32_t target = label[row];
    const float score = target >= 0 && target < cols ? float(x[target]) : 0;
    const float divergence =
        (sums.apart / sums.teacher - sums.teacher_max + sums.max) * inv - logf(sums.teacher) + logf(sums.soft);
    row_loss[row] = soft_factor * divergence + hard_factor * (sums.max + logf(sums.hard) - score);
  }
}

struct Same {
  __device__ __forceinline__ float operator()(float v) const { return v; }
};

// Rows by a warp or by a block, in packs where the tensors allow it: calls run.operator()<kThreads, kSize>().
template <class T, class Run>
void by_row_length(bool warps, bool packs, Run&& run) {
  if (warps)
    packs ? run.template operator()<kWarp, kPack<T>>() : run.template operator()<kWarp, 1>();
  else
    packs ? run.template operator()<kBlock, kPack<T>>() : run.template operator()<kBlock, 1>();
}

Plan distill_tuned(const Distill& p, GpuContext& gpu) {
  using P = Distill;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const auto losses = workspace.add<float>(p.rows);
    const Total mean(p.rows, gpu, workspace);
    const bool warps = by_warp(p.rows, p.cols, gpu.multiprocessors());
    return Plan([p, losses, mean, warps, stream = gpu.stream()](Args t) {
             float* const row_loss = t.workspace(losses);
             const T *x = t[P::x].as<const T>(), *teacher = t[P::teacher].as<const T>();
             by_row_length<T>(warps, same_offset16(x, teacher), [&]<int kThreads, int kSize>() {
               launch(rows_kernel<T, kThreads, kSize>, grid_of<kThreads>(p.rows, stream), x, teacher,
                      t[P::label].as<const int32_t>(), row_loss, p.rows, p.cols, static_cast<float>(1 / p.T),
                      static_cast<float>(p.alpha * p.T * p.T), static_cast<float>(1 - p.alpha));
             });
             mean.enqueue(t, Same{}, MeanOf{static_cast<double>(p.rows)}, t[P::loss].as<float>(),
                          static_cast<const float*>(row_loss));
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(distill_tuned);

// As rows_kernel, of x, teacher and dx: (rows, cols); dx may be x or teacher. loss_scale: null, or (1). Factors of the
// gradient: soft_factor of the softened distributions, hard_factor of the other.
template <class T, int kThreads, int kSize>
__global__ void __launch_bounds__(kThreads == kWarp ? 256 : kBlock)
    backward_kernel(const T* x, const T* teacher, const int32_t* label, const float* loss_scale, T* dx, int64_t rows,
                    int64_t cols, float inv, float soft_factor, float hard_factor) {
  DUET_SHARED(float, part, [kBlock / 32]);
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  x += row * cols;
  teacher += row * cols;
  dx += row * cols;

  RowSums sums;
  for_row<kThreads, kSize>(x, cols, [&]<int kWidth>(const Pack<T, kWidth>& pack, int64_t c) {
    sums.add(pack, load_pack<kWidth>(teacher + c), inv);
  });
  sums.template reduce<kThreads>(inv, part);

  // Gradient. Factors hold the sums that the exponentials are divided by.
  const float scale = loss_scale ? *loss_scale : 1;
  const float by_soft = soft_factor * scale / sums.soft, by_teacher = soft_factor * scale / sums.teacher;
  const float by_hard = hard_factor * scale / sums.hard, by_label = hard_factor * scale;
  const int64_t target = label[row];
  for_row<kThreads, kSize>(x, cols, [&]<int kWidth>(Pack<T, kWidth> pack, int64_t c) {
    const auto other = load_pack<kWidth>(teacher + c);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const float v = float(pack.at[e]) - sums.max, w = float(other.at[e]) - sums.teacher_max;
      const float soft = by_soft * expf(v * inv) - by_teacher * expf(w * inv);
      pack.at[e] = T(soft + (by_hard * expf(v) - (c + e == target ? by_label : 0)));
    }
    store_pack(dx + c, pack);
  });
}

Plan distill_backward_tuned(const DistillBackward& p, GpuContext& gpu) {
  using P = DistillBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const bool warps = by_warp(p.rows, p.cols, gpu.multiprocessors());
    return [p, warps, stream = gpu.stream()](Args t) {
      const T *x = t[P::x].as<const T>(), *teacher = t[P::teacher].as<const T>();
      const float* scale = p.scaled ? t[P::scale].as<const float>() : nullptr;
      T* dx = t[P::dx].as<T>();
      const auto n = static_cast<double>(std::max<int64_t>(1, p.rows));
      by_row_length<T>(warps, same_offset16(x, teacher, dx), [&]<int kThreads, int kSize>() {
        launch(backward_kernel<T, kThreads, kSize>, grid_of<kThreads>(p.rows, stream), x, teacher,
               t[P::label].as<const int32_t>(), scale, dx, p.rows, p.cols, static_cast<float>(1 / p.T),
               static_cast<float>(p.alpha * p.T / n), static_cast<float>((1 - p.alpha) / n));
      });
    };
  });
}
DUET_REGISTER(distill_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
