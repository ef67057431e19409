// SPDX-License-Identifier: Apache-2.0
// The transforms of winograd.h with vectors of f32: filters by vectors of channels, all others by vectors of tiles.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/conv/winograd.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>
#include <limits>

#include "cpu_ref/chunks.h"
#include "cpu_ref/clamp-inl.h"
#include "cpu_ref/conv/winograd.h"
#include "cpu_ref/floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using winograd::kPoints, winograd::Tiles;

// Filters of the output channels [first, last): u (16, k, c) = G g G', where G has the rows (1 0 0), (1 1 1) / 2,
// (1 -1 1) / 2, (0 0 1). filter: (k, c, 3, 3), or with `turned` (c, k, 3, 3), turned round.
void transform_filters(const Conv2d& p, bool turned, const void* filter, float* u, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto half = hn::Set(d, 0.5f);
  const auto transform = [half](V a, V b, V c, V* to) HWY_ATTR {
    const V sides = hn::Mul(half, hn::Add(a, c)), middle = hn::Mul(half, b);
    to[0] = a;
    to[1] = hn::Add(sides, middle);
    to[2] = hn::Sub(sides, middle);
    to[3] = c;
  };
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t k = first; k < last; ++k)
      for (int64_t c = 0; c < p.c; c += lanes) {
        // The nine taps of neighbouring channels, tap by tap.
        const int64_t left = std::min(lanes, p.c - c);
        HWY_ALIGN float taps[9][hn::MaxLanes(hn::ScalableTag<float>())] = {};
        for (int64_t i = 0; i < left; ++i) {
          const T* g = static_cast<const T*>(filter) + 9 * (turned ? (c + i) * p.k + k : k * p.c + c + i);
          for (int t = 0; t < 9; ++t) taps[t][i] = element(g + (turned ? 8 - t : t));
        }
        // Down, then across.
        V down[3][4], out[4];
        for (int s = 0; s < 3; ++s)
          transform(hn::Load(d, taps[s]), hn::Load(d, taps[3 + s]), hn::Load(d, taps[6 + s]), down[s]);
        for (int i = 0; i < 4; ++i) {
          transform(down[0][i], down[1][i], down[2][i], out);
          for (int j = 0; j < 4; ++j) store_f32_as(d, out[j], u + ((4 * i + j) * p.k + k) * p.c + c, left);
        }
      }
  });
}

// One row of tiles of one channel: v[e * pitch + tile] = (B' d B)[e], where B' has the rows (1 0 -1 0), (0 1 1 0),
// (0 -1 1 0), (0 1 0 -1). plane: (h, w); row: of the first pixels under the tiles, which may lie outside.
template <class T>
void winograd_pixels(const Conv2d& p, const Tiles& tiles, const T* plane, int64_t row, float* scratch, float* v,
                     int64_t pitch) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t padded = tiles.padded();
  float* const down = scratch + 4 * padded;
  const auto same = [](auto x) HWY_ATTR { return x; };

  // Four rows of pixels as f32, with zeros outside the plane.
  const int64_t begin = std::min(p.pad_w, tiles.width), end = std::clamp(p.w + p.pad_w, begin, tiles.width);
  for (int64_t i = 0; i < 4; ++i) {
    float* to = scratch + i * padded;
    const bool inside = row + i >= 0 && row + i < p.h;
    std::fill(to, to + (inside ? begin : padded), 0.0f);
    if (!inside) continue;
    map<false>(d, end - begin, same, to + begin, plane + (row + i) * p.w);
    std::fill(to + end, to + padded, 0.0f);
  }
  // Down.
  for (int64_t c = 0; c < tiles.width; c += lanes) {
    const auto at = [&](int i) HWY_ATTR { return hn::LoadU(d, scratch + i * padded + c); };
    const V d0 = at(0), d1 = at(1), d2 = at(2), d3 = at(3);
    hn::StoreU(hn::Sub(d0, d2), d, down + c);
    hn::StoreU(hn::Add(d1, d2), d, down + padded + c);
    hn::StoreU(hn::Sub(d2, d1), d, down + 2 * padded + c);
    hn::StoreU(hn::Sub(d1, d3), d, down + 3 * padded + c);
  }
  // Across. A tile begins at every second pixel. What is read behind the last pixel reaches no tile that is stored.
  for (int i = 0; i < 4; ++i)
    for (int64_t j = 0; j < tiles.across; j += lanes) {
      const float* from = down + i * padded + 2 * j;
      V d0, d1, d2, d3;
      hn::LoadInterleaved2(d, from, d0, d1);
      hn::LoadInterleaved2(d, from + 2, d2, d3);
      const auto put = [&](int point, V value)
                           HWY_ATTR { store_f32_as(d, value, v + (4 * i + point) * pitch + j, tiles.across - j); };
      put(0, hn::Sub(d0, d2));
      put(1, hn::Add(d1, d2));
      put(2, hn::Sub(d2, d1));
      put(3, hn::Sub(d1, d3));
    }
}

