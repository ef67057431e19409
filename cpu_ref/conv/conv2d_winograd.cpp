// SPDX-License-Identifier: Apache-2.0
// conv2d, conv2d_bias and the gradients of conv2d by Winograd's minimal filtering F(2x2, 3x3) (Lavin and Gray,
// arXiv:1509.09308): 3x3 filters with stride 1, in nchw. dx is a convolution of dy with the filters turned round
// (convolution_of_dy). A tile of 2x2 results needs 4x4 pixels. Pixels and filters are transformed to 16 values each,
// whose products, summed over channels, are transformed back: 16 products for 4 results instead of 36. The transforms
// add, subtract and halve, so small whole numbers stay exact. F(4x4, 3x3) would save 2.25 times more, but divides by 6
// and 24.
//
// A run transforms the filters, as they may change, then takes blocks of rows of tiles that stay in cache:
//   U[e] (k, c): filters, V[e] (c, tiles): pixels, M[e] (k, tiles) = U[e] V[e] by the matrix engine, for e < 16;
// all of them in f32. The contract's bound allows for the errors of transforms (kTransformed of ops/summation.h).
//
// dw is the gradient of that with respect to the filters: each step is linear, and its transpose takes the gradient
// back, W = A dy A', S[e] (k, c) = W[e] V[e]', dw = G' S G. Sums run over the tiles of all blocks, which are added to S
// in order. It is F(3x3, 2x2): a tile of 3x3 taps by 2x2 values of dy, 16 products instead of 36 as well.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/conv/conv2d_winograd.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>
#include <limits>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/clamp-inl.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/gemm/engine.h"
#include "cpu_ref/scratch.h"
#include "ops/conv/conv2d_backward.h"
#include "ops/conv/conv2d_bias.h"

#ifndef DUET_CPU_REF_CONV_WINOGRAD_
#define DUET_CPU_REF_CONV_WINOGRAD_
namespace duet::winograd {

inline constexpr int kPoints = 16;  // values of a transformed tile

// The tiles of a problem: a row of tiles has `across` tiles, an image has `down` rows of them; a block has block_rows.
struct Tiles {
  // A block has about block_floats values of V and M (or W), but at least min_tiles tiles.
  Tiles(const Conv2d& p, int64_t block_floats, int64_t min_tiles)
      : across((p.wo() + 1) / 2), down((p.ho() + 1) / 2), rows(p.n * down), width(2 * across + 2) {
    const int64_t tiles = std::max(min_tiles, block_floats / (kPoints * std::max<int64_t>(1, p.c + p.k)));
    const int64_t wanted = std::max<int64_t>(1, tiles / std::max<int64_t>(1, across));
    blocks = ceil_div(rows, wanted);
    block_rows = blocks == 0 ? 0 : ceil_div(rows, blocks);
  }
  int64_t block_tiles() const { return block_rows * across; }
  // Floats of scratch memory for one thread: 4 rows of pixels, whole vectors of them, and the same after the first
  // half of the transform.
  int64_t scratch_floats() const { return 8 * padded(); }
  int64_t padded() const { return ceil_div(width, kLanes) * kLanes + 2 * kLanes; }
  static constexpr int64_t kLanes = 16;  // of the widest vector

  int64_t across, down, rows, width;  // width: pixels under a row of tiles
  int64_t blocks, block_rows;
};
// What the products of a block read and write fits in 256 KiB, with at least 64 tiles for a product.
inline Tiles tiles_of_results(const Conv2d& p) { return Tiles(p, 1 << 16, 64); }
// S is read and written once for each block: enough tiles that their products take much longer than that.
inline Tiles tiles_of_filters(const Conv2d& p) { return Tiles(p, 1 << 18, 256); }

}  // namespace duet::winograd
#endif

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using winograd::kPoints;
using winograd::Tiles;

