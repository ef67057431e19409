// SPDX-License-Identifier: Apache-2.0
// conv2d and conv2d_bias as an implicit matrix product by the matrix engine (gemm/engine.h), which divides it among
// threads, and applies bias and relu to its register tiles. nchw: for each group y (k, pixels) = w (k, c r s) x (c r s,
// pixels), with the pixels of all images side by side. nhwc: y (pixels, k) = x (pixels, r s c) w'. The engine reads the
// pixels through an index map (pixels.h). Depthwise
// convolutions are computed directly (depthwise.h).
#include <numeric>

#include "core/registration.h"
#include "cpu_ref/conv/depthwise.h"
#include "cpu_ref/conv/pixels.h"
#include "cpu_ref/scratch.h"
#include "ops/conv/conv2d_bias.h"

namespace duet {
namespace {
using engine::Engine, engine::Gather, engine::Matrix, engine::Pixels, engine::Places;

// 1 x 1 without stride or padding: the image itself is the matrix.
bool is_matrix(const Conv2d& p) {
  return p.r == 1 && p.s == 1 && p.stride_h == 1 && p.stride_w == 1 && p.pad_h == 0 && p.pad_w == 0;
}
// nchw: pixels from which an image is a product of its own, without an index map. Smaller images would not fill the
// vectors.
constexpr int64_t kMinOwnProduct = 512;
constexpr int64_t kDepthwiseGrain = 1 << 18;  // products of a task: about 10 microseconds

// The bias of a channel and of those after it; null where there is none.
const void* bias_of(int64_t channel, const Conv2d& p, const Conv2dLayer& layer, const Args& t) {
  return layer.bias ? static_cast<const char*>(t[*layer.bias].data) + channel * size_of(p.dtype) : nullptr;
}

Plan depthwise(const Conv2d& p, const Conv2dLayer& layer, CpuContext& cpu) {
  const int64_t size = size_of(p.dtype), pixels = p.ho() * p.wo(), planes = p.n * p.c;
  std::vector<int64_t> taps(static_cast<size_t>(p.r * p.s));
  std::iota(taps.begin(), taps.end(), 0);
  engine::Depthwise depthwise(Gather::forward(p), taps, {p.ho(), p.wo(), pixels, p.wo(), 1});
  const int64_t floats = depthwise.floats();
  const int64_t grain = std::max<int64_t>(1, kDepthwiseGrain / (p.r * p.s * pixels));
  WorkspaceLayout workspace;
  const Scratch scratch(cpu, workspace, floats);
  auto run = [=, &cpu, depthwise = std::move(depthwise)](Args t) {
    const auto* x = static_cast<const char*>(t[Conv2d::x].data);
    const auto* w = static_cast<const char*>(t[Conv2d::filter].data);
    auto* y = static_cast<char*>(t[layer.y].data);
    cpu.parallel_for(planes, grain, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        depthwise.convolve(x + i * p.h * p.w * size, w + i % p.c * p.r * p.s * size, y + i * pixels * size,
                           scratch.of_this_thread(t), {bias_of(i % p.c, p, layer, t), layer.relu});
    });
  };
  return Plan(std::move(run)).with("direct, plane by plane", std::move(workspace));
}

Plan plan(const Conv2d& p, const Conv2dLayer& layer, CpuContext& cpu) {
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (p.dtype == DType::f64) return Unsupported{"dtype f64"};
  if (engine::is_depthwise(p) && p.n * p.ho() * p.wo() > 0) return depthwise(p, layer, cpu);
  const bool last = p.layout == Layout::nhwc;
  const int64_t size = size_of(p.dtype), terms = p.group_c() * p.r * p.s, pixels = p.ho() * p.wo();
  const bool in_place = is_matrix(p) && (last || pixels >= kMinOwnProduct);
  const int64_t images = in_place && !last ? p.n : 1;  // products
  const engine::Storage filter{.dtype = p.dtype, .along_k = true};
  const engine::Storage image{
      .dtype = p.dtype, .along_k = last, .indexed = !in_place, .pairs = Gather::forward(p).has_pairs()};
  const int64_t lines = p.n / std::max<int64_t>(1, images) * pixels;
  WorkspaceLayout workspace;
  Engine engine =
      last ? Engine(cpu, workspace,
                    {.m = lines, .n = p.group_k(), .k = terms, .result = p.dtype, .a = image, .b = filter}, p.groups)
           : Engine(cpu, workspace,
                    {.m = p.group_k(), .n = lines, .k = terms, .result = p.dtype, .a = filter, .b = image},
                    images * p.groups);
  const std::string algorithm = "implicit GEMM, " + engine.describe();
  const Places places{p.ho(), p.wo(), p.k * pixels, p.wo(), 1};
  auto run = [=, gather = Gather::forward(p), engine = std::move(engine)](Args t) {
    const auto* x = static_cast<const char*>(t[Conv2d::x].data);
    const auto* w = static_cast<const char*>(t[Conv2d::filter].data);
    auto* y = static_cast<char*>(t[layer.y].data);
    engine.each(t, [&](int64_t item, float* memory) {
      const int64_t group = item % p.groups, image = item / p.groups;
      const char* first = x + (image * p.c + group * p.group_c()) * (last ? 1 : p.h * p.w) * size;
      const Pixels pixels_of_x(gather, first);
      const Matrix x_itself(first, p.dtype, last ? p.c : 1, last ? 1 : p.h * p.w);
      const engine::Operand& source = in_place ? static_cast<const engine::Operand&>(x_itself) : pixels_of_x;
      const Matrix weights(w + group * p.group_k() * terms * size, p.dtype, terms, 1);
      const int64_t of_group = group * p.group_k(), channel = image * p.k + of_group;
      const void* const bias = bias_of(of_group, p, layer, t);
      if (last)
        engine.multiply(source, weights,
                        {.c = y + channel * size, .dtype = p.dtype, .step = p.k, .bias = bias, .relu = layer.relu},
                        memory);
      else
        engine.multiply(weights, source,
                        {.c = y + channel * pixels * size,
                         .dtype = p.dtype,
                         .step = pixels,
                         .bias = bias,
                         .bias_of_rows = true,
                         .relu = layer.relu,
                         .columns = images == 1 ? &places : nullptr},
                        memory);
    });
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}

Plan conv2d_tuned(const Conv2d& p, CpuContext& cpu) { return plan(p, kPlainConv2d, cpu); }
Plan conv2d_bias_tuned(const Conv2dBias& p, CpuContext& cpu) { return plan(p.conv, p.layer(), cpu); }
DUET_REGISTER(conv2d_tuned);  // cpu.tuned
DUET_REGISTER(conv2d_bias_tuned);

}  // namespace
}  // namespace duet
