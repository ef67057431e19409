// SPDX-License-Identifier: Apache-2.0
// batchnorm and its backward, with vectors of f32.
//
// nchw: threads share the channels. The passes over a channel find most of it in cache (Pieces in batchnorm_blocks.h).
// nhwc: threads share blocks of pixels. The statistics of the blocks, which depend on the shape alone, are put together
// in order, channel by channel. In both layouts the last pass applies one formula with factors for each channel:
// forward y = act(x a + b + residual), backward dx = g k + x l + m, where g is dy, or 0 where relu was not active.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/norm/batchnorm_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/norm/batchnorm-inl.h"
#include "cpu_ref/norm/batchnorm_blocks.h"
#include "cpu_ref/norm/part_moments.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/reduce-inl.h"
#include "cpu_ref/streaming.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// One element, as f32.
template <class T>
HWY_INLINE double value_at(const T* p) {
  const hn::CappedTag<float, 1> one;
  return hn::GetLane(load_as_f32(one, p));
}

// Writes the statistics of channel c from its moments, and a and b of y = x a + b.
void set_channel(const BatchNorm& p, Args t, int64_t c, const Moments& m, float& a, float& b) {
  using P = BatchNorm;
  const double variance = m.squares / static_cast<double>(std::max<int64_t>(1, p.count()));
  const double scale = 1 / std::sqrt(variance + p.eps);
  const auto update = [&](float& running, double value) {
    running = static_cast<float>((1 - p.momentum) * running + p.momentum * value);
  };
  t[P::mean].as<float>()[c] = static_cast<float>(m.mean);
  t[P::rstd].as<float>()[c] = static_cast<float>(scale);
  update(t[P::running_mean].as<float>()[c], m.mean);
  update(t[P::running_var].as<float>()[c], variance * p.unbiased());
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const double factor = value_at(t[P::gamma].as<const T>() + c) * scale;
    a = static_cast<float>(factor);
    b = static_cast<float>(value_at(t[P::beta].as<const T>() + c) - m.mean * factor);
  });
}

// --- nchw
// -------------------------------------------------------------------------------------------------------------

// The sum of f(x[i]) over the pieces [first, last) of channel c.
template <class T, class F>
HWY_INLINE double sum_pieces(const BatchNorm& p, const Pieces& pieces, const T* x, int64_t c, int64_t first,
                             int64_t last, const F& f) {
  const hn::ScalableTag<float> d;
  auto total = hn::Zero(d);
  for (int64_t i = first; i < last; ++i) {
    const T* piece = x + (pieces.plane(i) * p.c + c) * p.pixels() + pieces.first(i);
    total = hn::Add(total, sum_vector(d, pieces.length(i), f, piece));
  }
  return hn::GetLane(hn::SumOfLanes(d, total));
}

// Channels [first, last), from sums to y.
template <bool kStream, class T>
void normalise_channels(const BatchNorm& p, Args t, int64_t first, int64_t last) {
  using P = BatchNorm;
  const hn::ScalableTag<float> d;
  const Pieces pieces(p.n, p.pixels());
  const auto* x = t[P::x].as<const T>();
  const auto* residual = p.residual ? t[P::added].as<const T>() : nullptr;
  auto* y = t[P::y].as<T>();
  for (int64_t c = first; c < last; ++c) {
    // Mean and squared deviations, group by group.
    Moments all;
    for (int64_t i = 0; i < pieces.count(); i += pieces.in_group()) {
      const int64_t end = std::min(pieces.count(), i + pieces.in_group());
      double n = 0;
      for (int64_t k = i; k < end; ++k) n += static_cast<double>(pieces.length(k));
      const double mean = sum_pieces(p, pieces, x, c, i, end, [](auto v) HWY_ATTR { return v; }) / n;
      const auto m = hn::Set(d, static_cast<float>(mean));
      const auto square = [m](auto v) HWY_ATTR {
        const auto deviation = hn::Sub(v, m);
        return hn::Mul(deviation, deviation);
      };
      all.add(n, mean, sum_pieces(p, pieces, x, c, i, end, square));
    }
    // Statistics, then y.
    float a, b;
    set_channel(p, t, c, all, a, b);
    for (int64_t image = 0; image < p.n; ++image) {
      const int64_t at = (image * p.c + c) * p.pixels();
      scale_plane<kStream>(x + at, residual ? residual + at : nullptr, y + at, p.pixels(), a, b, floor_of(p));
    }
  }
}

