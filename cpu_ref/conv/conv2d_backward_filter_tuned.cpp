// SPDX-License-Identifier: Apache-2.0
// The gradient of conv2d with respect to its filter.
//
// nchw: a product whose sums run over pixels, dw' (c r s, k) = x (c r s, pixels) dy' (pixels, k). dy is transposed
// once, not once for each tap, so that vectors hold output channels. x is copied once with its border of zeros, and the
// values that a tap reads are broadcast from that copy. Pixels come in chunks of some images, or of some rows of an
// image. The sums of a chunk stay in registers (filter_tile.cpp). Small filters: tasks take parts of the chunks, each
// with sums of its own, which are added in order. Large filters: tasks share each chunk.
//
// nhwc: dw (k, r s c) = dy' (k, pixels) x (pixels, r s c) by the matrix engine (gemm/engine.h).
//
// Depthwise convolutions are computed directly (depthwise.h).
#include <fmt/format.h>

#include <numeric>

#include "core/registry.h"
#include "cpu_ref/conv/depthwise.h"
#include "cpu_ref/conv/filter_tile.h"
#include "cpu_ref/conv/pixels.h"
#include "cpu_ref/scratch.h"
#include "ops/conv/conv2d_backward.h"

namespace duet {
namespace {
using engine::Engine, engine::Gather, engine::Matrix;
using filter_gradient::Tile, filter_gradient::TileShape;

constexpr int64_t kChunkFloats = 32768;  // of a chunk, in one strip of output channels of dy: 128 KiB, which stay in L2
constexpr int64_t kSmallFilter = 131072;      // floats of sums up to which each part has its own
constexpr int64_t kParts = 8;                 // independent of the number of threads, so that sums are too
constexpr int64_t kDepthwiseGrain = 1 << 18;  // products of a task: about 10 microseconds
constexpr double kMinForkFlops = 4e5;

// How the product of one group is cut.
struct Cut {
  TileShape tile;
  int64_t lines, tiles, strips;        // lines: c r s of a group; a strip: tile.columns output channels
  int64_t columns;                     // of a strip: one vector where that holds all channels of a group
  int64_t chunks, images, rows;        // images and rows of a chunk: several images, or some rows of one
  int64_t copy_rows, copy_columns;     // what all taps of the rows of a chunk read of a plane of x
  int64_t image_floats, plane_floats;  // of the copy: one image of a channel, all images of a channel
  int64_t dy_floats, x_floats, sum_floats;
  int64_t floats() const { return dy_floats + x_floats; }
};

Cut cut(const Conv2d& p) {
  Cut c{};
  c.tile = filter_gradient::tile_shape();
  c.lines = p.group_c() * p.r * p.s;
  c.tiles = ceil_div(c.lines, c.tile.rows);
  c.columns = p.group_k() <= c.tile.lanes ? c.tile.lanes : c.tile.columns;
  c.strips = ceil_div(p.group_k(), c.columns);
  const int64_t max_pixels = kChunkFloats / c.columns, pixels = p.ho() * p.wo();  // max_pixels: of a chunk
  const auto equal = [](int64_t extent, int64_t size) { return ceil_div(extent, ceil_div(extent, size)); };
  c.images = pixels < max_pixels ? equal(p.n, max_pixels / pixels) : 1;
  c.rows = pixels < max_pixels ? p.ho() : equal(p.ho(), std::max<int64_t>(1, max_pixels / p.wo()));
  c.chunks = ceil_div(p.n, c.images) * ceil_div(p.ho(), c.rows);
  c.copy_rows = (c.rows - 1) * p.stride_h + (p.r - 1) * p.dil_h + 1;
  c.copy_columns = (p.wo() - 1) * p.stride_w + (p.s - 1) * p.dil_w + 1;
  c.image_floats = c.copy_rows * c.copy_columns;
  // An odd number of cache lines, so that channels do not share cache sets.
  c.plane_floats = (c.images * c.image_floats + 15) / 16 / 2 * 32 + 16;
  c.dy_floats = c.strips * c.columns * c.images * c.rows * p.wo();
  c.x_floats = p.group_c() * c.plane_floats;
  c.sum_floats = c.strips * c.columns * c.lines;
  return c;
}

// The sums of one group, from its chunks in order.
struct FilterGradient {
  Conv2d p;
  Cut c;
  const char *x, *dy;  // of the group, in the first image

