// SPDX-License-Identifier: Apache-2.0
// conv2d, conv2d_bias and the gradient of conv2d with respect to its input by Winograd's minimal filtering
// (winograd.h). dx is a convolution of dy with the filters turned round (convolution_of_dy).
//
// A run transforms the filters, as they may change, then takes blocks of rows of tiles that stay in cache:
//   U[e] (k, c): filters, V[e] (c, tiles): pixels, M[e] (k, tiles) = U[e] V[e] by the matrix engine, for e < 16.
#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/conv/winograd.h"
#include "cpu_ref/gemm/engine.h"
#include "cpu_ref/scratch.h"
#include "ops/conv/conv2d_backward.h"
#include "ops/conv/conv2d_bias.h"

namespace duet {
namespace {
using engine::Engine, engine::Matrix;
using winograd::kPoints, winograd::Tiles;

// What the products of a block read and write fits in 256 KiB, with at least 64 tiles for a product.
Tiles tiles_of_results(const Conv2d& p) { return Tiles(p, 1 << 16, 64); }

// x, filter and those of the layer are slots; p has the extents of the tensors in them.
Plan winograd_plan(const Conv2d& p, bool gradient, Slot x_slot, Slot filter_slot, const Conv2dLayer& layer,
                   CpuContext& cpu) {
  if (const char* reason = winograd::unsupported_reason(p)) return Unsupported{reason};
  if (!p.has_winograd_bound()) return Unsupported{Conv2d::kFewTerms};
  const Tiles tiles = tiles_of_results(p);
  const int64_t lines = tiles.block_tiles();
  const engine::Shape shape{.m = p.k, .n = lines, .k = p.c, .a = {.along_k = true}};
  // Many blocks that stay in a core's cache: each is the work of one thread, from pixels to results, without a fork
  // between. Else threads share each of them.
  constexpr int64_t kMaxBlockBytes = 1 << 20;
  const int64_t block_floats = kPoints * (p.c + p.k) * lines;
  WorkspaceLayout unused;
  const bool by_blocks = block_floats * int64_t{sizeof(float)} <= kMaxBlockBytes &&
                         Engine(cpu, unused, shape, tiles.blocks, kPoints).items_in_parallel();
  WorkspaceLayout workspace;
  Engine engine(cpu, workspace, shape, by_blocks ? tiles.blocks : kPoints, by_blocks ? kPoints : 1);
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
      winograd::transform_filters(p, gradient, filter, u, first, last);
    });
    const auto multiply = [&](int64_t point, float* v, float* m, float* memory) {
      const Matrix a(u + point * p.k * p.c, DType::f32, p.c, 1), b(v + point * p.c * lines, DType::f32, 1, lines);
      engine.multiply(a, b, {.c = m + point * p.k * lines, .dtype = DType::f32, .step = lines}, memory);
    };
    if (by_blocks) {
      engine.each(t, [&](int64_t block, float* memory) {
        const int64_t row = tiles.row(block), end = tiles.row(block + 1);
        float *const v = of_block.of_this_thread(t), *const m = v + kPoints * p.c * lines;
        float* const part = scratch.of_this_thread(t);
        winograd::transform_pixels(p, tiles, x, row, end, 0, p.c, part, v);
        for (int64_t point = 0; point < kPoints; ++point) multiply(point, v, m, memory);
        winograd::transform_back(p, tiles, m, row, end, 0, p.k, bias, layer.relu, part, y);
      });
      return;
    }
    float *const v = t.workspace(pixels), *const m = t.workspace(products);
    for (int64_t block = 0; block < tiles.blocks; ++block) {
      const int64_t row = tiles.row(block), end = tiles.row(block + 1);
      cpu.parallel_for(p.c, rows_per_chunk(kPoints * lines), [&](int64_t first, int64_t last) {
        winograd::transform_pixels(p, tiles, x, row, end, first, last, scratch.of_this_thread(t), v);
      });
      engine.each(t, [&](int64_t point, float* memory) { multiply(point, v, m, memory); });
      cpu.parallel_for(p.k, rows_per_chunk(kPoints * lines), [&](int64_t first, int64_t last) {
        winograd::transform_back(p, tiles, m, row, end, first, last, bias, layer.relu, scratch.of_this_thread(t), y);
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
DUET_REGISTER(conv2d_winograd);  // cpu.winograd, like the next
DUET_REGISTER(conv2d_bias_winograd);
DUET_REGISTER(conv2d_backward_data_winograd);

}  // namespace
}  // namespace duet
