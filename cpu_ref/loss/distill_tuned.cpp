// SPDX-License-Identifier: Apache-2.0
// distill and its backward with vectors of f32. Threads share the rows, and scores are read from memory once. A row is
// taken in parts that fit L1; whenever a part has a larger maximum, the sums so far are rescaled to it. Each row leaves
// its loss, and these are added in order, in double. Backward, a second pass over the row, which is in cache then,
// forms the gradient. The pieces shared with softmax are in softmax-inl.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/loss/distill_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <numbers>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/mean.h"
#include "cpu_ref/softmax-inl.h"
#include "cpu_ref/streaming.h"
#include "ops/loss/distill.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

using D32 = hn::ScalableTag<float>;
using V32 = hn::Vec<D32>;

// What the formulas need of a row. Sums are those of 2^(v log2 e - top), where v is a score divided by the temperature
// and top is the largest v, times log2 e.
struct RowSums {
  float hard_top = -INFINITY, soft_top = -INFINITY, teacher_top = -INFINITY;
  double hard = 0, soft = 0, teacher = 0;
  double apart = 0;  // sum of the teacher's terms times teacher - x

  static double log_of(float top, double sum) { return top * std::numbers::ln2 + std::log(sum); }
  double hard_lse() const { return log_of(hard_top, hard); }
  double soft_lse() const { return log_of(soft_top, soft); }
  double teacher_lse() const { return log_of(teacher_top, teacher); }
};

// Makes `top` at least `other`. Returns the factor of sums that are relative to it.
HWY_INLINE double raise(float& top, float other) {
  if (!(other > top)) return 1;
  const double factor = std::exp2(double{top} - other);
  top = other;
  return factor;
}

template <class T>
HWY_INLINE RowSums sums_of(const T* x, const T* teacher, int64_t cols, float inv_temperature) {
  const D32 d;
  const auto inv = hn::Set(d, inv_temperature);
  RowSums row;
  struct Sums {
    V32 hard, soft, teacher, apart;
  };
  const auto zero = hn::Zero(d);
  for (int64_t c = 0; c < cols; c += kRowPart) {
    const int64_t n = std::min(kRowPart, cols - c);
    // Maxima so far; rescale to them.
    const float max_x = max_of(x + c, n), max_teacher = max_of(teacher + c, n);
    row.hard *= raise(row.hard_top, top_of(max_x));
    row.soft *= raise(row.soft_top, top_of(max_x * inv_temperature));
    const double factor = raise(row.teacher_top, top_of(max_teacher * inv_temperature));
    row.teacher *= factor;
    row.apart *= factor;
    // Sums of this part.
    const auto hard_top = hn::Set(d, row.hard_top), soft_top = hn::Set(d, row.soft_top);
    const auto teacher_top = hn::Set(d, row.teacher_top);
    const Sums part = reduce<2>(
        d, n, Sums{zero, zero, zero, zero},
        [&](Sums acc, int64_t i, auto... left) HWY_ATTR {
          const auto v = load_as_f32(d, x + c + i, left...), t = load_as_f32(d, teacher + c + i, left...);
          const auto hard = exp2(d, log2e_times_minus(v, hard_top));
          const auto soft = exp2(d, log2e_times_minus(hn::Mul(v, inv), soft_top));
          const auto e = existing(d, exp2(d, log2e_times_minus(hn::Mul(t, inv), teacher_top)), zero, left...);
          return Sums{hn::Add(acc.hard, existing(d, hard, zero, left...)),
                      hn::Add(acc.soft, existing(d, soft, zero, left...)), hn::Add(acc.teacher, e),
                      hn::MulAdd(e, hn::Sub(t, v), acc.apart)};
        },
        [](Sums a, Sums b) HWY_ATTR {
          return Sums{hn::Add(a.hard, b.hard), hn::Add(a.soft, b.soft), hn::Add(a.teacher, b.teacher),
                      hn::Add(a.apart, b.apart)};
        });
    row.hard += hn::GetLane(hn::SumOfLanes(d, part.hard));
    row.soft += hn::GetLane(hn::SumOfLanes(d, part.soft));
    row.teacher += hn::GetLane(hn::SumOfLanes(d, part.teacher));
    row.apart += hn::GetLane(hn::SumOfLanes(d, part.apart));
  }
  return row;
}