void batchnorm_channels(const BatchNorm& p, Args t, int64_t first, int64_t last, bool stream) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    (stream ? normalise_channels<true, T> : normalise_channels<false, T>)(p, t, first, last);
  });
  if (stream) hwy::FlushStream();
}

// --- nhwc
// -------------------------------------------------------------------------------------------------------------

// Pixels that are added between a load and a store of the sums. x is then still read nearly in the order of memory.
inline constexpr int64_t kPixelsAtOnce = 8;

// to[c] = the sum over `rows` pixels of f(x[row, c], with[c]), for all channels c. A row of x is the channels of one
// pixel.
template <class T, class F>
HWY_INLINE void sum_pixels(const T* x, int64_t rows, int64_t channels, const float* with, float* to, const F& f) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  std::fill_n(to, channels, 0.0f);
  for (int64_t first = 0; first < rows; first += kPixelsAtOnce) {
    const int64_t last = std::min(rows, first + kPixelsAtOnce);
    // Two vectors of channels at a time, then single ones, the last of which may be partial.
    int64_t c = 0;
    for (; c + 2 * lanes <= channels; c += 2 * lanes) {
      const auto w0 = load_as_f32(d, with + c), w1 = load_as_f32(d, with + c + lanes);
      auto s0 = load_as_f32(d, to + c), s1 = load_as_f32(d, to + c + lanes);
      for (int64_t r = first; r < last; ++r) {
        const T* at = x + r * channels + c;
        s0 = hn::Add(s0, f(load_as_f32(d, at), w0));
        s1 = hn::Add(s1, f(load_as_f32(d, at + lanes), w1));
      }
      store_f32_as(d, s0, to + c);
      store_f32_as(d, s1, to + c + lanes);
    }
    for (; c < channels; c += lanes) {
      const int64_t left = channels - c;
      const auto w = load_as_f32(d, with + c, left);
      auto s = load_as_f32(d, to + c, left);
      for (int64_t r = first; r < last; ++r) s = hn::Add(s, f(load_as_f32(d, x + r * channels + c, left), w));
      store_f32_as(d, s, to + c, left);
    }
  }
}

// One block of pixels. part: (2, c), the mean of each channel and the sum of squared deviations from it.
void block_moments(const BatchNorm& p, Args t, int64_t block, float* part) {
  const hn::ScalableTag<float> d;
  const PixelBlocks blocks(p.count(), p.c);
  const int64_t rows = blocks.length(block);
  float *mean = part, *squares = part + p.c;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T* x = t[BatchNorm::x].as<const T>() + block * blocks.height * p.c;
    // Mean.
    sum_pixels(x, rows, p.c, mean, mean, [](auto v, auto) HWY_ATTR { return v; });
    const auto inv_rows = hn::Set(d, 1 / static_cast<float>(rows));
    map<false>(
        d, p.c, [inv_rows](auto v) HWY_ATTR { return hn::Mul(v, inv_rows); }, mean, mean);
    // Deviations from it.
    sum_pixels(x, rows, p.c, mean, squares, [](auto v, auto m) HWY_ATTR {
      const auto deviation = hn::Sub(v, m);
      return hn::Mul(deviation, deviation);
    });
  });
}

