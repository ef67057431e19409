// SPDX-License-Identifier: Apache-2.0
// The gradient of conv2d with respect to its filter by Winograd's minimal filtering: each step of conv2d_winograd.cpp
// is linear, and its transpose takes the gradient back, W = A dy A', S[e] (k, c) = W[e] V[e]', dw = G' S G. It is
// F(3x3, 2x2): a tile of 3x3 taps by 2x2 values of dy, 16 products instead of 36 as well.
//
// Sums run over the tiles of blocks of rows of tiles. Small filters: the blocks are divided into parts, each with an S
// of its own, which the transform back adds in order. If the threads divide the parts, each takes whole ones, so that
// it reads what it transformed itself; what another core transformed would come from that one's cache. Otherwise, and
// for large filters, all threads share each block.
#include <fmt/format.h>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/conv/winograd.h"
#include "cpu_ref/gemm/engine.h"
#include "cpu_ref/scratch.h"
#include "ops/conv/conv2d_backward.h"

namespace duet {
namespace {
using engine::Engine, engine::Matrix;
using winograd::kPoints, winograd::Tiles;

constexpr int64_t kSmallFilters = 131072;     // floats of S up to which each part has its own
constexpr int64_t kParts = 8;                 // at most; independent of the number of threads, so that sums are too
constexpr int64_t kMaxBlockFloats = 1 << 19;  // of V and W, with which each thread takes blocks of its own

// S is read and written once for each block: enough tiles that their products take much longer than that.
Tiles tiles_of_filters(const Conv2d& p, int64_t max_parts) { return Tiles(p, 1 << 18, 256, max_parts); }

Plan conv2d_backward_filter_winograd(const Conv2dBackwardFilter& problem, CpuContext& cpu) {
  using P = Conv2dBackwardFilter;
  const Conv2d& p = problem.conv;
  if (const char* reason = winograd::unsupported_reason(p)) return Unsupported{reason};
  if (has_few_terms(p)) return Unsupported{kFewTerms};
  const int64_t filters = p.k * p.c, bytes = 9 * filters * size_of(p.dtype), sum_floats = kPoints * filters;
  const int64_t max_parts = sum_floats <= kSmallFilters ? kParts : 1;
  const Tiles tiles = tiles_of_filters(p, max_parts);
  const int64_t lines = tiles.block_tiles();
  if (lines == 0 || filters == 0)  // sums without terms
    return [bytes](Args t) { std::fill_n(static_cast<char*>(t[P::dw].data), bytes, char{0}); };
  const int64_t parts = std::min(max_parts, tiles.blocks);
  const engine::Shape shape{.m = p.k, .n = p.c, .k = lines, .a = {.along_k = true}, .b = {.along_k = true}};
  const int64_t products_of_part = kPoints * ceil_div(tiles.blocks, parts);
  WorkspaceLayout unused;
  const int64_t block_floats = kPoints * (p.c + p.k) * lines;
  const bool by_parts = parts > 1 && block_floats <= kMaxBlockFloats &&
                        Engine(cpu, unused, shape, parts, products_of_part).items_in_parallel();
  WorkspaceLayout workspace;
  Engine engine(cpu, workspace, shape, by_parts ? parts : kPoints, by_parts ? products_of_part : 1);
  const Scratch scratch(cpu, workspace, tiles.scratch_floats());
  const Scratch of_part(cpu, workspace, by_parts ? block_floats : 0);
  const auto of_block = workspace.add<float>(by_parts ? 0 : block_floats);
  const auto sums = workspace.add<float>(parts * sum_floats);
  const std::string algorithm =
      "F(3x3, 2x2)" + (parts > 1 ? fmt::format(" in {} parts, ", parts) : std::string(", ")) + engine.describe();
  auto run = [=, engine = std::move(engine), &cpu](Args t) {
    const void *const x = t[P::x].data, *const dy = t[P::dy].data;
    float* const s = t.workspace(sums);
    // The steps of a block.
    const auto transform_pixels = [&](int64_t block, int64_t first, int64_t last, float* v) {
      winograd::transform_pixels(p, tiles, x, tiles.row(block), tiles.row(block + 1), first, last,
                                 scratch.of_this_thread(t), v);
    };
    const auto transform_gradients = [&](int64_t block, int64_t first, int64_t last, float* w) {
      winograd::transform_gradients(p, tiles, dy, tiles.row(block), tiles.row(block + 1), first, last,
                                    scratch.of_this_thread(t), w);
    };
    const auto multiply = [&](int64_t point, const float* v, const float* w, bool fresh, float* to, float* memory) {
      const Matrix a(w + point * p.k * lines, DType::f32, lines, 1), b(v + point * p.c * lines, DType::f32, lines, 1);
      engine.multiply(a, b, {.c = to + point * filters, .dtype = DType::f32, .step = p.c, .accumulate = !fresh},
                      memory);
    };
    const auto each_block = [&](int64_t part, const auto& add) {
      const int64_t first = tiles.blocks * part / parts, last = tiles.blocks * (part + 1) / parts;
      for (int64_t block = first; block < last; ++block) add(block, block == first, s + part * sum_floats);
    };
    if (by_parts) {
      engine.each(t, [&](int64_t part, float* memory) {
        float *const v = of_part.of_this_thread(t), *const w = v + kPoints * p.c * lines;
        each_block(part, [&](int64_t block, bool fresh, float* to) {
          transform_pixels(block, 0, p.c, v);
          transform_gradients(block, 0, p.k, w);
          for (int64_t point = 0; point < kPoints; ++point) multiply(point, v, w, fresh, to, memory);
        });
      });
    } else {
      float *const v = t.workspace(of_block), *const w = v + kPoints * p.c * lines;
      const int64_t grain = rows_per_chunk(kPoints * lines);
      for (int64_t part = 0; part < parts; ++part)
        each_block(part, [&](int64_t block, bool fresh, float* to) {
          cpu.parallel_for(p.c, grain, [&](int64_t first, int64_t last) { transform_pixels(block, first, last, v); });
          cpu.parallel_for(p.k, grain,
                           [&](int64_t first, int64_t last) { transform_gradients(block, first, last, w); });
          engine.each(t, [&](int64_t point, float* memory) { multiply(point, v, w, fresh, to, memory); });
        });
    }
    void* const dw = t[P::dw].data;
    cpu.parallel_for(p.k, rows_per_chunk(kPoints * p.c), [&](int64_t first, int64_t last) {
      winograd::transform_filters_back(p, s, parts, dw, first, last);
    });
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}
DUET_REGISTER(conv2d_backward_filter_winograd);  // cpu.winograd

}  // namespace
}  // namespace duet
