// SPDX-License-Identifier: Apache-2.0
// conv2d as two steps in memory, for each image: im2col writes the matrix of the pixels under each tap, then the matrix
// engine multiplies the filter with it (Chellapilla et al., 2006; Caffe's convolution). It shows what that matrix
// costs: conv2d_tuned.cpp is the same product without it.
#include "core/registration.h"
#include "cpu_ref/conv/im2col.h"
#include "cpu_ref/gemm/engine.h"

namespace duet {
namespace {
using engine::Engine, engine::Matrix;

Plan conv2d_im2col(const Conv2d& p, CpuContext& cpu) {
  using P = Conv2d;
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (p.dtype == DType::f64) return Unsupported{"dtype f64"};
  if (p.layout == Layout::nhwc) return Unsupported{"layout nhwc: im2col is of nchw"};
  const Im2col taps = im2col_of_image(p);
  const int64_t size = size_of(p.dtype), terms = p.group_c() * p.r * p.s, pixels = p.ho() * p.wo();
  WorkspaceLayout workspace;
  Engine engine(cpu, workspace,
                {.m = p.group_k(),
                 .n = pixels,
                 .k = terms,
                 .result = p.dtype,
                 .a = {.dtype = p.dtype, .along_k = true},
                 .b = {.dtype = p.dtype}},
                p.groups);
  const auto matrix = workspace.add_bytes(taps.rows() * pixels * size);
  const std::string algorithm = "im2col of one image, then " + engine.describe();
  auto run = [=, engine = std::move(engine), &cpu](Args t) {
    const auto* x = static_cast<const char*>(t[P::x].data);
    const auto* w = static_cast<const char*>(t[P::filter].data);
    auto* y = static_cast<char*>(t[P::y].data);
    auto* const col = static_cast<char*>(t.workspace(matrix));
    for (int64_t image = 0; image < p.n; ++image) {
      write_im2col(taps, x + image * p.c * p.h * p.w * size, col, false, cpu);
      engine.each(t, [&](int64_t group, float* memory) {
        const Matrix weights(w + group * p.group_k() * terms * size, p.dtype, terms, 1);
        const Matrix under_taps(col + group * terms * pixels * size, p.dtype, 1, pixels);
        const int64_t channel = image * p.k + group * p.group_k();
        engine.multiply(weights, under_taps, {.c = y + channel * pixels * size, .dtype = p.dtype, .step = pixels},
                        memory);
      });
    }
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}
DUET_REGISTER(conv2d_im2col);  // cpu.im2col
}  // namespace
}  // namespace duet