// Channels [first, last): puts the blocks together. parts: (blocks, 2, c). a, b: (c).
void merge_moments(const BatchNorm& p, Args t, const float* parts, int64_t first, int64_t last, float* a, float* b) {
  const PixelBlocks blocks(p.count(), p.c);
  for (int64_t c = first; c < last; ++c) {
    Moments all;
    for (int64_t k = 0; k < blocks.count; ++k)
      all.add(static_cast<double>(blocks.length(k)), parts[2 * k * p.c + c], parts[(2 * k + 1) * p.c + c]);
    set_channel(p, t, c, all, a[c], b[c]);
  }
}

// Pixels [first, last) of y. a, b: (c).
template <bool kStream, class T>
void normalise_pixels(const BatchNorm& p, Args t, const float* a, const float* b, int64_t first, int64_t last) {
  using P = BatchNorm;
  const auto* x = t[P::x].as<const T>();
  const auto* residual = p.residual ? t[P::added].as<const T>() : nullptr;
  auto* y = t[P::y].as<T>();
  for (int64_t i = first; i < last; ++i)
    scale_pixel<kStream>(x + i * p.c, residual ? residual + i * p.c : nullptr, y + i * p.c, p.c, a, b, floor_of(p));
}

void batchnorm_pixels(const BatchNorm& p, Args t, const float* a, const float* b, int64_t first, int64_t last,
                      bool stream) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    (stream ? normalise_pixels<true, T> : normalise_pixels<false, T>)(p, t, a, b, first, last);
  });
  if (stream) hwy::FlushStream();
}

// --- backward
// ---------------------------------------------------------------------------------------------------------

// What relu passes back: dy where y > limit, else 0. With a limit of NaN, which is the case without relu, every dy.
template <class V>
HWY_INLINE V passed(V dy, V y, V limit) {
  return hn::IfThenElse(hn::Le(y, limit), hn::Zero(hn::DFromV<V>()), dy);
}
float limit_of(const BatchNormBackward& p) { return p.relu() ? 0 : NAN; }

// Writes dgamma and dbeta of channel c from its sums of g and of g (x - mean); returns k, l and m of dx = g k + x l +
// m.
struct Factors {
  float k, l, m;
};
Factors set_gradients(const BatchNormBackward& p, Args t, int64_t c, double sum, double dot) {
  using P = BatchNormBackward;
  const double scale = t[P::rstd].as<const float>()[c], mean = t[P::mean].as<const float>()[c];
  const auto total = static_cast<double>(std::max<int64_t>(1, p.count()));
  double k = 0;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const hn::CappedTag<float, 1> one;
    store_f32_as(one, hn::Set(one, static_cast<float>(dot * scale)), t[P::dgamma].as<T>() + c);
    store_f32_as(one, hn::Set(one, static_cast<float>(sum)), t[P::dbeta].as<T>() + c);
    k = value_at(t[P::gamma].as<const T>() + c) * scale;
  });
  const double l = -k * scale * scale * dot / total;
  return {static_cast<float>(k), static_cast<float>(l), static_cast<float>(-k * sum / total - l * mean)};
}