  // Adds a chunk to sums; with `fresh` the sums start from 0. share(tasks, body) calls body(i) for all i < tasks.
  // memory: of c.floats() floats.
  template <class Share>
  void add(int64_t chunk, bool fresh, float* memory, float* sums, const Share& share) const {
    const int64_t size = size_of(p.dtype), plane = p.ho() * p.wo(), bands = ceil_div(p.ho(), c.rows);
    const int64_t image0 = chunk / bands * c.images, images = std::min(c.images, p.n - image0);
    const int64_t row0 = chunk % bands * c.rows, rows = std::min(c.rows, p.ho() - row0);
    const int64_t pixels = images * rows * p.wo();
    float *transposed = memory, *copy = memory + c.dy_floats;

    // Transpose dy and copy x.
    share(c.strips * images + p.group_c(), [&](int64_t task) {
      if (task < c.strips * images) {
        const int64_t strip = task / images, image = task % images, k0 = strip * c.columns;
        const int64_t count = std::min(c.columns, p.group_k() - k0);
        const void* line[engine::kMaxHeight];
        for (int64_t k = 0; k < count; ++k)
          line[k] = dy + (((image0 + image) * p.k + k0 + k) * plane + row0 * p.wo()) * size;
        engine::pack_lines(line, p.dtype, count, c.columns, rows * p.wo(),
                           transposed + (strip * pixels + image * rows * p.wo()) * c.columns);
      } else {
        const int64_t channel = task - c.strips * images;
        for (int64_t image = 0; image < images; ++image)
          engine::copy_plane({.x = x + ((image0 + image) * p.c + channel) * p.h * p.w * size,
                              .dtype = p.dtype,
                              .h = p.h,
                              .w = p.w,
                              .row0 = row0 * p.stride_h - p.pad_h,
                              .column0 = -p.pad_w,
                              .rows = (rows - 1) * p.stride_h + (p.r - 1) * p.dil_h + 1,
                              .columns = c.copy_columns,
                              .step = c.copy_columns,
                              .to = copy + channel * c.plane_floats + image * c.image_floats});
      }
    });
    // Multiply, tile by tile.
    share(c.strips * c.tiles, [&](int64_t task) {
      const int64_t strip = task / c.tiles, t = task % c.tiles;
      const int64_t first = c.lines * t / c.tiles, last = c.lines * (t + 1) / c.tiles;
      Tile tile{.rows = last - first,
                .columns = c.columns,
                .line = {},
                .images = images,
                .height = rows,
                .width = p.wo(),
                .image_step = c.image_floats,
                .row_step = p.stride_h * c.copy_columns,
                .pixel_step = p.stride_w,
                .dy = transposed + strip * pixels * c.columns,
                .sums = sums + (strip * c.lines + first) * c.columns,
                .fresh = fresh};
      for (int64_t i = first; i < last; ++i)
        tile.line[i - first] =
            copy + i / (p.r * p.s) * c.plane_floats + i / p.s % p.r * p.dil_h * c.copy_columns + i % p.s * p.dil_w;
      filter_gradient::run_tile(tile);
    });
  }
};

Plan nchw(const Conv2d& p, CpuContext& cpu) {
  using P = Conv2dBackwardFilter;
  const Cut c = cut(p);
  const int64_t parts = c.sum_floats <= kSmallFilter ? std::min(kParts, c.chunks) : 1;
  const bool forks = p.flops() / p.groups >= kMinForkFlops;
  WorkspaceLayout workspace;
  const auto all_sums = workspace.add<float>(parts * c.sum_floats);
  const Scratch chunk(cpu, workspace, c.floats());
  const std::string algorithm = fmt::format("pixel sums, {}x{} tiles, {} chunks{}", c.tile.rows, c.columns, c.chunks,
                                            parts > 1 ? fmt::format(" in {} parts", parts) : std::string());
  auto run = [=, &cpu](Args t) {
    const auto share = [&](int64_t tasks, const auto& body) {
      const int64_t grain = forks ? std::max<int64_t>(1, tasks / (4 * cpu.threads())) : tasks;
      cpu.parallel_for(tasks, grain, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) body(i);
      });
    };
    const auto alone = [](int64_t tasks, const auto& body) {
      for (int64_t i = 0; i < tasks; ++i) body(i);
    };
    const int64_t size = size_of(p.dtype);
    auto* sums = t.workspace(all_sums);
    for (int64_t group = 0; group < p.groups; ++group) {
      const FilterGradient gradient{
          p, c, static_cast<const char*>(t[P::x].data) + group * p.group_c() * p.h * p.w * size,
          static_cast<const char*>(t[P::dy].data) + group * p.group_k() * p.ho() * p.wo() * size};
      if (parts == 1) {
        float* memory = chunk.of_this_thread(t);
        for (int64_t i = 0; i < c.chunks; ++i) gradient.add(i, i == 0, memory, sums, share);
      } else {
        share(parts, [&](int64_t part) {
          const int64_t first = c.chunks * part / parts, last = c.chunks * (part + 1) / parts;
          for (int64_t i = first; i < last; ++i)
            gradient.add(i, i == first, chunk.of_this_thread(t), sums + part * c.sum_floats, alone);
        });
      }
      auto* dw = static_cast<char*>(t[P::dw].data) + group * p.group_k() * c.lines * size;
      constexpr int64_t kLines = 64;  // of a task: their sums are in cache when they are stored
      const int64_t pieces = ceil_div(c.lines, kLines);
      share(c.strips * pieces, [&](int64_t task) {
        const int64_t strip = task / pieces, line = task % pieces * kLines, k = strip * c.columns;
        const int64_t lines = std::min(kLines, c.lines - line);
        float* to = sums + (strip * c.lines + line) * c.columns;
        for (int64_t part = 1; part < parts; ++part)
          for (int64_t i = 0; i < lines * c.columns; ++i) to[i] += to[part * c.sum_floats + i];
        filter_gradient::store_filters(to, c.columns, lines, std::min(c.columns, p.group_k() - k), c.lines, p.dtype,
                                       dw + (k * c.lines + line) * size);
      });
    }
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}

Plan nhwc(const Conv2d& p, CpuContext& cpu) {
  using P = Conv2dBackwardFilter;
  const int64_t lines = p.group_c() * p.r * p.s;
  WorkspaceLayout workspace;
  Engine engine(cpu, workspace,
                {.m = p.group_k(),
                 .n = lines,
                 .k = p.n * p.ho() * p.wo(),
                 .result = p.dtype,
                 .a = {.dtype = p.dtype},
                 .b = {.dtype = p.dtype, .indexed = true, .pairs = true}},
                p.groups);
  const std::string algorithm = "implicit GEMM, " + engine.describe();
  const int64_t size = size_of(p.dtype);
  auto run = [=, gather = Gather::forward(p), engine = std::move(engine)](Args t) {
    engine.each(t, [&](int64_t group, float* memory) {
      const Matrix dy(static_cast<const char*>(t[P::dy].data) + group * p.group_k() * size, p.dtype, 1, p.k);
      const engine::Inputs x(gather, static_cast<const char*>(t[P::x].data) + group * p.group_c() * size);
      auto* dw = static_cast<char*>(t[P::dw].data) + group * p.group_k() * lines * size;
      engine.multiply(dy, x, {.c = dw, .dtype = p.dtype, .step = lines}, memory);
    });
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}

Plan depthwise(const Conv2d& p, CpuContext& cpu) {
  using P = Conv2dBackwardFilter;
  const int64_t size = size_of(p.dtype), pixels = p.ho() * p.wo();
  std::vector<int64_t> taps(static_cast<size_t>(p.r * p.s));
  std::iota(taps.begin(), taps.end(), 0);
  engine::Depthwise depthwise(Gather::forward(p), taps, {p.ho(), p.wo(), pixels, p.wo(), 1});
  const int64_t floats = depthwise.floats();
  const int64_t grain = std::max<int64_t>(1, kDepthwiseGrain / (p.r * p.s * p.n * pixels));
  WorkspaceLayout workspace;
  const Scratch scratch(cpu, workspace, floats);
  auto run = [=, &cpu, depthwise = std::move(depthwise)](Args t) {
    const auto* x = static_cast<const char*>(t[P::x].data);
    const auto* dy = static_cast<const char*>(t[P::dy].data);
    auto* dw = static_cast<char*>(t[P::dw].data);
    cpu.parallel_for(p.c, grain, [&](int64_t first, int64_t last) {
      for (int64_t c = first; c < last; ++c)
        depthwise.gradient(x + c * p.h * p.w * size, dy + c * pixels * size, dw + c * p.r * p.s * size, p.n,
                           p.c * p.h * p.w, p.c * pixels, scratch.of_this_thread(t));
    });
  };
  return Plan(std::move(run)).with("direct, channel by channel", std::move(workspace));
}

Plan conv2d_backward_filter_tuned(const Conv2dBackwardFilter& problem, CpuContext& cpu) {
  const Conv2d& p = problem.conv;
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (p.dtype == DType::f64) return Unsupported{"dtype f64"};
  const int64_t filters = p.k * p.group_c() * p.r * p.s, bytes = filters * size_of(p.dtype);
  if (filters == 0 || p.n * p.ho() * p.wo() == 0)  // sums without terms
    return [bytes](Args t) { std::fill_n(static_cast<char*>(t[Conv2dBackwardFilter::dw].data), bytes, char{0}); };
  if (engine::is_depthwise(p)) return depthwise(p, cpu);
  return p.layout == Layout::nchw ? nchw(p, cpu) : nhwc(p, cpu);
}
DUET_REGISTER(conv2d_backward_filter_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
