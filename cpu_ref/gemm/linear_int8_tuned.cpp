// SPDX-License-Identifier: Apache-2.0
// linear_int8: the sums of int8_product.h, scaled piece by piece as they become complete.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/gemm/linear_int8_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/gemm/int8_product.h"
#include "ops/gemm/linear_int8.h"

HWY_BEFORE_NAMESPACE();
namespace duet::int8::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace duet::HWY_NAMESPACE;  // NOLINT: for_float, load_as_f32, store_f32_as

void finish(const LinearInt8& p, const Finish& f, Args t) {
  const hn::ScalableTag<float> df;
  const hn::Rebind<int32_t, decltype(df)> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  const auto of_x = hn::Set(df, *t[LinearInt8::scale_x].as<const float>());
  const float* scale_w = t[LinearInt8::scale_w].as<const float>() + f.o0;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T* bias = t[LinearInt8::bias].as<const T>() + f.o0;
    T* y = t[LinearInt8::y].as<T>() + f.i0 * p.out + f.o0;
    for (int64_t j = 0; j < f.columns; j += lanes) {
      const int64_t left = f.columns - j;
      const auto of_w = load(df, scale_w + j, left, 0.0f), b = load_as_f32(df, bias + j, left);
      for (int64_t i = 0; i < f.rows; ++i) {
        auto sum = hn::LoadU(d, f.sums + i * kColumns + j);
        if (f.offset) sum = hn::Sub(sum, hn::Set(d, f.offset[i]));
        store_f32_as(df, hn::MulAdd(hn::Mul(hn::ConvertTo(df, sum), of_x), of_w, b), y + i * p.out + j, left);
      }
    }
  });
}

}  // namespace duet::int8::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace int8 {
namespace {
HWY_EXPORT(finish);
void scale(const LinearInt8& p, const Finish& piece, const Args& t) { HWY_DYNAMIC_DISPATCH(finish)(p, piece, t); }
}  // namespace
}  // namespace int8

namespace {
Plan linear_int8_tuned(const LinearInt8& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  WorkspaceLayout workspace;
  const int8::Product product(p.n, p.out, p.in, cpu, workspace);
  return Plan([p, product](Args t) {
           product(t, t[LinearInt8::x].as<const int8_t>(), t[LinearInt8::w].as<const int8_t>(),
                   [&](const int8::Finish& piece) { int8::scale(p, piece, t); });
         })
      .with(product.describe(), std::move(workspace));
}
DUET_REGISTER(linear_int8_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