// One row of tiles of one output channel: y = act(A' m A + bias), where A' has the rows (1 1 1 0), (0 1 -1 -1). plane:
// (ho, wo); row: of the first results; floor: of the results, 0 for relu, else -inf.
template <class T>
void winograd_results(const Conv2d& p, const Tiles& tiles, const float* m, int64_t pitch, int64_t row, float bias,
                      float floor, float* scratch, T* plane) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t ho = p.ho(), wo = p.wo(), padded = tiles.padded();
  for (int64_t j = 0; j < tiles.across; j += lanes) {
    V even[4], odd[4];
    for (int i = 0; i < 4; ++i) {
      const auto at = [&](int point)
                          HWY_ATTR { return load_as_f32(d, m + (4 * i + point) * pitch + j, tiles.across - j); };
      const V m1 = at(1), m2 = at(2);
      even[i] = hn::Add(at(0), hn::Add(m1, m2));
      odd[i] = hn::Sub(hn::Sub(m1, m2), at(3));
    }
    const auto down = [&](const V* column, V& upper, V& lower) HWY_ATTR {
      upper = hn::Add(column[0], hn::Add(column[1], column[2]));
      lower = hn::Sub(hn::Sub(column[1], column[2]), column[3]);
    };
    V upper_even, lower_even, upper_odd, lower_odd;
    down(even, upper_even, lower_even);
    down(odd, upper_odd, lower_odd);
    hn::StoreInterleaved2(upper_even, upper_odd, d, scratch + 2 * j);
    hn::StoreInterleaved2(lower_even, lower_odd, d, scratch + padded + 2 * j);
  }
  const auto of_all = hn::Set(d, bias), least = hn::Set(d, floor);
  const auto finished = [=](auto sum) HWY_ATTR { return max_or_nan(least, hn::Add(sum, of_all)); };
  for (int64_t i = 0; i < std::min<int64_t>(2, ho - row); ++i)
    map<false>(d, wo, finished, plane + (row + i) * wo, static_cast<const float*>(scratch + i * padded));
}

// The rows of tiles [first_row, last_row) of channels [first, last) in a transformed block: f(plane, row, at), where
// plane counts through all images and `channels` channels, row through the rows of tiles of an image, and v[at] is the
// first tile.
template <class F>
HWY_INLINE void each_row(const Tiles& tiles, int64_t channels, int64_t first_row, int64_t last_row, int64_t first,
                         int64_t last, const F& f) {
  for (int64_t c = first; c < last; ++c)
    for (int64_t r = first_row; r < last_row; ++r)
      f(r / tiles.down * channels + c, r % tiles.down, c * tiles.block_tiles() + (r - first_row) * tiles.across);
}
// The tiles that a block of `rows` rows lacks are 0, where sums run over tiles.
void clear_missing(const Tiles& tiles, int64_t channels, int64_t rows, int64_t first, int64_t last, float* v) {
  if (rows == tiles.block_rows) return;
  for (int e = 0; e < kPoints; ++e)
    for (int64_t c = first; c < last; ++c) {
      float* const of_channel = v + (e * channels + c) * tiles.block_tiles();
      std::fill(of_channel + rows * tiles.across, of_channel + tiles.block_tiles(), 0.0f);
    }
}