// The losses of the rows [first, last). row_loss: (rows), in double, so that their mean has no rounding of f32.
void distill_rows(const Distill& p, Args t, int64_t first, int64_t last, double* row_loss) {
  const auto* label = t[Distill::label].as<const int32_t>();
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t r = first; r < last; ++r) {
      const T* x = t[Distill::x].as<const T>() + r * p.cols;
      const RowSums row =
          sums_of(x, t[Distill::teacher].as<const T>() + r * p.cols, p.cols, static_cast<float>(1 / p.T));
      const double divergence = row.apart / row.teacher / p.T - row.teacher_lse() + row.soft_lse();
      const bool labelled = label[r] >= 0 && label[r] < p.cols;
      const double entropy = row.hard_lse() - (labelled ? element(x + label[r]) : 0);
      row_loss[r] = p.alpha * p.T * p.T * divergence + (1 - p.alpha) * entropy;
    }
  });
}

void distill_backward_rows(const DistillBackward& p, Args t, int64_t first, int64_t last, bool stream) {
  using P = DistillBackward;
  const D32 d;
  const auto* label = t[P::label].as<const int32_t>();
  const double scale = (p.scaled ? *t[P::scale].as<const float>() : 1) / static_cast<double>(p.rows);
  const float inv_temperature = static_cast<float>(1 / p.T);
  const auto inv = hn::Set(d, inv_temperature), soft_factor = hn::Set(d, static_cast<float>(p.alpha * p.T * scale));
  const auto hard_factor = hn::Set(d, static_cast<float>((1 - p.alpha) * scale));
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t r = first; r < last; ++r) {
      const T *x = t[P::x].as<const T>() + r * p.cols, *teacher = t[P::teacher].as<const T>() + r * p.cols;
      T* dx = t[P::dx].as<T>() + r * p.cols;
      const RowSums row = sums_of(x, teacher, p.cols, inv_temperature);
      // Tops of powers whose sums are 1.
      const auto hard_top = hn::Set(d, static_cast<float>(row.hard_lse() * std::numbers::log2e));
      const auto soft_top = hn::Set(d, static_cast<float>(row.soft_lse() * std::numbers::log2e));
      const auto teacher_top = hn::Set(d, static_cast<float>(row.teacher_lse() * std::numbers::log2e));
      const auto formula = [=](auto v, auto w) HWY_ATTR {
        const auto soft = exp2(d, log2e_times_minus(hn::Mul(v, inv), soft_top));
        const auto target = exp2(d, log2e_times_minus(hn::Mul(w, inv), teacher_top));
        const auto hard = exp2(d, log2e_times_minus(v, hard_top));
        return hn::MulAdd(soft_factor, hn::Sub(soft, target), hn::Mul(hard_factor, hard));
      };
      // The labelled element is written last, from copies of its scores, because dx may be x or teacher.
      const bool labelled = label[r] >= 0 && label[r] < p.cols;
      const float score = labelled ? element(x + label[r]) : 0, target = labelled ? element(teacher + label[r]) : 0;
      stream ? map<true>(d, p.cols, formula, dx, x, teacher) : map<false>(d, p.cols, formula, dx, x, teacher);
      if (!labelled) continue;
      const auto marked = hn::Sub(formula(hn::Set(d, score), hn::Set(d, target)), hard_factor);
      store_f32_as(d, marked, dx + label[r], 1);
    }
  });
  if (stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(distill_rows);
HWY_EXPORT(distill_backward_rows);

Plan distill_tuned(const Distill& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  WorkspaceLayout workspace;
  const auto row_losses = workspace.add<double>(p.rows);
  const auto run = [p, row_losses, &cpu](Args t) {
    double* losses = t.workspace(row_losses);
    cpu.parallel_for(p.rows, rows_per_chunk(p.cols), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(distill_rows)(p, t, first, last, losses);
    });
    *t[Distill::loss].as<float>() = mean_of_rows(losses, p.rows);
  };
  return Plan(run).with(std::move(workspace));
}
DUET_REGISTER(distill_tuned);  // cpu.tuned

Plan distill_backward_tuned(const DistillBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(3 * p.rows * p.cols * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    cpu.parallel_for(p.rows, rows_per_chunk(p.cols), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(distill_backward_rows)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(distill_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
