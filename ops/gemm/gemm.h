// SPDX-License-Identifier: Apache-2.0
// Matrix product. a: (batch, m, k), b: (batch, k, n), c: (batch, m, n), row-major, dense; trans_a and trans_b swap
// the last two axes of a and b as stored. c is overwritten and is neither a nor b. Sums are formed in f32 or better;
// k = 0 gives 0.
// Blocking, packing, register tiles: Goto and van de Geijn, Anatomy of high-performance matrix multiplication, 2008.
#pragma once
#include "core/attributes.h"
#include "ops/gemm/product.h"

namespace duet {

struct Gemm {
  static constexpr const char* name = "gemm";
  static constexpr const char* formula = "c[b,i,j] = alpha * sum_p op(a)[b,i,p] * op(b)[b,p,j]";
  static constexpr Slot a = input(0, "a"), b = input(1, "b"), c = output(2, "c");
  static constexpr bool exact_on_integers = true;

  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  float alpha = 1;
  DType dtype = DType::f32;
  Math math = Math::ieee;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of a, b and c");
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
  std::string invalid() const {
    if (batch < 0) return "batch " + std::to_string(batch) + ": 0 or more";
    return invalid_precision(dtype, math);
  }
  std::vector<TensorSpec> tensors() const {
    return {a.of(dtype, trans_a ? Shape{batch, k, m} : Shape{batch, m, k}),
            b.of(dtype, trans_b ? Shape{batch, n, k} : Shape{batch, k, n}), c.of(dtype, {batch, m, n})};
  }
  double flops() const { return 2.0 * batch * m * n * k; }
  Tolerance tolerance() const { return product_sum_tolerance(k, 1, dtype, math); }  // 1: alpha

  int64_t slices() const { return batch * m; }                     // a row of c
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/gemm/gemm.cpp

  static std::vector<Case<Gemm>> cases(Scale scale) {
    if (scale == Scale::test) return test_cases();
    auto cases = concat(
        in_all_precisions<Gemm>({{"square, in a CPU's last-level cache", {.m = 1024, .n = 1024, .k = 1024}}}),
        across(&Gemm::dtype, kF32AndBf16,
               {{"MLP 784-128, batch 64: too small for a GPU?", {.m = 64, .n = 128, .k = 784}},
                {"square, the size usually quoted for GPUs", {.m = 4096, .n = 4096, .k = 4096}},
                {"square, small", {.m = 256, .n = 256, .k = 256}},
                {"square, beyond a CPU's caches", {.m = 2048, .n = 2048, .k = 2048}},
                // DeepBench lists column-major m, n, k: row-major that is the transposed product, m and n exchanged.
                {"DeepBench RNN 1760, batch 16", {.m = 16, .n = 1760, .k = 1760}},
                {"DeepBench RNN 1760, batch 128", {.m = 128, .n = 1760, .k = 1760}},
                {"DeepBench RNN 1760, batch 16, b transposed", {.m = 16, .n = 1760, .k = 1760, .trans_b = true}},
                {"thin result, as peers/ has it", {.m = 1760, .n = 16, .k = 1760}},
                {"DeepBench speech 5124, batch 700", {.m = 700, .n = 5124, .k = 2048}},
                {"DeepBench speech 35, batch 700", {.m = 700, .n = 35, .k = 2048}},
                {"DeepBench 7680, batch 64", {.m = 64, .n = 7680, .k = 2560}},
                {"BERT-base 768->3072, 384 tokens", {.m = 384, .n = 3072, .k = 768, .trans_b = true}},
                {"BERT-base 3072->768, 384 tokens", {.m = 384, .n = 768, .k = 3072, .trans_b = true}},
                {"GPT-2 124M 768->2304, 1024 tokens", {.m = 1024, .n = 2304, .k = 768, .trans_b = true}},
                {"GPT-2 124M, weight gradient of 768->3072", {.m = 3072, .n = 768, .k = 1024, .trans_a = true}},
                {"BERT-base scores, 12 heads",
                 {.batch = 12, .m = 384, .n = 384, .k = 64, .trans_b = true, .alpha = 0.125f}},
                {"GPT-2 124M scores, B8 H12 T1024",
                 {.batch = 96, .m = 1024, .n = 1024, .k = 64, .trans_b = true, .alpha = 0.125f}},
                {"matrix times vector", {.m = 4096, .n = 1, .k = 4096}}}));
    if (scale == Scale::full) cases = concat(std::move(cases), more_cases());
    return cases;
  }

