// SPDX-License-Identifier: Apache-2.0
// Threads share the images, which are planes in nchw: a plane is summed by vectors along it, in nhwc a pixel's channels are
// added to those of the pixels before. Sums are cut into runs, added up in a second level.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/pool/global_avg_pool_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/pool/global_avg_pool.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

inline constexpr int64_t kTerms = 1024;  // of a run: fewer than ops/summation.h allows, even with vectors of one lane

template <class T>
HWY_INLINE float sum_of(const T* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  double total = 0;
  for (int64_t first = 0; first < n; first += kTerms) {
    const int64_t last = std::min(n, first + kTerms);
    auto s0 = hn::Zero(d), s1 = s0;
    int64_t i = first;
    for (; i + 2 * lanes <= last; i += 2 * lanes) {
      s0 = hn::Add(s0, load_as_f32(d, x + i));
      s1 = hn::Add(s1, load_as_f32(d, x + i + lanes));
    }
    for (; i < last; i += lanes) s0 = hn::Add(s0, load_as_f32(d, x + i, last - i));
    total += hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
  }
  return static_cast<float>(total);
}

void global_avg_planes(const GlobalAvgPool& p, Args t, int64_t first, int64_t last) {
  const hn::CappedTag<float, 1> one;
  const int64_t pixels = p.pixels();
  const float share = 1 / static_cast<float>(std::max<int64_t>(1, pixels));
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* x = t[GlobalAvgPool::x].as<const T>();
    auto* y = t[GlobalAvgPool::y].as<T>();
    for (int64_t i = first; i < last; ++i)
      store_f32_as(one, hn::Set(one, sum_of(x + i * pixels, pixels) * share), y + i);
  });
}

// Elements [first, last) of y, as images of `depth` channels. Two vectors of channels at a time, down the pixels.
void global_avg_channels(const GlobalAvgPool& p, Args t, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t pixels = p.pixels(), depth = p.depth();
  const auto share = hn::Set(d, 1 / static_cast<float>(std::max<int64_t>(1, pixels)));
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* x = t[GlobalAvgPool::x].as<const T>();
    auto* y = t[GlobalAvgPool::y].as<T>();
    for (int64_t i = first; i < last;) {
      const int64_t image = i / depth, channel = i % depth, left = std::min(depth - channel, last - i);
      const T* from = x + image * pixels * depth + channel;
      int64_t c = 0;
      for (; c + 4 * lanes <= left; c += 4 * lanes) {
        auto t0 = hn::Zero(d), t1 = t0, t2 = t0, t3 = t0;
        for (int64_t begin = 0; begin < pixels; begin += kTerms) {
          auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
          for (int64_t k = begin; k < std::min(pixels, begin + kTerms); ++k) {
            const T* at = from + k * depth + c;
            s0 = hn::Add(s0, load_as_f32(d, at));
            s1 = hn::Add(s1, load_as_f32(d, at + lanes));
            s2 = hn::Add(s2, load_as_f32(d, at + 2 * lanes));
            s3 = hn::Add(s3, load_as_f32(d, at + 3 * lanes));
          }
          t0 = hn::Add(t0, s0);
          t1 = hn::Add(t1, s1);
          t2 = hn::Add(t2, s2);
          t3 = hn::Add(t3, s3);
        }
        store_f32_as(d, hn::Mul(t0, share), y + i + c);
        store_f32_as(d, hn::Mul(t1, share), y + i + c + lanes);
        store_f32_as(d, hn::Mul(t2, share), y + i + c + 2 * lanes);
        store_f32_as(d, hn::Mul(t3, share), y + i + c + 3 * lanes);
      }
      for (; c < left; c += lanes) {
        auto total = hn::Zero(d);
        for (int64_t begin = 0; begin < pixels; begin += kTerms) {
          auto sum = hn::Zero(d);
          for (int64_t k = begin; k < std::min(pixels, begin + kTerms); ++k)
            sum = hn::Add(sum, load_as_f32(d, from + k * depth + c, left - c));
          total = hn::Add(total, sum);
        }
        store_f32_as(d, hn::Mul(total, share), y + i + c, left - c);
      }
      i += left;
    }
  });
}

void global_avg_backward_images(const GlobalAvgPoolBackward& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const int64_t pixels = p.h * p.w, depth = p.forward().depth();
  const auto share = hn::Set(d, 1 / static_cast<float>(std::max<int64_t>(1, pixels)));
  const auto formula = [share](auto v) HWY_ATTR { return hn::Mul(v, share); };
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* dy = t[GlobalAvgPoolBackward::dy].as<const T>();
    auto* dx = t[GlobalAvgPoolBackward::dx].as<T>();
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t i = first; i < last; ++i) {
      if (depth == 1) {
        const auto v = hn::Mul(hn::Set(d, hn::GetLane(load_as_f32(one, dy + i))), share);
        for (int64_t k = 0; k < pixels; k += lanes) store_f32_as(d, v, dx + i * pixels + k, pixels - k);
      } else {
        for (int64_t k = 0; k < pixels; ++k) {
          T* to = dx + (i * pixels + k) * depth;
          stream ? map<true>(d, depth, formula, to, dy + i * depth) : map<false>(d, depth, formula, to, dy + i * depth);
        }
      }
    }
  });
  if (stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(global_avg_planes);
HWY_EXPORT(global_avg_channels);
HWY_EXPORT(global_avg_backward_images);

Plan global_avg_pool_tuned(const GlobalAvgPool& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const int64_t grain = rows_per_chunk(p.pixels());  // elements of y
  return [p, grain, &cpu](Args t) {
    cpu.parallel_for(p.n * p.c, p.depth() == 1 ? grain : std::max<int64_t>(grain, 64),
                     [&](int64_t first, int64_t last) {
                       if (p.depth() == 1)
                         HWY_DYNAMIC_DISPATCH(global_avg_planes)(p, t, first, last);
                       else
                         HWY_DYNAMIC_DISPATCH(global_avg_channels)(p, t, first, last);
                     });
  };
}
DUET_REGISTER(global_avg_pool_tuned);  // cpu.tuned

Plan global_avg_pool_backward_tuned(const GlobalAvgPoolBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const GlobalAvgPool f = p.forward();
  const bool stream = beyond_cache(p.n * p.c * (f.pixels() + 1) * size_of(p.dtype));
  return [p, f, stream, &cpu](Args t) {
    cpu.parallel_for(f.images(), rows_per_chunk(f.pixels() * f.depth()), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(global_avg_backward_images)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(global_avg_pool_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