// Filters of the output channels [first, last): u (16, k, c) = G g G', where G has the rows (1 0 0), (1 1 1) / 2,
// (1 -1 1) / 2, (0 0 1). filter: (k, c, 3, 3), or for a gradient (c, k, 3, 3), turned round.
void winograd_filters(const Conv2d& p, bool gradient, const void* filter, float* u, int64_t first, int64_t last) {
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
          const T* g = static_cast<const T*>(filter) + 9 * (gradient ? (c + i) * p.k + k : k * p.c + c + i);
          for (int t = 0; t < 9; ++t) taps[t][i] = element(g + (gradient ? 8 - t : t));
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

// The tiles that the last block lacks are 0, where sums run over tiles. v: of one channel, from the block's first tile
// on.
void clear_missing(const Tiles& tiles, int64_t rows, float* v, int64_t pitch) {
  if (rows == tiles.block_rows) return;
  for (int e = 0; e < kPoints; ++e)
    std::fill(v + e * pitch + rows * tiles.across, v + e * pitch + tiles.block_tiles(), 0.0f);
}

// V of one block for rows of tiles [first_row, last_row) of all images and channels [first, last).
void winograd_input(const Conv2d& p, const Tiles& tiles, const void* x, int64_t first_row, int64_t last_row,
                    int64_t first, int64_t last, float* scratch, float* v) {
  const int64_t pitch = p.c * tiles.block_tiles();
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t c = first; c < last; ++c) {
      float* const of_channel = v + c * tiles.block_tiles();
      for (int64_t r = first_row; r < last_row; ++r) {
        const T* plane = static_cast<const T*>(x) + (r / tiles.down * p.c + c) * p.h * p.w;
        winograd_pixels(p, tiles, plane, 2 * (r % tiles.down) - p.pad_h, scratch,
                        of_channel + (r - first_row) * tiles.across, pitch);
      }
      clear_missing(tiles, last_row - first_row, of_channel, pitch);
    }
  });
}

// y from M of one block, for the output channels [first, last). bias: (k), or null.
void winograd_output(const Conv2d& p, const Tiles& tiles, const float* m, int64_t first_row, int64_t last_row,
                     int64_t first, int64_t last, const void* bias, bool relu, float* scratch, void* y) {
  const int64_t pitch = p.k * tiles.block_tiles();
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t k = first; k < last; ++k)
      for (int64_t r = first_row; r < last_row; ++r) {
        T* plane = static_cast<T*>(y) + (r / tiles.down * p.k + k) * p.ho() * p.wo();
        winograd_results(p, tiles, m + k * tiles.block_tiles() + (r - first_row) * tiles.across, pitch,
                         2 * (r % tiles.down), bias ? element(static_cast<const T*>(bias) + k) : 0.0f,
                         relu ? 0.0f : -std::numeric_limits<float>::infinity(), scratch, plane);
      }
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

// W of one block for rows of tiles [first_row, last_row) of all images and output channels [first, last).
void winograd_input_of_filters(const Conv2d& p, const Tiles& tiles, const void* dy, int64_t first_row, int64_t last_row,
                               int64_t first, int64_t last, float* scratch, float* w) {
  const int64_t pitch = p.k * tiles.block_tiles();
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t k = first; k < last; ++k) {
      float* const of_channel = w + k * tiles.block_tiles();
      for (int64_t r = first_row; r < last_row; ++r) {
        const T* plane = static_cast<const T*>(dy) + (r / tiles.down * p.k + k) * p.ho() * p.wo();
        winograd_gradients(p, tiles, plane, 2 * (r % tiles.down), scratch, of_channel + (r - first_row) * tiles.across,
                           pitch);
      }
      clear_missing(tiles, last_row - first_row, of_channel, pitch);
    }
  });
}

