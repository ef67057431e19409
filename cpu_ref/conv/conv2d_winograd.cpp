// SPDX-License-Identifier: Apache-2.0
// conv2d by Winograd's minimal filtering F(2x2, 3x3) (Lavin and Gray, arXiv:1509.09308): 3x3 filters with stride 1, in
// nchw. A tile of 2x2 results needs 4x4 pixels. Pixels and filters are transformed to 16 values each, whose products,
// summed over channels, are transformed back: 16 products for 4 results instead of 36. The transforms add, subtract and
// halve, so small whole numbers stay exact. F(4x4, 3x3) would save 2.25 times more, but divides by 6 and 24.
//
// A run transforms the filters, as they may change, then takes blocks of rows of tiles that stay in cache:
//   U[e] (k, c): filters, V[e] (c, tiles): pixels, M[e] (k, tiles) = U[e] V[e] by the matrix engine, for e < 16;
// all of them in f32. The contract's bound allows for the errors of transforms (kTransformed of ops/summation.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/conv/conv2d_winograd.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/gemm/engine.h"
#include "cpu_ref/scratch.h"
#include "ops/conv/conv2d.h"

#ifndef DUET_CPU_REF_CONV_WINOGRAD_
#define DUET_CPU_REF_CONV_WINOGRAD_
namespace duet::winograd {

inline constexpr int kPoints = 16;  // values of a transformed tile

// The tiles of a problem: a row of tiles has `across` tiles, an image has `down` rows of them; a block has block_rows.
struct Tiles {
  explicit Tiles(const Conv2d& p)
      : across((p.wo() + 1) / 2), down((p.ho() + 1) / 2), rows(p.n * down), width(2 * across + 2) {
    // Pixels and results of a block, which the products read and write, in 256 KiB; at least 64 tiles for a product.
    constexpr int64_t kBlockFloats = 1 << 16, kMinTiles = 64;
    const int64_t tiles = std::max(kMinTiles, kBlockFloats / (kPoints * std::max<int64_t>(1, p.c + p.k)));
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

}  // namespace duet::winograd
#endif

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using winograd::kPoints;
using winograd::Tiles;

// Filters of the output channels [first, last): u (16, k, c) = G g G', where G has the rows (1 0 0), (1 1 1) / 2,
// (1 -1 1) / 2, (0 0 1).
void winograd_filters(const Conv2d& p, const void* filter, float* u, int64_t first, int64_t last) {
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
        const T* g = static_cast<const T*>(filter) + (k * p.c + c) * 9;
        for (int64_t i = 0; i < left; ++i)
          for (int t = 0; t < 9; ++t) taps[t][i] = element(g + 9 * i + t);
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

// One row of tiles of one output channel: y = A' m A, where A' has the rows (1 1 1 0), (0 1 -1 -1). plane: (ho, wo);
// row: of the first results.
template <class T>
void winograd_results(const Conv2d& p, const Tiles& tiles, const float* m, int64_t pitch, int64_t row, float* scratch,
                      T* plane) {
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
  const auto same = [](auto x) HWY_ATTR { return x; };
  for (int64_t i = 0; i < std::min<int64_t>(2, ho - row); ++i)
    map<false>(d, wo, same, plane + (row + i) * wo, static_cast<const float*>(scratch + i * padded));
}

// V of one block for rows of tiles [first_row, last_row) of all images and channels [first, last).
void winograd_input(const Conv2d& p, const Tiles& tiles, const void* x, int64_t first_row, int64_t last_row,
                    int64_t first, int64_t last, float* scratch, float* v) {
  const int64_t pitch = p.c * tiles.block_tiles();
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t c = first; c < last; ++c)
      for (int64_t r = first_row; r < last_row; ++r) {
        const T* plane = static_cast<const T*>(x) + (r / tiles.down * p.c + c) * p.h * p.w;
        winograd_pixels(p, tiles, plane, 2 * (r % tiles.down) - p.pad_h, scratch,
                        v + c * tiles.block_tiles() + (r - first_row) * tiles.across, pitch);
      }
  });
}

// y from M of one block, for the output channels [first, last).
void winograd_output(const Conv2d& p, const Tiles& tiles, const float* m, int64_t first_row, int64_t last_row,
                     int64_t first, int64_t last, float* scratch, void* y) {
  const int64_t pitch = p.k * tiles.block_tiles();
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t k = first; k < last; ++k)
      for (int64_t r = first_row; r < last_row; ++r) {
        T* plane = static_cast<T*>(y) + (r / tiles.down * p.k + k) * p.ho() * p.wo();
        winograd_results(p, tiles, m + k * tiles.block_tiles() + (r - first_row) * tiles.across, pitch,
                         2 * (r % tiles.down), scratch, plane);
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
using engine::Engine, engine::Matrix;
using winograd::kPoints, winograd::Tiles;

Plan conv2d_winograd(const Conv2d& p, CpuContext& cpu) {
  using P = Conv2d;
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  if (p.layout == Layout::nhwc) return Unsupported{"layout nhwc"};
  if (p.r != 3 || p.s != 3 || p.stride_h != 1 || p.stride_w != 1 || p.dil_h != 1 || p.dil_w != 1)
    return Unsupported{"other than 3x3 filters with stride 1 and dilation 1"};
  if (p.groups != 1) return Unsupported{"groups"};
  const Tiles tiles(p);
  const int64_t lines = tiles.block_tiles();
  WorkspaceLayout workspace;
  Engine engine(cpu, workspace, {.m = p.k, .n = lines, .k = p.c, .a = {.along_k = true}}, kPoints);
  const Scratch scratch(cpu, workspace, tiles.scratch_floats());
  const auto filters = workspace.add<float>(kPoints * p.k * p.c), pixels = workspace.add<float>(kPoints * p.c * lines);
  const auto products = workspace.add<float>(kPoints * p.k * lines);
  const std::string algorithm = "F(2x2, 3x3), " + engine.describe();
  auto run = [=, engine = std::move(engine), &cpu](Args t) {
    if (lines == 0 || p.k == 0) return;
    float *const u = t.workspace(filters), *const v = t.workspace(pixels), *const m = t.workspace(products);
    const void* const x = t[P::x].data;
    const void* const filter = t[P::filter].data;
    void* const y = t[P::y].data;
    cpu.parallel_for(p.k, rows_per_chunk(9 * p.c), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(winograd_filters)(p, filter, u, first, last);
    });
    for (int64_t row = 0; row < tiles.rows; row += tiles.block_rows) {
      const int64_t end = std::min(tiles.rows, row + tiles.block_rows);
      cpu.parallel_for(p.c, rows_per_chunk(kPoints * lines), [&](int64_t first, int64_t last) {
        HWY_DYNAMIC_DISPATCH(winograd_input)(p, tiles, x, row, end, first, last, scratch.of_this_thread(t), v);
      });
      engine.each(t, [&](int64_t point, float* memory) {
        const Matrix a(u + point * p.k * p.c, DType::f32, p.c, 1), b(v + point * p.c * lines, DType::f32, 1, lines);
        engine.multiply(a, b, {.c = m + point * p.k * lines, .dtype = DType::f32, .step = lines}, memory);
      });
      cpu.parallel_for(p.k, rows_per_chunk(kPoints * lines), [&](int64_t first, int64_t last) {
        HWY_DYNAMIC_DISPATCH(winograd_output)(p, tiles, m, row, end, first, last, scratch.of_this_thread(t), y);
      });
    }
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}
DUET_REGISTER(conv2d_winograd);  // cpu.winograd
}  // namespace
}  // namespace duet
#endif
