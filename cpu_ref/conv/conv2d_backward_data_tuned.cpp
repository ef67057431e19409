// SPDX-License-Identifier: Apache-2.0
// The gradient of conv2d with respect to its input, as an implicit matrix product by the matrix engine (gemm/engine.h),
// which divides it among threads. A pixel of dx reads dy as a pixel of y reads x: dx (c, pixels) = w' (c, k r s) dy (k
// r s, pixels), or with nhwc the same transposed. With strides, the pixels whose row and column leave the same
// remainders are reached by the same taps: each such phase is a product of its own, and no product with a zero in
// between is formed (arXiv:1603.07285, 4.6). Four ways: depthwise, image by image (im2col), by columns of several
// images in cache (col2im), and the general one; the function at the end chooses.
#include <cstring>
#include <string>
#include <vector>

#include "core/registration.h"
#include "cpu_ref/conv/conv2d_backward_im2col.h"
#include "cpu_ref/conv/depthwise.h"
#include "cpu_ref/conv/pixels.h"
#include "cpu_ref/scratch.h"
#include "ops/conv/conv2d_backward.h"

namespace duet {
namespace {
using engine::Engine, engine::Gather, engine::Matrix, engine::Pixels, engine::Places, engine::TransposedFilter;

constexpr int64_t kDepthwiseGrain = 1 << 18;  // products of a task: about 10 microseconds

// The taps that reach the positions phase, phase + stride, ... of one axis of dx. Position phase + i * stride reads dy
// at offset[t] + i and multiplies it by tap[t].
struct Taps {
  int64_t positions = 0;
  std::vector<int64_t> tap, offset;
  Taps(int64_t phase, int64_t size, int64_t pad, int64_t taps, int64_t dil, int64_t stride)
      : positions(size <= phase ? 0 : ceil_div(size - phase, stride)) {
    for (int64_t t = 0; t < taps; ++t)
      if ((phase + pad - t * dil) % stride == 0) {
        tap.push_back(t);
        offset.push_back((phase + pad - t * dil) / stride);
      }
  }
};

// The pixels of dx whose row and column leave the same remainders: a product of its own.
struct Phase {
  int64_t first;  // its first element of dx, in the first image
  Gather gather;
  std::vector<int64_t> taps;  // of the filter: r * s
  Places places;
};

// The phases that any tap reaches.
std::vector<Phase> phases_of(const Conv2d& p) {
  const bool last = p.layout == Layout::nhwc;
  const int64_t pixel_step = last ? p.c : 1;
  std::vector<Phase> phases;
  for (int64_t a = 0; a < std::min(p.stride_h, p.h); ++a)
    for (int64_t b = 0; b < std::min(p.stride_w, p.w); ++b) {
      const Taps down(a, p.h, p.pad_h, p.r, p.dil_h, p.stride_h), across(b, p.w, p.pad_w, p.s, p.dil_w, p.stride_w);
      Gather gather{.dtype = p.dtype,
                    .channels_last = last,
                    .images = p.n,
                    .channels = p.k,
                    .h = p.ho(),
                    .w = p.wo(),
                    .depth = p.group_k(),
                    .ho = down.positions,
                    .wo = across.positions,
                    .down = down.offset,
                    .across = across.offset};
      if (gather.k() == 0 || p.ho() * p.wo() == 0) continue;
      std::vector<int64_t> taps;
      for (const int64_t r : down.tap)
        for (const int64_t s : across.tap) taps.push_back(r * p.s + s);
      phases.push_back({.first = (a * p.w + b) * pixel_step,
                        .gather = std::move(gather),
                        .taps = std::move(taps),
                        .places = {.height = down.positions,
                                   .width = across.positions,
                                   .image_step = p.c * p.h * p.w,
                                   .row_step = p.stride_h * p.w * pixel_step,
                                   .column_step = p.stride_w * pixel_step}});
    }
  return phases;
}
// Whether these are all phases; the pixels of the others are 0.
bool cover(const Conv2d& p, const std::vector<Phase>& phases) {
  return static_cast<int64_t>(phases.size()) == std::min(p.stride_h, p.h) * std::min(p.stride_w, p.w);
}

// dx = 0, shared by all threads.
void clear(const CpuContext& cpu, void* dx, int64_t bytes) {
  constexpr int64_t kClearBytes = 1 << 18;
  cpu.parallel_for(ceil_div(bytes, kClearBytes), 1, [&](int64_t first, int64_t end) {
    std::memset(static_cast<char*>(dx) + first * kClearBytes, 0,
                static_cast<size_t>(std::min(bytes, end * kClearBytes) - first * kClearBytes));
  });
}

Plan depthwise(const Conv2d& p, CpuContext& cpu) {
  using P = Conv2dBackwardData;
  const int64_t size = size_of(p.dtype), pixels = p.ho() * p.wo(), plane = p.h * p.w;
  std::vector<int64_t> first;
  std::vector<engine::Depthwise> phases;
  int64_t floats = 0;
  std::vector<Phase> cut = phases_of(p);
  const bool complete = cover(p, cut);
  for (Phase& phase : cut) {
    first.push_back(phase.first);
    phases.emplace_back(std::move(phase.gather), std::move(phase.taps), phase.places);
    floats = std::max(floats, phases.back().floats());
  }
  const int64_t grain = std::max<int64_t>(1, kDepthwiseGrain / std::max<int64_t>(1, p.r * p.s * plane));
  WorkspaceLayout workspace;
  const Scratch scratch(cpu, workspace, floats);
  auto run = [=, &cpu, phases = std::move(phases)](Args t) {
    const auto* w = static_cast<const char*>(t[P::filter].data);
    const auto* dy = static_cast<const char*>(t[P::dy].data);
    auto* dx = static_cast<char*>(t[P::dx].data);
    if (!complete) clear(cpu, dx, p.n * p.c * plane * size);
    cpu.parallel_for(p.n * p.c, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (size_t f = 0; f < phases.size(); ++f)
          phases[f].convolve(dy + i * pixels * size, w + i % p.c * p.r * p.s * size, dx + (i * plane + first[f]) * size,
                             scratch.of_this_thread(t), {});
    });
  };
  return Plan(std::move(run)).with("direct, plane by plane", std::move(workspace));
}

// Without padding, few taps reach the many pixels at the border of dx, so gathered products are mostly zeros. Then the
// products of every tap are formed first, columns (c r s, pixels of dy) = w' (c r s, k) dy (k, pixels), or with nhwc
// (pixels of dy, r s c) = dy (pixels, k) w (k, r s c), for some images at a time so that the columns stay in L2, and
// are then added where they belong (col2im).
bool columns_are_faster(const Conv2d& p) {
  constexpr double kMinPixelRatio = 1.2;  // pixels of dx over pixels of dy
  return p.stride_h == 1 && p.stride_w == 1 && p.s <= engine::Columns::kMaxTapsAcross &&
         static_cast<double>(p.h * p.w) > kMinPixelRatio * static_cast<double>(p.ho() * p.wo()) && p.ho() * p.wo() > 0;
}

Plan by_columns(const Conv2d& p, CpuContext& cpu) {
  using P = Conv2dBackwardData;
  constexpr int64_t kFloats = 1 << 17;  // of columns: 512 KiB
  const int64_t size = size_of(p.dtype), pixels = p.ho() * p.wo(), taps = p.r * p.s, rows = p.group_c() * taps;
  const int64_t max_images = std::min(kFloats / std::max<int64_t>(1, rows * pixels), p.n / cpu.threads());
  int64_t images = std::max<int64_t>(1, max_images);
  while (p.n % images != 0) --images;
  const int64_t chunks = p.n / images;
  std::vector<int64_t> down, across;
  for (int64_t r = 0; r < p.r; ++r) down.push_back(r * p.dil_h - p.pad_h);
  for (int64_t s = 0; s < p.s; ++s) across.push_back(s * p.dil_w - p.pad_w);
  const Gather gather{.dtype = p.dtype,
                      .images = images,
                      .channels = p.k,
                      .h = 1,
                      .w = pixels,
                      .depth = p.group_k(),
                      .ho = 1,  // the pixels of an image are one run
                      .wo = pixels,
                      .down = {0},
                      .across = {0}};
  const bool last = p.layout == Layout::nhwc;
  const int64_t channel_step = last ? 1 : p.h * p.w, lines = images * pixels;
  const engine::Storage filter_storage{.dtype = p.dtype};
  const engine::Storage dy_storage{.dtype = p.dtype, .along_k = last, .indexed = !last};
  WorkspaceLayout workspace;
  Engine engine =
      last ? Engine(cpu, workspace, {.m = lines, .n = rows, .k = p.group_k(), .a = dy_storage, .b = filter_storage},
                    chunks * p.groups)
           : Engine(cpu, workspace, {.m = rows, .n = lines, .k = p.group_k(), .a = filter_storage, .b = dy_storage},
                    chunks * p.groups);
  const Scratch scratch(cpu, workspace, rows * lines);
  const std::string algorithm = "columns of " + std::to_string(images) + " images, " + engine.describe();
  auto run = [=, engine = std::move(engine)](Args t) {
    const auto* w = static_cast<const char*>(t[P::filter].data);
    const auto* dy = static_cast<const char*>(t[P::dy].data);
    auto* dx = static_cast<char*>(t[P::dx].data);
    engine.each(t, [&](int64_t item, float* memory) {
      const int64_t group = item % p.groups, image = item / p.groups * images;
      float* columns = scratch.of_this_thread(t);
      const Matrix filter(w + group * p.group_k() * rows * size, p.dtype, 1, rows);
      const char* of_group = dy + (image * p.k * pixels + group * p.group_k() * (last ? 1 : pixels)) * size;
      if (last)
        engine.multiply(Matrix(of_group, p.dtype, p.k, 1), filter, {.c = columns, .dtype = DType::f32, .step = rows},
                        memory);
      else
        engine.multiply(filter, Pixels(gather, of_group), {.c = columns, .dtype = DType::f32, .step = lines}, memory);
      engine::add_taps({.columns = columns,
                        .channels = p.group_c(),
                        .tap_step = lines,
                        .images = images,
                        .ho = p.ho(),
                        .wo = p.wo(),
                        .h = p.h,
                        .w = p.w,
                        .down = down,
                        .across = across,
                        .dtype = p.dtype,
                        .to = dx + (image * p.c * p.h * p.w + group * p.group_c() * channel_step) * size,
                        .image_step = p.c * p.h * p.w,
                        .pixel_step = last ? p.c : 0});
    });
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}

// Where each image by itself is faster than all in one implicit product: a filter of one tap, whose columns are dx
// itself; a stride along rows, whose phases would be stored pixel by pixel; and so few pixels that an implicit product
// packs the filter for them alone. With few pixels in an image, a batch has to be one product to fill the vectors.
// Columns of 7 MB are faster so, columns of 40 MB are not. Measured with 1, 4 and 16 images of the shapes of ResNet-50,
// f32 and bf16, on two threads of an AMD EPYC with AVX-512, 2026-11-29.
bool image_by_image(const Conv2d& p) {
  constexpr int64_t kManyPixels = 512, kFewPixels = 256, kTinyImage = 64;
  constexpr int64_t kMaxColumns = int64_t{4} << 20;  // values, of 4 bytes
  const int64_t pixels = p.ho() * p.wo();
  if (p.layout == Layout::nhwc || p.n * p.c * pixels == 0) return false;
  if (p.c * p.r * p.s * pixels > kMaxColumns && p.r * p.s > 1) return false;
  const bool many = pixels >= kManyPixels, few = p.n * pixels <= kFewPixels;
  if (p.stride_w > 1) return many || few;
  if (p.stride_h > 1) return false;
  if (p.r * p.s == 1 && p.pad_h == 0 && p.pad_w == 0) return many || p.n == 1;
  return few && pixels <= kTinyImage;
}

Plan conv2d_backward_data_tuned(const Conv2dBackwardData& problem, CpuContext& cpu) {
  using P = Conv2dBackwardData;
  const Conv2d& p = problem.conv;
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (p.dtype == DType::f64) return Unsupported{"dtype f64"};
  if (engine::is_depthwise(p)) return depthwise(p, cpu);
  if (image_by_image(p)) return data_image_by_image(p, cpu);
  if (columns_are_faster(p) && p.n * p.c > 0) return by_columns(p, cpu);
  const bool last = p.layout == Layout::nhwc;
  const int64_t size = size_of(p.dtype), channel_step = last ? 1 : p.h * p.w;

  std::vector<Phase> phases = phases_of(p);
  std::vector<Engine> engines;
  WorkspaceLayout workspace;
  for (const Phase& phase : phases) {
    const int64_t pixels = p.n * phase.places.height * phase.places.width;
    const engine::Storage indexed{.dtype = p.dtype, .indexed = true, .pairs = phase.gather.has_pairs()};
    const engine::Shape shape{.m = last ? pixels : p.group_c(),
                              .n = last ? p.group_c() : pixels,
                              .k = phase.gather.k(),
                              .result = p.dtype,
                              .a = indexed,
                              .b = indexed};
    engines.emplace_back(cpu, workspace, shape, p.groups);
  }
  const std::string algorithm = engines.empty() ? "nothing to add" : "implicit GEMM, " + engines.front().describe();
  const int64_t bytes = p.n * p.c * p.h * p.w * size;
  const bool dense = p.stride_h == 1 && p.stride_w == 1, complete = cover(p, phases);

  auto run = [=, &cpu, phases = std::move(phases), engines = std::move(engines)](Args t) {
    const auto* w = static_cast<const char*>(t[P::filter].data);
    const auto* dy = static_cast<const char*>(t[P::dy].data);
    auto* dx = static_cast<char*>(t[P::dx].data);
    if (!complete) clear(cpu, dx, bytes);
    for (size_t f = 0; f < phases.size(); ++f) {
      const Phase& phase = phases[f];
      engines[f].each(t, [&](int64_t group, float* memory) {
        const Pixels source(phase.gather, dy + group * p.group_k() * (last ? 1 : p.ho() * p.wo()) * size);
        const TransposedFilter filter(p, phase.taps, w + group * p.group_k() * p.group_c() * p.r * p.s * size);
        engine::Result result{.c = dx + (phase.first + group * p.group_c() * channel_step) * size,
                              .dtype = p.dtype,
                              .step = last ? p.c : channel_step};
        if (last) {
          result.rows = dense ? nullptr : &phase.places;
          engines[f].multiply(source, filter, result, memory);
        } else {
          result.columns = &phase.places;
          engines[f].multiply(filter, source, result, memory);
        }
      });
    }
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}
DUET_REGISTER(conv2d_backward_data_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