// dw of the output channels [first, last): G' s G, the transpose of winograd_filters. s: (16, k, c), dw: (k, c, 3, 3).
void winograd_output_of_filters(const Conv2d& p, const float* s, void* dw, int64_t first, int64_t last) {
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
          const auto at = [&](int i) HWY_ATTR { return load_as_f32(d, s + ((4 * i + j) * p.k + k) * p.c + c, left); };
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
namespace duet {
namespace {
HWY_EXPORT(winograd_filters);
HWY_EXPORT(winograd_input);
HWY_EXPORT(winograd_output);
HWY_EXPORT(winograd_input_of_filters);
HWY_EXPORT(winograd_output_of_filters);
using engine::Engine, engine::Matrix;
using winograd::kPoints, winograd::Tiles;

const char* unsupported_reason(const Conv2d& p) {  // null: none
  if (p.math == Math::tf32) return "no TF32 on a CPU";
  if (!is_simd_dtype(p.dtype)) return kNotSimdDtype;
  if (p.layout == Layout::nhwc) return "layout nhwc";
  if (p.r != 3 || p.s != 3 || p.stride_h != 1 || p.stride_w != 1 || p.dil_h != 1 || p.dil_w != 1)
    return "other than 3x3 filters with stride 1 and dilation 1";
  return p.groups != 1 ? "groups" : nullptr;
}

// x, filter and those of the layer are slots; p has the extents of the tensors in them.
Plan winograd_plan(const Conv2d& p, bool gradient, Slot x_slot, Slot filter_slot, const Conv2dLayer& layer,
                   CpuContext& cpu) {
  if (const char* reason = unsupported_reason(p)) return Unsupported{reason};
  if (!p.has_winograd_bound()) return Unsupported{Conv2d::kFewTerms};
  const Tiles tiles = winograd::tiles_of_results(p);
  const int64_t lines = tiles.block_tiles();
  const int64_t blocks = tiles.block_rows == 0 ? 0 : ceil_div(tiles.rows, tiles.block_rows);
  const engine::Shape shape{.m = p.k, .n = lines, .k = p.c, .a = {.along_k = true}};
  // Many blocks that stay in a core's cache: each is the work of one thread, from pixels to results, without a fork
  // between. Else threads share each of them.
  constexpr int64_t kMaxBlockBytes = 1 << 20;
  const int64_t block_floats = kPoints * (p.c + p.k) * lines;
  WorkspaceLayout unused;
  const bool by_blocks = block_floats * int64_t{sizeof(float)} <= kMaxBlockBytes &&
                         Engine(cpu, unused, shape, blocks, kPoints).items_in_parallel();
  WorkspaceLayout workspace;
  Engine engine(cpu, workspace, shape, by_blocks ? blocks : kPoints, by_blocks ? kPoints : 1);
  const Scratch scratch(cpu, workspace, tiles.scratch_floats());
  const Scratch of_block(cpu, workspace, by_blocks ? block_floats : 0);
  const auto filters = workspace.add<float>(kPoints * p.k * p.c);
  const auto pixels = workspace.add<float>(by_blocks ? 0 : kPoints * p.c * lines);
  const auto products = workspace.add<float>(by_blocks ? 0 : kPoints * p.k * lines);
  const std::string algorithm = "F(2x2, 3x3), " + engine.describe();
  auto run = [=, engine = std::move(engine), &cpu](Args t) {
    if (lines == 0 || p.k == 0) return;
    float* const u = t.workspace(filters);
    const void* const x = t[x_slot].data;
    const void* const filter = t[filter_slot].data;
    const void* const bias = layer.bias ? t[*layer.bias].data : nullptr;
    void* const y = t[layer.y].data;
    cpu.parallel_for(p.k, rows_per_chunk(9 * p.c), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(winograd_filters)(p, gradient, filter, u, first, last);
    });
    const auto multiply = [&](int64_t point, float* v, float* m, float* memory) {
      const Matrix a(u + point * p.k * p.c, DType::f32, p.c, 1), b(v + point * p.c * lines, DType::f32, 1, lines);
      engine.multiply(a, b, {.c = m + point * p.k * lines, .dtype = DType::f32, .step = lines}, memory);
    };
    if (by_blocks) {
      engine.each(t, [&](int64_t block, float* memory) {
        const int64_t row = block * tiles.block_rows, end = std::min(tiles.rows, row + tiles.block_rows);
        float *const v = of_block.of_this_thread(t), *const m = v + kPoints * p.c * lines;
        float* const part = scratch.of_this_thread(t);
        HWY_DYNAMIC_DISPATCH(winograd_input)(p, tiles, x, row, end, 0, p.c, part, v);
        for (int64_t point = 0; point < kPoints; ++point) multiply(point, v, m, memory);
        HWY_DYNAMIC_DISPATCH(winograd_output)(p, tiles, m, row, end, 0, p.k, bias, layer.relu, part, y);
      });
      return;
    }
    float *const v = t.workspace(pixels), *const m = t.workspace(products);
    for (int64_t row = 0; row < tiles.rows; row += tiles.block_rows) {
      const int64_t end = std::min(tiles.rows, row + tiles.block_rows);
      cpu.parallel_for(p.c, rows_per_chunk(kPoints * lines), [&](int64_t first, int64_t last) {
        HWY_DYNAMIC_DISPATCH(winograd_input)(p, tiles, x, row, end, first, last, scratch.of_this_thread(t), v);
      });
      engine.each(t, [&](int64_t point, float* memory) { multiply(point, v, m, memory); });
      cpu.parallel_for(p.k, rows_per_chunk(kPoints * lines), [&](int64_t first, int64_t last) {
        HWY_DYNAMIC_DISPATCH(winograd_output)
        (p, tiles, m, row, end, first, last, bias, layer.relu, scratch.of_this_thread(t), y);
      });
    }
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}
Plan conv2d_winograd(const Conv2d& p, CpuContext& cpu) {
  return winograd_plan(p, false, Conv2d::x, Conv2d::filter, kPlainConv2d, cpu);
}
Plan conv2d_bias_winograd(const Conv2dBias& p, CpuContext& cpu) {
  return winograd_plan(p.conv, false, Conv2dBias::x, Conv2dBias::filter, p.layer(), cpu);
}
Plan conv2d_backward_data_winograd(const Conv2dBackwardData& p, CpuContext& cpu) {
  using P = Conv2dBackwardData;
  const std::optional<Conv2d> conv = convolution_of_dy(p);
  if (!conv) return Unsupported{kNoConvolutionOfDy};
  return winograd_plan(*conv, true, P::dy, P::filter, {.y = P::dx}, cpu);
}
Plan conv2d_backward_filter_winograd(const Conv2dBackwardFilter& problem, CpuContext& cpu) {
  using P = Conv2dBackwardFilter;
  const Conv2d& p = problem.conv;
  if (const char* reason = unsupported_reason(p)) return Unsupported{reason};
  if (has_few_terms(p)) return Unsupported{kFewTerms};
  const int64_t filters = p.k * p.c, bytes = 9 * filters * size_of(p.dtype);
  const Tiles tiles = winograd::tiles_of_filters(p);
  const int64_t lines = tiles.block_tiles();
  if (lines == 0 || filters == 0)  // sums without terms
    return [bytes](Args t) { std::fill_n(static_cast<char*>(t[P::dw].data), bytes, char{0}); };
  WorkspaceLayout workspace;
  Engine engine(cpu, workspace, {.m = p.k, .n = p.c, .k = lines, .a = {.along_k = true}, .b = {.along_k = true}},
                kPoints);
  const Scratch scratch(cpu, workspace, tiles.scratch_floats());
  const auto pixels = workspace.add<float>(kPoints * p.c * lines),
             gradients = workspace.add<float>(kPoints * p.k * lines);
  const auto sums = workspace.add<float>(kPoints * filters);
  const std::string algorithm = "F(3x3, 2x2), " + engine.describe();
  auto run = [=, engine = std::move(engine), &cpu](Args t) {
    float *const v = t.workspace(pixels), *const w = t.workspace(gradients), *const s = t.workspace(sums);
    const void *const x = t[P::x].data, *const dy = t[P::dy].data;
    for (int64_t row = 0; row < tiles.rows; row += tiles.block_rows) {
      const int64_t end = std::min(tiles.rows, row + tiles.block_rows);
      cpu.parallel_for(p.c, rows_per_chunk(kPoints * lines), [&](int64_t first, int64_t last) {
        HWY_DYNAMIC_DISPATCH(winograd_input)(p, tiles, x, row, end, first, last, scratch.of_this_thread(t), v);
      });
      cpu.parallel_for(p.k, rows_per_chunk(kPoints * lines), [&](int64_t first, int64_t last) {
        HWY_DYNAMIC_DISPATCH(winograd_input_of_filters)
        (p, tiles, dy, row, end, first, last, scratch.of_this_thread(t), w);
      });
      engine.each(t, [&](int64_t point, float* memory) {
        const Matrix a(w + point * p.k * lines, DType::f32, lines, 1), b(v + point * p.c * lines, DType::f32, lines, 1);
        engine.multiply(a, b, {.c = s + point * filters, .dtype = DType::f32, .step = p.c, .accumulate = row > 0},
                        memory);
      });
    }
    void* const dw = t[P::dw].data;
    cpu.parallel_for(p.k, rows_per_chunk(kPoints * p.c), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(winograd_output_of_filters)(p, s, dw, first, last);
    });
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}
DUET_REGISTER(conv2d_winograd);  // cpu.winograd, like the next
DUET_REGISTER(conv2d_bias_winograd);
DUET_REGISTER(conv2d_backward_data_winograd);
DUET_REGISTER(conv2d_backward_filter_winograd);
}  // namespace
}  // namespace duet
#endif