 private:
  static std::vector<Case<Gemm>> test_cases() {
    auto cases =
        in_all_precisions<Gemm>({{"one product", {.m = 1, .n = 1, .k = 1}},
                                 {"beside a register tile", {.m = 17, .n = 33, .k = 65}},
                                 {"b transposed", {.m = 33, .n = 65, .k = 17, .trans_b = true}},
                                 {"a transposed", {.m = 65, .n = 17, .k = 33, .trans_a = true}},
                                 {"both transposed", {.m = 33, .n = 17, .k = 129, .trans_a = true, .trans_b = true}},
                                 {"aligned tiles", {.m = 128, .n = 128, .k = 64}},
                                 {"batch and alpha", {.batch = 3, .m = 17, .n = 33, .k = 3, .alpha = 0.5f}}});
    return concat(
        std::move(cases),
        concat(
            across(&Gemm::dtype, kFloats,
                   {{"no rows", {.m = 0, .n = 3, .k = 3}},
                    {"no columns", {.m = 3, .n = 0, .k = 3}},
                    {"no batch", {.batch = 0, .m = 3, .n = 3, .k = 3}},
                    {"empty sums are 0", {.m = 3, .n = 17, .k = 0}},
                    {"a vector times a matrix", {.m = 1, .n = 129, .k = 65}},
                    {"a vector times a matrix, transposed", {.m = 1, .n = 65, .k = 129, .trans_b = true}},
                    {"a matrix times a vector", {.m = 129, .n = 1, .k = 33}},
                    {"a matrix times a vector, transposed", {.m = 65, .n = 1, .k = 129, .trans_a = true}},
                    {"an outer product", {.m = 33, .n = 129, .k = 1}},
                    {"thin and long", {.m = 3, .n = 3, .k = 1031}},
                    {"MLP head", {.m = 32, .n = 10, .k = 128, .trans_b = true}}}),
            across(&Gemm::dtype, kF32AndBf16,
                   {{"over a cache block in m and n", {.m = 259, .n = 515, .k = 129}},
                    {"over a cache block in k", {.m = 65, .n = 129, .k = 1031, .trans_b = true}},
                    {"over a cache block in m, transposed", {.m = 1031, .n = 65, .k = 33, .trans_a = true}},
                    {"batch, b transposed", {.batch = 5, .m = 65, .n = 129, .k = 33, .trans_b = true, .alpha = 0.5f}},
                    {"batch, a transposed", {.batch = 3, .m = 33, .n = 65, .k = 129, .trans_a = true}}})));
  }
  static std::vector<Case<Gemm>> more_cases() {
    auto cases = across(&Gemm::dtype, kFloats,
                        {{"square", {.m = 512, .n = 512, .k = 512}},
                         {"square, large", {.m = 8192, .n = 8192, .k = 8192}},
                         {"BERT-large 1024->1024, 384 tokens", {.m = 384, .n = 1024, .k = 1024, .trans_b = true}},
                         {"BERT-large 1024->4096, 384 tokens", {.m = 384, .n = 4096, .k = 1024, .trans_b = true}},
                         {"BERT-large 4096->1024, 384 tokens", {.m = 384, .n = 1024, .k = 4096, .trans_b = true}},
                         {"GPT-2 124M 768->768, 8192 tokens", {.m = 8192, .n = 768, .k = 768, .trans_b = true}},
                         {"GPT-2 124M 768->3072, 8192 tokens", {.m = 8192, .n = 3072, .k = 768, .trans_b = true}},
                         {"GPT-2 124M vocabulary, 8192 tokens", {.m = 8192, .n = 50257, .k = 768, .trans_b = true}},
                         {"Llama-3-8B 4096->6144, 512 tokens", {.m = 512, .n = 6144, .k = 4096, .trans_b = true}},
                         {"Llama-3-8B 4096->28672, 512 tokens", {.m = 512, .n = 28672, .k = 4096, .trans_b = true}},
                         {"Llama-3-8B 14336->4096, 512 tokens", {.m = 512, .n = 4096, .k = 14336, .trans_b = true}},
                         {"DeepBench 512x8x500000", {.m = 8, .n = 512, .k = 500000}},
                         {"DeepBench 3072x24000x1024", {.m = 24000, .n = 3072, .k = 1024}}});
    for (const int64_t size : {1760, 2048, 2560, 4096})  // DeepBench, training: its square layers
      for (const int64_t rows : {16, 32, 64, 128, 7000})
        for (const bool transposed : {false, true})
          cases.push_back({"DeepBench training", {.m = rows, .n = size, .k = size, .trans_b = transposed}});
    for (const int64_t size : {2048, 4096, 8192})
      cases.push_back({"square, TF32", {.m = size, .n = size, .k = size, .math = Math::tf32}});
    return cases;
  }
};

}  // namespace duet