void transform_pixels(const Conv2d& p, const Tiles& tiles, const void* x, int64_t first_row, int64_t last_row,
                      int64_t first, int64_t last, float* scratch, float* v) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    each_row(tiles, p.c, first_row, last_row, first, last, [&](int64_t plane, int64_t row, int64_t at) HWY_ATTR {
      winograd_pixels(p, tiles, static_cast<const T*>(x) + plane * p.h * p.w, 2 * row - p.pad_h, scratch, v + at,
                      p.c * tiles.block_tiles());
    });
  });
  clear_missing(tiles, p.c, last_row - first_row, first, last, v);
}

void transform_back(const Conv2d& p, const Tiles& tiles, const float* m, int64_t first_row, int64_t last_row,
                    int64_t first, int64_t last, const void* bias, bool relu, float* scratch, void* y) {
  const float floor = relu ? 0.0f : -std::numeric_limits<float>::infinity();
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T* const of_channels = static_cast<const T*>(bias);
    each_row(tiles, p.k, first_row, last_row, first, last, [&](int64_t plane, int64_t row, int64_t at) HWY_ATTR {
      winograd_results(p, tiles, m + at, p.k * tiles.block_tiles(), 2 * row,
                       bias ? element(of_channels + plane % p.k) : 0.0f, floor, scratch,
                       static_cast<T*>(y) + plane * p.ho() * p.wo());
    });
  });
}

// --- the gradient of the filter -------------------------------------------------------------------------------------

// One row of tiles of one channel of dy: w[e * pitch + tile] = (A g A')[e], the transpose of winograd_results. plane:
// (ho, wo); row: of the first values under the tiles.
template <class T>
void winograd_gradients(const Conv2d& p, const Tiles& tiles, const T* plane, int64_t row, float* scratch, float* w,
                        int64_t pitch) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t ho = p.ho(), wo = p.wo(), padded = tiles.padded();
  const auto same = [](auto x) HWY_ATTR { return x; };

  // Two rows of dy as f32, with zeros outside the plane.
  for (int64_t i = 0; i < 2; ++i) {
    float* to = scratch + i * padded;
    const int64_t inside = row + i < ho ? wo : 0;
    map<false>(d, inside, same, to, plane + (row + i) * wo);
    std::fill(to + inside, to + padded, 0.0f);
  }
  for (int64_t j = 0; j < tiles.across; j += lanes) {
    V g[2][2];
    for (int i = 0; i < 2; ++i) hn::LoadInterleaved2(d, scratch + i * padded + 2 * j, g[i][0], g[i][1]);
    // Down, then across: (g0, g0 + g1, g0 - g1, -g1).
    const auto transform = [d](V g0, V g1, V* to) HWY_ATTR {
      to[0] = g0;
      to[1] = hn::Add(g0, g1);
      to[2] = hn::Sub(g0, g1);
      to[3] = hn::Sub(hn::Zero(d), g1);
    };
    V left[4], right[4], out[4];
    transform(g[0][0], g[1][0], left);
    transform(g[0][1], g[1][1], right);
    for (int i = 0; i < 4; ++i) {
      transform(left[i], right[i], out);
      for (int point = 0; point < 4; ++point)
        store_f32_as(d, out[point], w + (4 * i + point) * pitch + j, tiles.across - j);
    }
  }
}

void transform_gradients(const Conv2d& p, const Tiles& tiles, const void* dy, int64_t first_row, int64_t last_row,
                         int64_t first, int64_t last, float* scratch, float* w) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    each_row(tiles, p.k, first_row, last_row, first, last, [&](int64_t plane, int64_t row, int64_t at) HWY_ATTR {
      winograd_gradients(p, tiles, static_cast<const T*>(dy) + plane * p.ho() * p.wo(), 2 * row, scratch, w + at,
                         p.k * tiles.block_tiles());
    });
  });
  clear_missing(tiles, p.k, last_row - first_row, first, last, w);
}

