// Implicit GEMM. An input pixel meets dy as an output pixel meets x: dx (c, pixels) = w' (c, k r s) dy (k r s, pixels),
// or with nhwc the same turned round. With strides, pixels whose row and column leave the same remainders meet the same
// taps: each such phase is a product of its own, and no product with a zero between is formed (arXiv:1603.07285, 4.6).
#include <cstring>
#include <vector>

#include "core/registry.h"
#include "cpu_ref/conv/pixels.h"
#include "ops/conv/conv2d_backward.h"

namespace duet {
namespace {
using engine::Engine, engine::Gather, engine::Matrix, engine::Pixels, engine::Places, engine::TurnedFilter;

// The taps that meet positions `phase`, phase + stride, ... of one axis: position phase + i * stride meets offset[t] + i
// in dy under tap[t].
struct Taps {
  int64_t positions = 0;
  std::vector<int64_t> tap, offset;
  Taps(int64_t phase, int64_t size, int64_t pad, int64_t taps, int64_t dil, int64_t stride)
      : positions(size <= phase ? 0 : ceil_div(size - phase, stride)) {
    for (int64_t t = 0; t < taps; ++t)
      if ((phase + pad - t * dil) % stride == 0) tap.push_back(t), offset.push_back((phase + pad - t * dil) / stride);
  }
};

struct Phase {
  int64_t first;  // element of dx, in the first image
  Gather gather;
  std::vector<int64_t> taps;  // of the filter: r * s
  Places places;
  Engine engine;
};

Plan conv2d_backward_data_tuned(const Conv2dBackwardData& problem, CpuContext& cpu) {
  using P = Conv2dBackwardData;
  const Conv2d& p = problem.conv;
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (p.dtype == DType::f64) return Unsupported{"dtype f64"};
  const bool last = p.layout == Layout::nhwc;
  const int64_t size = size_of(p.dtype), channel_step = last ? 1 : p.h * p.w, pixel_step = last ? p.c : 1;

  std::vector<Phase> phases;
  bool complete = true;  // every element of dx lies in some phase
  int64_t workspace = 0;
  for (int64_t a = 0; a < std::min(p.stride_h, p.h); ++a)
    for (int64_t b = 0; b < std::min(p.stride_w, p.w); ++b) {
      const Taps down(a, p.h, p.pad_h, p.r, p.dil_h, p.stride_h), across(b, p.w, p.pad_w, p.s, p.dil_w, p.stride_w);
      Gather gather{.dtype = p.dtype,
                    .channels_last = last,
                    .channels = p.k,
                    .h = p.ho(),
                    .w = p.wo(),
                    .depth = p.group_k(),
                    .ho = down.positions,
                    .wo = across.positions,
                    .down = down.offset,
                    .across = across.offset};
      if (gather.k() == 0 || p.ho() * p.wo() == 0) {
        complete = false;
        continue;
      }
      std::vector<int64_t> taps;
      for (const int64_t r : down.tap)
        for (const int64_t s : across.tap) taps.push_back(r * p.s + s);
      const int64_t pixels = p.n * down.positions * across.positions;
      const engine::Storage filter{.dtype = p.dtype, .indexed = true}, image{.dtype = p.dtype, .indexed = true};
      Engine engine =
          last ? Engine(cpu,
                        {.m = pixels, .n = p.group_c(), .k = gather.k(), .result = p.dtype, .a = image, .b = filter},
                        p.groups)
               : Engine(cpu,
                        {.m = p.group_c(), .n = pixels, .k = gather.k(), .result = p.dtype, .a = filter, .b = image},
                        p.groups);
      workspace += engine.workspace_bytes();
      phases.push_back({.first = (a * p.w + b) * pixel_step,
                        .gather = std::move(gather),
                        .taps = std::move(taps),
                        .places = {.height = down.positions,
                                   .width = across.positions,
                                   .image_step = p.c * p.h * p.w,
                                   .row_step = p.stride_h * p.w * pixel_step,
                                   .column_step = p.stride_w * pixel_step},
                        .engine = std::move(engine)});
    }
  const std::string algorithm =
      phases.empty() ? "nothing to add" : "implicit GEMM, " + phases.front().engine.describe();
  const int64_t bytes = p.n * p.c * p.h * p.w * size;
  const bool dense = p.stride_h == 1 && p.stride_w == 1;

  auto run = [=, &cpu, phases = std::move(phases)](Args t) {
    const auto* w = static_cast<const char*>(t[P::filter].data);
    const auto* dy = static_cast<const char*>(t[P::dy].data);
    auto* dx = static_cast<char*>(t[P::dx].data);
    constexpr int64_t kPiece = 1 << 18;
    if (!complete)
      cpu.parallel_for(ceil_div(bytes, kPiece), 1, [&](int64_t first, int64_t end) {
        std::memset(dx + first * kPiece, 0, static_cast<size_t>(std::min(bytes, end * kPiece) - first * kPiece));
      });
    for (const Phase& phase : phases)
      phase.engine.each([&](int64_t group, float* lane) {
        const Pixels source(phase.gather, dy + group * p.group_k() * (last ? 1 : p.ho() * p.wo()) * size);
        const TurnedFilter filter(p, phase.taps, w + group * p.group_k() * p.group_c() * p.r * p.s * size);
        char* to = dx + (phase.first + group * p.group_c() * channel_step) * size;
        if (last)
          phase.engine.multiply(
              source, filter, {.c = to, .dtype = p.dtype, .step = p.c, .rows = dense ? nullptr : &phase.places}, lane);
        else
          phase.engine.multiply(filter, source,
                                {.c = to, .dtype = p.dtype, .step = channel_step, .columns = &phase.places}, lane);
      });
  };
  return Plan(std::move(run)).with(algorithm, workspace);
}
DUET_REGISTER(conv2d_backward_data_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