// Channels [first, last), from sums to dx.
template <bool kStream, class T>
void channels_backward(const BatchNormBackward& p, Args t, int64_t first, int64_t last) {
  using P = BatchNormBackward;
  const hn::ScalableTag<float> d;
  struct Sums {  // of g and of g (x - mean)
    hn::Vec<hn::ScalableTag<float>> g, dot;
  };
  const auto merge = [](Sums a, Sums b) HWY_ATTR { return Sums{hn::Add(a.g, b.g), hn::Add(a.dot, b.dot)}; };
  const Pieces pieces(p.n, p.pixels());
  const auto *x = t[P::x].as<const T>(), *dy = t[P::dy].as<const T>();
  const auto* y = p.relu() ? t[P::y].as<const T>() : dy;
  auto *dx = t[P::dx].as<T>(), *dresidual = p.residual ? t[P::dadded].as<T>() : nullptr;
  const auto limit = hn::Set(d, limit_of(p));
  for (int64_t c = first; c < last; ++c) {
    const auto mean = hn::Set(d, t[P::mean].as<const float>()[c]);
    // Sums over the channel, group by group.
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < pieces.count(); i += pieces.in_group()) {
      Sums group{hn::Zero(d), hn::Zero(d)};
      for (int64_t k = i; k < std::min(pieces.count(), i + pieces.in_group()); ++k) {
        const int64_t at = (pieces.plane(k) * p.c + c) * p.pixels() + pieces.first(k);
        group = merge(group, reduce<2>(
                                 d, pieces.length(k), Sums{hn::Zero(d), hn::Zero(d)},
                                 [&](Sums acc, int64_t offset, auto... left) HWY_ATTR {
                                   const int64_t e = at + offset;
                                   const auto g =
                                       passed(load_as_f32(d, dy + e, left...), load_as_f32(d, y + e, left...), limit);
                                   const auto deviation = hn::Sub(load_as_f32(d, x + e, left...), mean);
                                   return Sums{hn::Add(acc.g, g), hn::MulAdd(g, deviation, acc.dot)};
                                 },
                                 merge));
      }
      sum += hn::GetLane(hn::SumOfLanes(d, group.g));
      dot += hn::GetLane(hn::SumOfLanes(d, group.dot));
    }
    // dgamma and dbeta, then dx and dresidual.
    const Factors f = set_gradients(p, t, c, sum, dot);
    const auto k = hn::Set(d, f.k), l = hn::Set(d, f.l), m = hn::Set(d, f.m);
    const auto choice = [limit](auto dv, auto out) HWY_ATTR { return passed(dv, out, limit); };
    const auto masked = [=](auto v, auto dv, auto out)
                            HWY_ATTR { return hn::MulAdd(passed(dv, out, limit), k, hn::MulAdd(v, l, m)); };
    const auto plain = [=](auto v, auto dv) HWY_ATTR { return hn::MulAdd(dv, k, hn::MulAdd(v, l, m)); };
    for (int64_t image = 0; image < p.n; ++image) {
      const int64_t at = (image * p.c + c) * p.pixels();
      if (dresidual) {
        // In parts that fit L1: dx and dresidual may lie where x, dy or y lie, from which both are made, so g is kept
        // apart.
        HWY_ALIGN float g[Pieces::kMaxLength];
        for (int64_t e = 0; e < p.pixels(); e += Pieces::kMaxLength) {
          const int64_t n = std::min(Pieces::kMaxLength, p.pixels() - e), here = at + e;
          map<false>(d, n, choice, g, dy + here, y + here);
          map<kStream>(d, n, plain, dx + here, x + here, static_cast<const float*>(g));
          map<kStream>(
              d, n, [](auto v) HWY_ATTR { return v; }, dresidual + here, static_cast<const float*>(g));
        }
      } else if (p.relu()) {
        map<kStream>(d, p.pixels(), masked, dx + at, x + at, dy + at, y + at);
      } else {
        map<kStream>(d, p.pixels(), plain, dx + at, x + at, dy + at);
      }
    }
  }
}

void batchnorm_backward_channels(const BatchNormBackward& p, Args t, int64_t first, int64_t last, bool stream) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    (stream ? channels_backward<true, T> : channels_backward<false, T>)(p, t, first, last);
  });
  if (stream) hwy::FlushStream();
}

