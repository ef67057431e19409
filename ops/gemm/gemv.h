// SPDX-License-Identifier: Apache-2.0
// A matrix times a vector. a: (m, n), row-major, dense, or (n, m) with trans; x: (n), y: (m). y is overwritten and is
// neither a nor x. Sums are formed in f32 or better; n = 0 gives 0. Every element of a is used once: the memory that a
// is read from bounds the time.
#pragma once
#include "core/attributes.h"
#include "ops/gemm/product.h"

namespace duet {

struct Gemv {
  static constexpr const char* name = "gemv";
  static constexpr const char* formula = "y[i] = sum_j op(a)[i,j] * x[j]";
  static constexpr Slot a = input(0, "a"), x = input(1, "x"), y = output(2, "y");
  static constexpr bool exact_on_integers = true;

  int64_t m = 0, n = 0;
  bool trans = false;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of a, x and y");
    field("m", m, "elements of y");
    field("n", n, "elements of x: terms of each sum");
    field.option("trans", trans, "a is stored as (n, m)");
  }
  void infer(Shapes s) {
    m = s[a][trans ? 1 : 0];
    n = s[a][trans ? 0 : 1];
  }
  std::string invalid() const { return invalid_precision(dtype, Math::ieee); }
  std::vector<TensorSpec> tensors() const {
    return {a.of(dtype, trans ? Shape{n, m} : Shape{m, n}), x.of(dtype, {n}), y.of(dtype, {m})};
  }
  double flops() const { return 2.0 * m * n; }
  // The products are never all alike.
  Tolerance tolerance() const {
    return product_sum_tolerance(static_cast<double>(n), 0, dtype, Math::ieee, kDirect, Terms::vary, kLongestChain);
  }

  std::optional<LinearAxis> linear_axis() const { return LinearAxis{"m", m, 1, {{a, trans ? 1u : 0u}, {y, 0}}}; }
  int64_t slices() const { return m; }                         // an element of y
  void reference(Inputs in, int64_t i, Expect& expect) const;  // cpu_ref/gemm/gemv.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"nothing", "m:0 n:3"},
        {"empty sums are 0", "m:3 n:0"},
        {"one product", "m:1 n:1"},
        {"three of each", "m:3 n:3"},
        {"a lane short of a warp", "m:31 n:33"},
        {"whole packs", "m:64 n:128"},
        {"longer than a block", "m:33 n:1031"},
        {"more rows than a block", "m:1031 n:33"},
        {"one sum, in parts", "m:1 n:20011"},
        {"few sums, whole packs, in parts", "m:32 n:4096"},
        {"a term each", "m:129 n:1"},
    };
    const Cases standard{
        {"Llama-3-8B 4096->4096, one token", "m:4096 n:4096"},
        {"Llama-3-8B 4096->14336, one token", "m:14336 n:4096"},
        {"GPT-2 124M 768->3072, one token", "m:3072 n:768"},
    };
    const Cases more{
        {"Llama-3-8B 4096->6144, one token", "m:6144 n:4096"},
        {"Llama-3-8B 4096->28672, one token", "m:28672 n:4096"},
        {"Llama-3-8B 14336->4096, one token", "m:4096 n:14336"},
        {"GPT-2 124M 768->2304, one token", "m:2304 n:768"},
        {"GPT-2 124M vocabulary, one token", "m:50257 n:768"},
        {"DeepBench RNN 1760", "m:1760 n:1760"},
        {"DeepBench RNN 2560", "m:2560 n:2560"},
        {"few long sums", "m:8 n:1048576"},
        {"few long sums, a transposed", "m:8 n:1048576 trans:1"},
    };
    const Words both{"trans:0", "trans:1"};
    return by_scale(scale, across(kFloatTypes, across(both, test)), across(kF32AndBf16, across(both, standard)),
                    across(kFloatTypes, more), across(kF32AndBf16, sweep("m n", 32, 8192, "", 2)));
  }
};

}  // namespace duet
