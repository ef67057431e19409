// SPDX-License-Identifier: Apache-2.0
// The gradients of conv2d as two steps in memory, for each image, by the matrix engine (Caffe's convolution):
//   dx: the product columns (c r s, pixels) = w' (c r s, k) dy (k, pixels), in f32, then col2im, which adds them up;
//   dw: im2col of x, then the product dw (k, c r s) += dy (k, pixels) columns' (pixels, c r s), with sums in f32.
// They show what that matrix costs: conv2d_backward_*_tuned.cpp are the same products without it, or with parts of it
// that stay in cache, except for shapes of which cpu.tuned takes this dx. The image itself is the matrix of a filter of
// one tap without stride or padding.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/conv/conv2d_backward_im2col.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/conv/col2im.h"
#include "cpu_ref/conv/conv2d_backward_im2col.h"
#include "cpu_ref/conv/im2col.h"
#include "cpu_ref/gemm/engine.h"
#include "ops/conv/conv2d_backward.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Elements [first, last) of dw, rounded from their sums.
void round_sums(DType dtype, const float* sums, void* dw, int64_t first, int64_t last) {
  for_float(dtype, [&]<class T>() HWY_ATTR {
    map<false>(
        hn::ScalableTag<float>(), last - first, [](auto sum) HWY_ATTR { return sum; }, static_cast<T*>(dw) + first,
        sums + first);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(round_sums);
using engine::Engine, engine::Matrix;

const char* unsupported_reason(const Conv2d& p) {  // null: none
  if (p.math == Math::tf32) return "no TF32 on a CPU";
  if (!is_simd_dtype(p.dtype)) return kNotSimdDtype;
  return p.layout == Layout::nhwc ? "layout nhwc: im2col is of nchw" : nullptr;
}

Plan conv2d_backward_data_im2col(const Conv2dBackwardData& problem, CpuContext& cpu) {
  if (const char* reason = unsupported_reason(problem.conv)) return Unsupported{reason};
  return data_image_by_image(problem.conv, cpu);
}
DUET_REGISTER(conv2d_backward_data_im2col);  // cpu.im2col, like the next

Plan conv2d_backward_filter_im2col(const Conv2dBackwardFilter& problem, CpuContext& cpu) {
  using P = Conv2dBackwardFilter;
  const Conv2d& p = problem.conv;
  if (const char* reason = unsupported_reason(p)) return Unsupported{reason};
  const int64_t size = size_of(p.dtype), terms = p.group_c() * p.r * p.s, pixels = p.ho() * p.wo();
  const int64_t elements = p.k * terms;
  if (elements == 0 || p.n * pixels == 0)  // sums without terms
    return [bytes = elements * size](Args t) { std::fill_n(static_cast<char*>(t[P::dw].data), bytes, char{0}); };
  const bool itself = is_its_own_im2col(p), in_place = p.dtype == DType::f32;
  const Im2col taps = im2col_of_image(p);
  WorkspaceLayout workspace;
  Engine engine(cpu, workspace,
                {.m = p.group_k(),
                 .n = terms,
                 .k = pixels,
                 .a = {.dtype = p.dtype, .along_k = true},
                 .b = {.dtype = p.dtype, .along_k = true}},
                p.groups);
  const auto matrix = workspace.add_bytes(itself ? 0 : taps.rows() * pixels * size);
  const auto all_sums = workspace.add<float>(in_place ? 0 : elements);
  const std::string algorithm = (itself ? "" : "im2col of one image, then ") + engine.describe();
  auto run = [=, engine = std::move(engine), &cpu](Args t) {
    const auto* x = static_cast<const char*>(t[P::x].data);
    const auto* dy = static_cast<const char*>(t[P::dy].data);
    void* const dw = t[P::dw].data;
    float* const sums = in_place ? static_cast<float*>(dw) : t.workspace(all_sums);
    for (int64_t image = 0; image < p.n; ++image) {
      const char* under_taps = x + image * p.c * p.h * p.w * size;
      if (!itself) {
        write_im2col(taps, under_taps, t.workspace(matrix), false, cpu);
        under_taps = static_cast<const char*>(t.workspace(matrix));
      }
      engine.each(t, [&](int64_t group, float* memory) {
        const Matrix gradient(dy + (image * p.k + group * p.group_k()) * pixels * size, p.dtype, pixels, 1);
        const Matrix columns(under_taps + group * terms * pixels * size, p.dtype, pixels, 1);
        engine.multiply(
            gradient, columns,
            {.c = sums + group * p.group_k() * terms, .dtype = DType::f32, .step = terms, .accumulate = image > 0},
            memory);
      });
    }
    if (in_place) return;
    parallel_chunks(cpu, elements, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(round_sums)(p.dtype, sums, dw, first, last);
    });
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}
DUET_REGISTER(conv2d_backward_filter_im2col);
}  // namespace

Plan data_image_by_image(const Conv2d& p, CpuContext& cpu) {
  using P = Conv2dBackwardData;
  const bool itself = is_its_own_im2col(p);
  const int64_t size = size_of(p.dtype), terms = p.group_c() * p.r * p.s, pixels = p.ho() * p.wo();
  const Im2col taps = im2col_of_image(p);
  WorkspaceLayout workspace;
  Engine engine(cpu, workspace,
                {.m = terms,
                 .n = pixels,
                 .k = p.group_k(),
                 .result = itself ? p.dtype : DType::f32,
                 .a = {.dtype = p.dtype},
                 .b = {.dtype = p.dtype}},
                p.groups);
  const Col2im col2im(taps, cpu, workspace);
  const auto matrix = workspace.add<float>(itself ? 0 : taps.rows() * pixels);
  const std::string algorithm = engine.describe() + (itself ? "" : ", then col2im of one image");
  auto run = [=, engine = std::move(engine)](Args t) {
    const auto* w = static_cast<const char*>(t[P::filter].data);
    const auto* dy = static_cast<const char*>(t[P::dy].data);
    auto* dx = static_cast<char*>(t[P::dx].data);
    float* const col = t.workspace(matrix);
    for (int64_t image = 0; image < p.n; ++image) {
      char* const to = dx + image * p.c * p.h * p.w * size;
      engine.each(t, [&](int64_t group, float* memory) {
        const Matrix weights(w + group * p.group_k() * terms * size, p.dtype, 1, terms);
        const Matrix gradient(dy + (image * p.k + group * p.group_k()) * pixels * size, p.dtype, 1, pixels);
        const int64_t first = group * terms * pixels;
        const engine::Result columns = itself ? engine::Result{.c = to + first * size, .dtype = p.dtype, .step = pixels}
                                              : engine::Result{.c = col + first, .dtype = DType::f32, .step = pixels};
        engine.multiply(weights, gradient, columns, memory);
      });
      if (!itself) col2im(t, col, to);
    }
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}

}  // namespace duet
#endif
