// SPDX-License-Identifier: Apache-2.0
// A matrix of which 2 in every 4 values along k are kept, times a dense one. The kept values of a are value: (m, k /
// 2). meta: (m, k / 8) says where they belong: 4 bits for each 4 values along k, the earlier 4 in the low bits; of
// these, the low 2 bits are the place (0 .. 3) of the first kept value, the high 2 bits that of the second. b: (k, n),
// c: (m, n). Row-major, dense; c is overwritten. Sums are formed in f32 or better; k = 0 gives 0.
//   The first place is below the second. Any meta is safe to read: of two values with one place the second counts.
//   b is finite: an implementation may multiply it by the zeros of the places that are not kept.
// Source: NVIDIA A100 Tensor Core GPU architecture, 2020, "Fine-grained structured sparsity".
#pragma once
#include <functional>

#include "core/attributes.h"
#include "ops/gemm/product.h"

namespace duet {

struct Gemm24 {
  static constexpr const char* name = "gemm_2_4";
  static constexpr const char* formula =
      "c[i,j] = sum_s value[i,s] * b[place(i,s),j],  place(i,s) = 4 (s / 2) + (meta[i,s/4] >> 2 (s % 4) & 3)";
  static constexpr Slot value = input(0, "value"), meta = input(1, "meta"), b = input(2, "b"), c = output(3, "c");
  static constexpr bool exact_on_integers = true;

  int64_t m = 0, n = 0, k = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of value, b and c");
    field("m", m, "rows of a and c");
    field("n", n, "columns of b and c");
    field("k", k, "columns of a, of which half are kept; rows of b");
  }
  void infer(Shapes s) {
    m = s[value][0];
    k = s[b][0];
    n = s[b][1];
  }
  std::string invalid() const {
    if (k % 8 != 0) return "k " + std::to_string(k) + ": a multiple of 8, which one byte of meta describes";
    return invalid_precision(dtype, Math::ieee);
  }
  std::vector<TensorSpec> tensors() const {
    return {value.of(dtype, {m, k / 2}), meta.of(DType::u8, {m, k / 8}), b.of(dtype, {k, n}), c.of(dtype, {m, n})};
  }
  std::function<double(int64_t, uint32_t)> drawn(int slot) const {
    if (slot != meta.index) return {};
    return [](int64_t, uint32_t bits) {
      constexpr uint32_t kPairs[] = {0x4, 0x8, 0xc, 0x9, 0xd, 0xe};  // (0,1) (0,2) (0,3) (1,2) (1,3) (2,3)
      return static_cast<double>(kPairs[bits % 6] | kPairs[(bits >> 16) % 6] << 4);
    };
  }
  double flops() const { return 2.0 * m * n * k; }  // of the dense product; half of them are done
  Tolerance tolerance() const {
    return product_sum_tolerance(static_cast<double>(k) / 2, 0, dtype, Math::ieee, kDirect);
  }
  std::optional<LinearAxis> linear_axis() const { return LinearAxis{"n", n, 1, {{b, 1}, {c, 1}}}; }
  int64_t slices() const { return m; }                         // a row of c
  void reference(Inputs in, int64_t i, Expect& expect) const;  // cpu_ref/gemm/gemm_2_4.cpp

  static Cases cases(Scale scale) {
    const Cases floats{
        {"one byte of meta", "m:1 n:1 k:8"}, {"no rows", "m:0 n:3 k:8"},
        {"empty sums are 0", "m:3 n:5 k:0"}, {"beside a register tile", "m:17 n:33 k:72"},
        {"whole packs", "m:64 n:64 k:64"},   {"any byte of meta is safe", "m:17 n:9 k:40 meta=below:256"},
    };
    const Cases test{
        {"over a cache block in k", "m:9 n:17 k:1600"},
        {"few columns", "m:129 n:3 k:136"},
        {"aligned, over a tile", "m:136 n:144 k:40"},
    };
    const Cases standard{
        {"BERT-base 768->3072, 384 tokens", "m:3072 n:384 k:768"},
        {"square, beyond a CPU's caches", "m:2048 n:2048 k:2048"},
    };
    const Cases more{
        {"BERT-large 1024->4096, 384 tokens", "m:4096 n:384 k:1024"},
        {"Llama-3-8B 4096->6144, 512 tokens", "m:6144 n:512 k:4096"},
        {"square", "m:4096 n:4096 k:4096"},
        {"square, large", "m:8192 n:8192 k:8192"},
    };
    return by_scale(scale, concat({across(kFloatTypes, floats), across(kF32AndBf16, test)}),
                    across(kF32AndBf16, standard), across(kFloatTypes, more), sweep("m n k", 16, 2048, "", 2));
  }
};

}  // namespace duet