// nhwc: one block of pixels. part: (2, c), the sums of g and of g (x - mean) for each channel.
void block_gradients(const BatchNormBackward& p, Args t, int64_t block, float* part) {
  using P = BatchNormBackward;
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const PixelBlocks blocks(p.count(), p.c);
  const int64_t first = block * blocks.height * p.c, end = first + blocks.length(block) * p.c;
  const auto* means = t[P::mean].as<const float>();
  const auto limit = hn::Set(d, limit_of(p));
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto *x = t[P::x].as<const T>(), *dy = t[P::dy].as<const T>();
    const auto* y = p.relu() ? t[P::y].as<const T>() : dy;
    std::fill_n(part, 2 * p.c, 0.0f);
    for (int64_t begin = first; begin < end; begin += kPixelsAtOnce * p.c) {
      const int64_t stop = std::min(end, begin + kPixelsAtOnce * p.c);
      for (int64_t c = 0; c < p.c; c += lanes) {
        const int64_t left = p.c - c;
        const auto mean = load_as_f32(d, means + c, left);
        auto s = load_as_f32(d, part + c, left), q = load_as_f32(d, part + p.c + c, left);
        for (int64_t at = begin + c; at < stop; at += p.c) {
          const auto g = passed(load_as_f32(d, dy + at, left), load_as_f32(d, y + at, left), limit);
          s = hn::Add(s, g);
          q = hn::MulAdd(g, hn::Sub(load_as_f32(d, x + at, left), mean), q);
        }
        store_f32_as(d, s, part + c, left);
        store_f32_as(d, q, part + p.c + c, left);
      }
    }
  });
}

// nhwc: channels [first, last). Adds up the blocks. parts: (blocks, 2, c). factors: (3, c), k, l and m.
void merge_gradients(const BatchNormBackward& p, Args t, const float* parts, int64_t first, int64_t last,
                     float* factors) {
  const PixelBlocks blocks(p.count(), p.c);
  for (int64_t c = first; c < last; ++c) {
    double sum = 0, dot = 0;
    for (int64_t k = 0; k < blocks.count; ++k) {
      sum += parts[2 * k * p.c + c];
      dot += parts[(2 * k + 1) * p.c + c];
    }
    const Factors f = set_gradients(p, t, c, sum, dot);
    factors[c] = f.k;
    factors[p.c + c] = f.l;
    factors[2 * p.c + c] = f.m;
  }
}

// nhwc: pixels [first, last) of dx. factors: (3, c).
template <bool kStream, class T>
void pixels_backward(const BatchNormBackward& p, Args t, const float* factors, int64_t first, int64_t last) {
  using P = BatchNormBackward;
  const hn::ScalableTag<float> d;
  const auto *x = t[P::x].as<const T>(), *dy = t[P::dy].as<const T>();
  const auto* y = p.relu() ? t[P::y].as<const T>() : dy;
  auto *dx = t[P::dx].as<T>(), *dresidual = p.residual ? t[P::dadded].as<T>() : nullptr;
  const auto limit = hn::Set(d, limit_of(p));
  const auto choice = [limit](auto dv, auto out) HWY_ATTR { return passed(dv, out, limit); };
  const auto masked = [limit](auto v, auto dv, auto out, auto k, auto l, auto m)
                          HWY_ATTR { return hn::MulAdd(passed(dv, out, limit), k, hn::MulAdd(v, l, m)); };
  const auto plain = [](auto v, auto dv, auto k, auto l, auto m)
                         HWY_ATTR { return hn::MulAdd(dv, k, hn::MulAdd(v, l, m)); };
  for (int64_t i = first; i < last; ++i) {
    if (dresidual) {  // in parts that fit L1, as above
      HWY_ALIGN float g[Pieces::kMaxLength];
      for (int64_t c = 0; c < p.c; c += Pieces::kMaxLength) {
        const int64_t n = std::min(Pieces::kMaxLength, p.c - c), here = i * p.c + c;
        const float *k = factors + c, *l = k + p.c, *m = l + p.c;
        map<false>(d, n, choice, g, dy + here, y + here);
        map<kStream>(d, n, plain, dx + here, x + here, static_cast<const float*>(g), k, l, m);
        map<kStream>(
            d, n, [](auto v) HWY_ATTR { return v; }, dresidual + here, static_cast<const float*>(g));
      }
      continue;
    }
    const int64_t at = i * p.c;
    const float *k = factors, *l = k + p.c, *m = l + p.c;
    p.relu() ? map<kStream>(d, p.c, masked, dx + at, x + at, dy + at, y + at, k, l, m)
             : map<kStream>(d, p.c, plain, dx + at, x + at, dy + at, k, l, m);
  }
}

