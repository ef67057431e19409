// SPDX-License-Identifier: Apache-2.0
// linear and its backward by the matrix engine (engine.h). Forward: one product, with bias and relu applied to its
// register tiles; gelu takes a pass of its own over their f32 sums (linear_gelu.h). Backward: one pass over dy masks it
// and sums its columns; then two products. Weights are not packed ahead, because they change every step.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/gemm/linear_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/gemm/engine.h"
#include "cpu_ref/gemm/linear_gelu.h"
#include "cpu_ref/chunks.h"
#include "ops/gemm/linear.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
// Columns whose sums stay in L1 while all rows are read, in runs of 2 KiB.
constexpr int64_t kSumColumns = 512;

// Columns [o0, o1) of all n rows: g = dy, or exactly 0 where relu was not active, and sum[o] = the sum of column o of
// g. y is null without relu; g is null where dy itself serves as g.
template <class T>
void mask_and_sum(const T* y, const T* dy, int64_t n, int64_t out, int64_t o0, int64_t o1, T* g, T* sum) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  HWY_ALIGN float total[kSumColumns];
  for (int64_t begin = o0; begin < o1; begin += kSumColumns) {
    const int64_t end = std::min(o1, begin + kSumColumns);
    std::fill_n(total, kSumColumns, 0.0f);
    // Mask and add, row by row.
    for (int64_t i = 0; i < n; ++i)
      for (int64_t o = begin; o < end; o += lanes) {
        const int64_t at = i * out + o, left = end - o;
        auto v = load_as_f32(d, dy + at, left);
        if (y) v = hn::IfThenElseZero(hn::Gt(load_as_f32(d, y + at, left), zero), v);
        if (g) store_f32_as(d, v, g + at, left);
        hn::Store(hn::Add(hn::Load(d, total + o - begin), v), d, total + o - begin);
      }
    // Write the sums.
    for (int64_t o = begin; o < end; o += lanes) store_f32_as(d, hn::Load(d, total + o - begin), sum + o, end - o);
  }
}

