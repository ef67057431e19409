// Threads share the rows. A row is read from memory once: in parts that fit L1, each with its own maximum and its
// exponentials kept beside it; the last pass scales every part to the row's maximum and writes past the caches.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/norm/softmax_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registry.h"
#include "cpu_ref/pieces.h"
#include "cpu_ref/scratch.h"
#include "cpu_ref/softmax-inl.h"
#include "cpu_ref/streaming.h"
#include "ops/norm/softmax.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// scratch: cols exponentials, then a maximum for each part.
template <bool kStream, class T>
void softmax_row(const T* x, T* y, int64_t cols, float* scratch) {
  const hn::ScalableTag<float> d;
  float* part_max = scratch + cols;
  float max = -INFINITY, sum = 0;
  for (int64_t c = 0, part = 0; c < cols; c += kRowPart, ++part) {
    const int64_t n = std::min(kRowPart, cols - c);
    const float m = part_max[part] = max_of(x + c, n);
    const float s = exp_sum<true>(x + c, n, m, scratch + c);
    const float larger = std::max(max, m);
    sum = cols <= kRowPart ? s : sum * std::exp(max - larger) + s * std::exp(m - larger);
    max = larger;
  }
  for (int64_t c = 0, part = 0; c < cols; c += kRowPart, ++part) {
    const auto scale = hn::Set(d, (cols <= kRowPart ? 1 : std::exp(part_max[part] - max)) / sum);
    const auto scaled = [scale](auto e) HWY_ATTR { return hn::Mul(e, scale); };
    map<kStream>(d, std::min(kRowPart, cols - c), scaled, y + c, scratch + c);
  }
}

void softmax_rows(const Softmax& p, Args t, int64_t first, int64_t last, bool stream, float* scratch) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* x = t[Softmax::x].as<const T>();
    auto* y = t[Softmax::y].as<T>();
    for (int64_t r = first; r < last; ++r)
      (stream ? softmax_row<true, T> : softmax_row<false, T>)(x + r * p.cols, y + r * p.cols, p.cols, scratch);
  });
  if (stream) hwy::FlushStream();
}

// The sum is a pass of its own over y and dy, which are then in cache.
template <class T>
HWY_INLINE float dot(const T* a, const T* b, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::MulAdd(read(d, a + i), read(d, b + i), s0);
    s1 = hn::MulAdd(read(d, a + i + lanes), read(d, b + i + lanes), s1);
    s2 = hn::MulAdd(read(d, a + i + 2 * lanes), read(d, b + i + 2 * lanes), s2);
    s3 = hn::MulAdd(read(d, a + i + 3 * lanes), read(d, b + i + 3 * lanes), s3);
  }
  for (; i < n; i += lanes) s0 = hn::MulAdd(read(d, a + i, n - i), read(d, b + i, n - i), s0);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

void softmax_backward_rows(const SoftmaxBackward& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto *y = t[SoftmaxBackward::y].as<const T>(), *dy = t[SoftmaxBackward::dy].as<const T>();
    auto* dx = t[SoftmaxBackward::dx].as<T>();
    for (int64_t r = first; r < last; ++r) {
      const int64_t at = r * p.cols;
      const auto sum = hn::Set(d, dot(y + at, dy + at, p.cols));
      const auto formula = [sum](auto v, auto dv) HWY_ATTR { return hn::Mul(v, hn::Sub(dv, sum)); };
      stream ? map<true>(d, p.cols, formula, dx + at, y + at, dy + at)
             : map<false>(d, p.cols, formula, dx + at, y + at, dy + at);
    }
  });
  if (stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(softmax_rows);
HWY_EXPORT(softmax_backward_rows);

Plan softmax_tuned(const Softmax& p, CpuContext& cpu) {
  if (!has_vectors(p.dtype)) return Unsupported{kNoVectors};
  const bool stream = beyond_cache(2 * p.rows * p.cols * size_of(p.dtype));
  Scratch scratch(cpu, p.cols + p.cols / 1024 + 1);
  return [p, stream, scratch = std::move(scratch), &cpu](Args t) mutable {
    cpu.parallel_for(p.rows, rows_of_a_piece(p.cols), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(softmax_rows)(p, t, first, last, stream, scratch.mine());
    });
  };
}
DUET_REGISTER(softmax_tuned);  // cpu.tuned

Plan softmax_backward_tuned(const SoftmaxBackward& p, CpuContext& cpu) {
  if (!has_vectors(p.dtype)) return Unsupported{kNoVectors};
  const bool stream = beyond_cache(3 * p.rows * p.cols * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    cpu.parallel_for(p.rows, rows_of_a_piece(p.cols), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(softmax_backward_rows)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(softmax_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
