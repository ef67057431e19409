// SPDX-License-Identifier: Apache-2.0
// Matrix product. a: (batch, m, k), b: (batch, k, n), c: (batch, m, n), row-major, dense; trans_a and trans_b swap
// the last two axes of a and b as stored. c is neither a nor b. Sums are formed in f32 or better.
//   dtype i8: a and b are i8, c is i32 and exact in any order of summation: k is limited so that no sum overflows, and
//   alpha is 1.
//   dtype f8e4m3: a and b are f8e4m3, c is bf16. Sums are formed in f32, or in a matrix unit's shorter accumulator that
//   is added to f32 after kEightBitChain products at most (ops/gemm/product.h).
//   gemm overwrites c; k = 0 gives 0.
//   gemm_acc adds to c; k = 0 leaves it. The result is rounded to dtype; of bf16 and f16 the product may be so before
//   it is added, as by cuBLAS.
// Blocking, packing, register tiles: Goto and van de Geijn, Anatomy of high-performance matrix multiplication, 2008.
#pragma once
#include <functional>

#include "core/attributes.h"
#include "ops/gemm/gemm_cases.h"
#include "ops/gemm/product.h"

namespace duet {

template <bool kAccumulate>
struct GemmOf {
  static constexpr const char* name = kAccumulate ? "gemm_acc" : "gemm";
  static constexpr const char* formula = kAccumulate ? "c[b,i,j] = c[b,i,j] + alpha * sum_p op(a)[b,i,p] * op(b)[b,p,j]"
                                                     : "c[b,i,j] = alpha * sum_p op(a)[b,i,p] * op(b)[b,p,j]";
  static constexpr Slot a = input(0, "a"), b = input(1, "b"), c = kAccumulate ? inout(2, "c") : output(2, "c");
  static constexpr bool exact_on_integers = true;

  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  float alpha = 1;
  DType dtype = DType::f32;
  Math math = Math::ieee;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of a, b and c; of i8 and f8e4m3 that of a and b");
    field.option("math", math, "how f32 products are formed");
    field.option("batch", batch, "independent products");
    field("m", m, "rows of op(a) and c");
    field("n", n, "columns of op(b) and c");
    field("k", k, "terms of each sum");
    field.option("trans_a", trans_a, "a is stored as (batch, k, m)");
    field.option("trans_b", trans_b, "b is stored as (batch, n, k)");
    field.option("alpha", alpha, "factor of the product");
  }
  void infer(Shapes s) {
    batch = s[a][0];
    m = s[a][trans_a ? 2 : 1];
    k = s[a][trans_a ? 1 : 2];
    n = s[b][trans_b ? 1 : 2];
  }
  static constexpr int64_t kMaxInt8Depth = INT32_MAX / (128 * 128);  // 131071: |i8 * i8| <= 2^14
  bool is_int8() const { return !kAccumulate && dtype == DType::i8; }
  bool is_float8() const { return !kAccumulate && dtype == DType::f8e4m3; }
  DType result() const { return is_int8() ? DType::i32 : is_float8() ? DType::bf16 : dtype; }  // dtype of c
  std::string invalid() const {
    if (batch < 0) return "batch " + std::to_string(batch) + ": 0 or more";
    if (!is_int8() && !is_float8()) return invalid_precision(dtype, math);
    if (math != Math::ieee) return "math tf32: only with dtype f32";
    if (is_float8()) return {};
    if (alpha != 1) return "alpha: only 1 with dtype i8, whose result is i32";
    if (k > kMaxInt8Depth) return "k " + std::to_string(k) + ": at most " + std::to_string(kMaxInt8Depth) + " with i8";
    return {};
  }
  std::vector<TensorSpec> tensors() const {
    return {a.of(dtype, trans_a ? Shape{batch, k, m} : Shape{batch, m, k}),
            b.of(dtype, trans_b ? Shape{batch, n, k} : Shape{batch, k, n}), c.of(result(), {batch, m, n})};
  }
  // Of i8: all of its values. A Fill draws small whole numbers.
  std::function<double(int64_t, uint32_t)> drawn(int slot) const {
    if (!is_int8() || slot == c.index) return {};
    return [](int64_t, uint32_t bits) { return static_cast<double>(static_cast<int8_t>(bits >> 24)); };
  }
  double flops() const { return 2.0 * batch * m * n * k; }
  // alpha and the addition to c are a rounding each.
  static constexpr int64_t kRoundings = kAccumulate ? 2 : 1;
  Tolerance tolerance() const {
    if (is_int8()) return {};
    return is_float8() ? float8_sum_tolerance(k, kRoundings, result())
                       : product_sum_tolerance(k, kRoundings, dtype, math, kDirect);
  }
  // gemm_acc: the error that is relative to |c|, which the claim's abs_sum has, as it has the rounding of the product.
  // Where a sum begins with c, each addition rounds a partial sum that has c in it; and the last one rounds the result,
  // however small the products are.
  double error_of_c() const {
    const double u = std::min(unit_roundoff(DType::f32), unit_roundoff(dtype));
    return std::max(product_error(static_cast<double>(k), kRoundings, dtype, math, kDirect).rel,
                    u * independent(static_cast<double>(k + kRoundings)));
  }

  std::optional<LinearAxis> linear_axis() const { return LinearAxis{"n", n, 1, {{b, trans_b ? 1u : 2u}, {c, 2}}}; }
  int64_t slices() const { return batch * m; }                     // a row of c
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/gemm/gemm.cpp

  static Cases cases(Scale scale) { return kAccumulate ? gemm_acc_cases(scale) : gemm_cases(scale); }
};
using Gemm = GemmOf<false>;
using GemmAcc = GemmOf<true>;  // its tensors have the places of those of Gemm

}  // namespace duet