void batchnorm_backward_pixels(const BatchNormBackward& p, Args t, const float* factors, int64_t first, int64_t last,
                               bool stream) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    (stream ? pixels_backward<true, T> : pixels_backward<false, T>)(p, t, factors, first, last);
  });
  if (stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(batchnorm_channels);
HWY_EXPORT(block_moments);
HWY_EXPORT(merge_moments);
HWY_EXPORT(batchnorm_pixels);
HWY_EXPORT(batchnorm_backward_channels);
HWY_EXPORT(block_gradients);
HWY_EXPORT(merge_gradients);
HWY_EXPORT(batchnorm_backward_pixels);

// Whether y or dx is written past the caches, which needs runs of whole cache lines.
bool streams(const Channels& p, int64_t tensors) {
  const int64_t run = p.layout == Layout::nchw ? p.pixels() : p.c;
  return beyond_cache(tensors * p.elements() * size_of(p.dtype)) && run >= 64;
}

Plan batchnorm_tuned(const BatchNorm& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = streams(p, p.residual ? 3 : 2);
  if (p.layout == Layout::nchw)
    return [p, stream, &cpu](Args t) {
      cpu.parallel_for(p.c, rows_per_chunk(p.count()), [&](int64_t first, int64_t last) {
        HWY_DYNAMIC_DISPATCH(batchnorm_channels)(p, t, first, last, stream);
      });
    };
  const PixelBlocks blocks(p.count(), p.c);
  WorkspaceLayout workspace;
  const auto moments = workspace.add<float>(blocks.count * 2 * p.c);
  const auto scales = workspace.add<float>(p.c), shifts = workspace.add<float>(p.c);
  const auto run = [p, stream, blocks, moments, scales, shifts, &cpu](Args t) {
    float *const parts = t.workspace(moments), *const a = t.workspace(scales), *const b = t.workspace(shifts);
    cpu.parallel_for(blocks.count, 1, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) HWY_DYNAMIC_DISPATCH(block_moments)(p, t, k, parts + k * 2 * p.c);
    });
    cpu.parallel_for(p.c, rows_per_chunk(16 * blocks.count), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(merge_moments)(p, t, parts, first, last, a, b);
    });
    cpu.parallel_for(p.count(), rows_per_chunk(p.c), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(batchnorm_pixels)(p, t, a, b, first, last, stream);
    });
  };
  return Plan(run).with(std::move(workspace));
}
DUET_REGISTER(batchnorm_tuned);  // cpu.tuned

Plan batchnorm_backward_tuned(const BatchNormBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = streams(p, 3 + (p.relu() ? 1 : 0) + (p.residual ? 1 : 0));
  if (p.layout == Layout::nchw)
    return [p, stream, &cpu](Args t) {
      cpu.parallel_for(p.c, rows_per_chunk(p.count()), [&](int64_t first, int64_t last) {
        HWY_DYNAMIC_DISPATCH(batchnorm_backward_channels)(p, t, first, last, stream);
      });
    };
  const PixelBlocks blocks(p.count(), p.c);
  WorkspaceLayout workspace;
  const auto sums = workspace.add<float>(blocks.count * 2 * p.c), all_factors = workspace.add<float>(3 * p.c);
  const auto run = [p, stream, blocks, sums, all_factors, &cpu](Args t) {
    float *const parts = t.workspace(sums), *const factors = t.workspace(all_factors);
    cpu.parallel_for(blocks.count, 1, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) HWY_DYNAMIC_DISPATCH(block_gradients)(p, t, k, parts + k * 2 * p.c);
    });
    cpu.parallel_for(p.c, rows_per_chunk(16 * blocks.count), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(merge_gradients)(p, t, parts, first, last, factors);
    });
    cpu.parallel_for(p.count(), rows_per_chunk(p.c), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(batchnorm_backward_pixels)(p, t, factors, first, last, stream);
    });
  };
  return Plan(run).with(std::move(workspace));
}
DUET_REGISTER(batchnorm_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
