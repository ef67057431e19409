// Forward: one product with bias and relu applied to its register tiles. Backward: one pass over dy masks it and sums its
// columns; then two products. Weights are not packed ahead: they change every step.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/gemm/linear_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>

#include "core/registry.h"
#include "core/simd-inl.h"
#include "cpu_ref/gemm/engine.h"
#include "cpu_ref/gemm/engine_convert-inl.h"
#include "ops/gemm/linear.h"

HWY_BEFORE_NAMESPACE();
namespace duet::engine::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kChunk = 512;  // columns whose sums are kept in L1 while the rows pass by, each 2 KiB of contiguous memory

// g = dy, or 0 where relu was not active (y: null without relu), as f32 (g: null when dy serves as it is); sum[o] = the sum
// of column o of g. Columns [o0, o1) of all n rows.
void mask_and_sum(const void* y, const void* dy, DType dtype, int64_t n, int64_t out, int64_t o0, int64_t o1, float* g,
                  void* sum) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  HWY_ALIGN float total[kChunk];
  for (int64_t begin = o0; begin < o1; begin += kChunk) {
    const int64_t end = std::min(o1, begin + kChunk);
    std::fill_n(total, kChunk, 0.0f);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t o = begin; o < end; o += lanes) {
        const int64_t at = i * out + o, left = end - o;
        auto v = load_as_f32(d, dy, dtype, at, left);
        if (y) v = hn::IfThenElseZero(hn::Gt(load_as_f32(d, y, dtype, at, left), zero), v);
        if (g) duet::HWY_NAMESPACE::store(d, v, g + at, left);
        hn::Store(hn::Add(hn::Load(d, total + o - begin), v), d, total + o - begin);
      }
    for (int64_t o = begin; o < end; o += lanes)
      store_from_f32(d, hn::Load(d, total + o - begin), sum, dtype, o, end - o);
  }
}

}  // namespace duet::engine::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace engine {
namespace {
HWY_EXPORT(mask_and_sum);
}
}  // namespace engine

namespace {
using engine::Engine, engine::Matrix;

Plan linear_tuned(const Linear& p, CpuContext& cpu) {
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (p.dtype == DType::f64) return Unsupported{"dtype f64"};
  const bool f32 = p.dtype == DType::f32;
  Engine engine(cpu, {.m = p.n, .n = p.out, .k = p.in, .result = p.dtype, .plain_a = f32, .a_along_k = true, .plain_b = f32,
                      .b_along_k = true});
  const std::string algorithm = engine.describe();
  const int64_t workspace = engine.workspace_bytes();
  auto run = [p, engine = std::move(engine)](Args t) {
    const Matrix x(t[Linear::x].data, p.dtype, p.in, 1), w(t[Linear::w].data, p.dtype, p.in, 1);
    engine.each([&](int64_t, float* lane) {
      engine.multiply(x, w,
                      {.c = t[Linear::y].data, .dtype = p.dtype, .step = p.out, .bias = t[Linear::bias].data,
                       .relu = p.act == Act::relu},
                      lane);
    });
  };
  return Plan(std::move(run)).with(algorithm, workspace);
}
DUET_REGISTER(linear_tuned);  // cpu.tuned

Plan linear_backward_tuned(const LinearBackward& p, CpuContext& cpu) {
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (p.dtype == DType::f64) return Unsupported{"dtype f64"};
  using L = LinearBackward;
  const bool f32 = p.dtype == DType::f32, relu = p.act == Act::relu, in_place = f32 && !relu;
  // dx = g w: (n, out) (out, in). dw = g' x: (out, n) (n, in). g is f32.
  Engine to_x(cpu, {.m = p.n, .n = p.in, .k = p.out, .result = p.dtype, .plain_a = true, .a_along_k = true, .plain_b = f32});
  Engine to_w(cpu, {.m = p.out, .n = p.in, .k = p.n, .result = p.dtype, .plain_a = true, .plain_b = f32});
  Buffer masked(cpu, in_place ? 0 : p.n * p.out * int64_t{sizeof(float)});
  const std::string algorithm = "dx " + to_x.describe() + "; dw " + to_w.describe();
  const int64_t workspace = to_x.workspace_bytes() + to_w.workspace_bytes() + masked.bytes();
  const int64_t grain = std::max<int64_t>(64, 65536 / std::max<int64_t>(1, p.n));  // columns of a task
  auto run = [=, &cpu, to_x = std::move(to_x), to_w = std::move(to_w), masked = std::move(masked)](Args t) {
    const void* dy = t[L::dy].data;
    float* g = in_place ? nullptr : masked.as<float>();
    cpu.parallel_for(ceil_div(p.out, grain), 1, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(engine::mask_and_sum)
      (relu ? t[L::y].data : nullptr, dy, p.dtype, p.n, p.out, first * grain, std::min(p.out, last * grain), g,
       t[L::dbias].data);
    });
    const void* g_data = in_place ? dy : g;
    const Matrix g_rows(g_data, DType::f32, p.out, 1), g_columns(g_data, DType::f32, 1, p.out);
    const Matrix w(t[L::w].data, p.dtype, 1, p.in), x(t[L::x].data, p.dtype, 1, p.in);
    to_x.each([&](int64_t, float* lane) {
      to_x.multiply(g_rows, w, {.c = t[L::dx].data, .dtype = p.dtype, .step = p.in}, lane);
    });
    to_w.each([&](int64_t, float* lane) {
      to_w.multiply(g_columns, x, {.c = t[L::dw].data, .dtype = p.dtype, .step = p.in}, lane);
    });
  };
  return Plan(std::move(run)).with(algorithm, workspace);
}
DUET_REGISTER(linear_backward_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
#endif