// dw of the output channels [first, last): G' S G, the transpose of transform_filters. S: (16, k, c), the sum of the
// parts in s; dw: (k, c, 3, 3).
void transform_filters_back(const Conv2d& p, const float* s, int64_t parts, void* dw, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto half = hn::Set(d, 0.5f);
  const auto transform = [half](V s0, V s1, V s2, V s3, V* to) HWY_ATTR {
    const V sum = hn::Mul(half, hn::Add(s1, s2)), difference = hn::Mul(half, hn::Sub(s1, s2));
    to[0] = hn::Add(s0, sum);
    to[1] = difference;
    to[2] = hn::Add(sum, s3);
  };
  const auto same = [](auto x) HWY_ATTR { return x; };
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t k = first; k < last; ++k)
      for (int64_t c = 0; c < p.c; c += lanes) {
        const int64_t left = std::min(lanes, p.c - c);
        // Down, then across.
        V down[4][3], out[3];
        for (int j = 0; j < 4; ++j) {
          const auto at = [&](int i) HWY_ATTR {
            const float* from = s + ((4 * i + j) * p.k + k) * p.c + c;
            V sum = load_as_f32(d, from, left);
            for (int64_t part = 1; part < parts; ++part)
              sum = hn::Add(sum, load_as_f32(d, from + part * kPoints * p.k * p.c, left));
            return sum;
          };
          transform(at(0), at(1), at(2), at(3), down[j]);
        }
        HWY_ALIGN float taps[9][hn::MaxLanes(hn::ScalableTag<float>())];
        for (int i = 0; i < 3; ++i) {
          transform(down[0][i], down[1][i], down[2][i], down[3][i], out);
          for (int j = 0; j < 3; ++j) hn::Store(out[j], d, taps[3 * i + j]);
        }
        // Channel by channel, as dw has them.
        float filters[9 * hn::MaxLanes(hn::ScalableTag<float>())];
        for (int64_t i = 0; i < left; ++i)
          for (int t = 0; t < 9; ++t) filters[9 * i + t] = taps[t][i];
        map<false>(d, 9 * left, same, static_cast<T*>(dw) + 9 * (k * p.c + c), static_cast<const float*>(filters));
      }
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet::winograd {
namespace {
HWY_EXPORT(transform_filters);
HWY_EXPORT(transform_pixels);
HWY_EXPORT(transform_back);
HWY_EXPORT(transform_gradients);
HWY_EXPORT(transform_filters_back);
}  // namespace

const char* unsupported_reason(const Conv2d& p) {
  if (p.math == Math::tf32) return "no TF32 on a CPU";
  if (!is_simd_dtype(p.dtype)) return kNotSimdDtype;
  if (p.layout == Layout::nhwc) return "layout nhwc";
  if (p.r != 3 || p.s != 3 || p.stride_h != 1 || p.stride_w != 1 || p.dil_h != 1 || p.dil_w != 1)
    return "other than 3x3 filters with stride 1 and dilation 1";
  return p.groups != 1 ? "groups" : nullptr;
}

void transform_pixels(const Conv2d& p, const Tiles& tiles, const void* x, int64_t first_row, int64_t last_row,
                      int64_t first, int64_t last, float* scratch, float* v) {
  HWY_DYNAMIC_DISPATCH(transform_pixels)(p, tiles, x, first_row, last_row, first, last, scratch, v);
}
void transform_filters(const Conv2d& p, bool turned, const void* filter, float* u, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(transform_filters)(p, turned, filter, u, first, last);
}
void transform_back(const Conv2d& p, const Tiles& tiles, const float* m, int64_t first_row, int64_t last_row,
                    int64_t first, int64_t last, const void* bias, bool relu, float* scratch, void* y) {
  HWY_DYNAMIC_DISPATCH(transform_back)(p, tiles, m, first_row, last_row, first, last, bias, relu, scratch, y);
}
void transform_gradients(const Conv2d& p, const Tiles& tiles, const void* dy, int64_t first_row, int64_t last_row,
                         int64_t first, int64_t last, float* scratch, float* w) {
  HWY_DYNAMIC_DISPATCH(transform_gradients)(p, tiles, dy, first_row, last_row, first, last, scratch, w);
}
void transform_filters_back(const Conv2d& p, const float* s, int64_t parts, void* dw, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(transform_filters_back)(p, s, parts, dw, first, last);
}

}  // namespace duet::winograd
#endif