void mask_and_sum_any(const void* y, const void* dy, DType dtype, int64_t n, int64_t out, int64_t o0, int64_t o1,
                      void* g, void* sum) {
  for_float(dtype, [&]<class T>() {
    mask_and_sum(static_cast<const T*>(y), static_cast<const T*>(dy), n, out, o0, o1, static_cast<T*>(g),
                 static_cast<T*>(sum));
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(mask_and_sum_any);
using engine::Engine, engine::Matrix;

// With gelu: the product in f32, which lies in pre itself where that is f32; then a pass for bias and gelu.
Plan linear_gelu(const Linear& p, CpuContext& cpu) {
  const engine::Storage along_in{.dtype = p.dtype, .along_k = true};
  WorkspaceLayout workspace;
  Engine engine(cpu, workspace, {.m = p.n, .n = p.out, .k = p.in, .a = along_in, .b = along_in});
  const auto sums = workspace.add<float>(p.dtype == DType::f32 ? 0 : p.n * p.out);
  const std::string algorithm = engine.describe() + ", then gelu";
  auto run = [p, engine = std::move(engine), sums, &cpu](Args t) {
    const Matrix x(t[Linear::x].data, p.dtype, p.in, 1), w(t[Linear::w].data, p.dtype, p.in, 1);
    void *pre = t[Linear::pre].data, *y = t[Linear::y].data;
    float* sum = p.dtype == DType::f32 ? static_cast<float*>(pre) : t.workspace(sums);
    engine.each(t, [&](int64_t, float* memory) {
      engine.multiply(x, w, {.c = sum, .dtype = DType::f32, .step = p.out}, memory);
    });
    cpu.parallel_for(p.n, rows_per_chunk(p.out), [&](int64_t first, int64_t last) {
      finish_gelu(p.dtype, sum, t[Linear::bias].data, p.out, first, last, pre, y);
    });
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}

Plan linear_tuned(const Linear& p, CpuContext& cpu) {
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (p.dtype == DType::f64) return Unsupported{"dtype f64"};
  if (p.act == Act::gelu) return linear_gelu(p, cpu);
  const engine::Storage along_in{.dtype = p.dtype, .along_k = true};
  WorkspaceLayout workspace;
  Engine engine(cpu, workspace, {.m = p.n, .n = p.out, .k = p.in, .result = p.dtype, .a = along_in, .b = along_in});
  const std::string algorithm = engine.describe();
  auto run = [p, engine = std::move(engine)](Args t) {
    const Matrix x(t[Linear::x].data, p.dtype, p.in, 1), w(t[Linear::w].data, p.dtype, p.in, 1);
    engine.each(t, [&](int64_t, float* memory) {
      engine.multiply(x, w,
                      {.c = t[Linear::y].data,
                       .dtype = p.dtype,
                       .step = p.out,
                       .bias = t[Linear::bias].data,
                       .relu = p.act == Act::relu},
                      memory);
    });
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}
DUET_REGISTER(linear_tuned);  // cpu.tuned

Plan linear_backward_tuned(const LinearBackward& p, CpuContext& cpu) {
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (p.dtype == DType::f64) return Unsupported{"dtype f64"};
  using L = LinearBackward;
  const bool relu = p.act == Act::relu, gelu = p.act == Act::gelu;
  // dx = g w: (n, out) (out, in). dw = g' x: (out, n) (n, in).
  const engine::Storage along_k{.dtype = p.dtype, .along_k = true}, across{.dtype = p.dtype};
  WorkspaceLayout workspace;
  Engine to_x(cpu, workspace, {.m = p.n, .n = p.in, .k = p.out, .result = p.dtype, .a = along_k, .b = across});
  Engine to_w(cpu, workspace, {.m = p.out, .n = p.in, .k = p.n, .result = p.dtype, .a = across, .b = across});
  const auto masked = workspace.add_bytes(relu || gelu ? p.n * p.out * size_of(p.dtype) : 0);
  const std::string algorithm = "dx " + to_x.describe() + "; dw " + to_w.describe();
  const int64_t grain = std::max<int64_t>(64, 65536 / std::max<int64_t>(1, p.n));  // columns of a task
  auto run = [=, &cpu, to_x = std::move(to_x), to_w = std::move(to_w)](Args t) {
    void* const masked_dy = t.workspace(masked);
    const void* dy = t[L::dy].data;
    if (gelu) {
      const void *pre = t[L::pre].data, *from = dy;
      parallel_chunks(cpu, p.n * p.out,
                      [&](int64_t first, int64_t last) { gelu_gradient(p.dtype, pre, from, first, last, masked_dy); });
      dy = masked_dy;
    }
    void* mask_to = relu ? masked_dy : nullptr;
    cpu.parallel_for(ceil_div(p.out, grain), 1, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(mask_and_sum_any)
      (relu ? t[L::y].data : nullptr, dy, p.dtype, p.n, p.out, first * grain, std::min(p.out, last * grain), mask_to,
       t[L::dbias].data);
    });
    const void* g = relu ? mask_to : dy;
    const Matrix g_rows(g, p.dtype, p.out, 1), g_columns(g, p.dtype, 1, p.out);
    const Matrix w(t[L::w].data, p.dtype, 1, p.in), x(t[L::x].data, p.dtype, 1, p.in);
    to_x.each(t, [&](int64_t, float* memory) {
      to_x.multiply(g_rows, w, {.c = t[L::dx].data, .dtype = p.dtype, .step = p.in}, memory);
    });
    to_w.each(t, [&](int64_t, float* memory) {
      to_w.multiply(g_columns, x, {.c = t[L::dw].data, .dtype = p.dtype, .step = p.in}, memory);
    });
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}
DUET_REGISTER(linear_backward_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
#endif
