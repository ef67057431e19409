// SPDX-License-Identifier: Apache-2.0
// The shapes at which gemm and gemm_acc are tested and timed.
#pragma once
#include "ops/gemm/product.h"  // kAllPrecisions

namespace duet {

inline Cases gemm_test_cases() {
  const Cases all_precisions{
      {"one product", "m:1 n:1 k:1"},
      {"beside a register tile", "m:17 n:33 k:65"},
      {"b transposed", "m:33 n:65 k:17 trans_b:1"},
      {"a transposed", "m:65 n:17 k:33 trans_a:1"},
      {"both transposed", "m:33 n:17 k:129 trans_a:1 trans_b:1"},
      {"aligned tiles", "m:128 n:128 k:64"},
      {"aligned, beside a tile of k", "m:64 n:64 k:40"},
      {"whole packs", "m:16 n:24 k:32"},
      {"whole packs, transposed", "m:24 n:16 k:32 trans_a:1 trans_b:1"},
      {"whole packs, b transposed", "batch:2 m:16 n:8 k:24 trans_b:1"},
      {"whole packs, a transposed", "m:16 n:24 k:8 trans_a:1"},
      {"batch and alpha", "batch:3 m:17 n:33 k:3 alpha:0.5"},
  };
  const Cases floats{
      {"no rows", "m:0 n:3 k:3"},
      {"no columns", "m:3 n:0 k:3"},
      {"no batch", "batch:0 m:3 n:3 k:3"},
      {"empty sums are 0", "m:3 n:17 k:0"},
      {"a vector times a matrix", "m:1 n:129 k:65"},
      {"a vector times a matrix, transposed", "m:1 n:65 k:129 trans_b:1"},
      {"a matrix times a vector", "m:129 n:1 k:33"},
      {"a matrix times a vector, transposed", "m:65 n:1 k:129 trans_a:1"},
      {"an outer product", "m:33 n:129 k:1"},
      {"thin and long", "m:3 n:3 k:1031"},
      {"several blocks of pairs of k, in place", "m:5 n:33 k:1602"},
      {"MLP head", "m:32 n:10 k:128 trans_b:1"},
      {"one NaN, the last", "m:19 n:49 k:67 a=last:nan"},
  };
  const Cases f32_and_bf16{
      {"over a cache block in m and n", "m:259 n:771 k:129"},
      {"over a cache block in k", "m:65 n:129 k:1031 trans_b:1"},
      {"over a cache block in m, transposed", "m:1031 n:65 k:33 trans_a:1"},
      {"batch, b transposed", "batch:5 m:65 n:129 k:33 trans_b:1 alpha:0.5"},
      {"batch, a transposed", "batch:3 m:33 n:65 k:129 trans_a:1"},
  };
  // wgmma: tiles of 128 rows and 128 or 256 columns, 64 depths at a time, by copies of 8 elements.
  const Cases halves{
      {"over a warpgroups' tile", "m:136 n:264 k:104"},
      {"over a warpgroups' tile, b transposed", "batch:2 m:136 n:136 k:72 trans_b:1 alpha:0.5"},
      {"over a warpgroups' tile, a transposed, odd depth", "m:136 n:264 k:71 trans_a:1"},
      {"more steps than stages, over a warpgroups' tile in n, both transposed", "m:72 n:136 k:328 trans_a:1 trans_b:1"},
      {"over a warpgroups' wide tile, b transposed", "m:136 n:264 k:72 trans_b:1"},
      {"over a warpgroups' wide tile, both transposed", "m:136 n:264 k:72 trans_a:1 trans_b:1"},
      {"over a warpgroups' tile, a transposed", "m:136 n:136 k:72 trans_a:1"},
      {"a warpgroups' narrow tile, b transposed", "m:16 n:64 k:64 trans_b:1"},
      {"a warpgroups' narrow tile, a transposed", "m:16 n:64 k:64 trans_a:1"},
      {"a warpgroups' narrow tile, both transposed", "m:16 n:64 k:64 trans_a:1 trans_b:1"},
      {"an outer product with numbers of every kind; b by copies", "m:33 n:40 k:1 b=edges+inf+nan"},
  };
  const Cases int8{
      {"one product", "m:1 n:1 k:1"},
      {"empty sums are 0", "m:3 n:5 k:0"},
      {"no rows", "m:0 n:3 k:3"},
      {"few rows, b transposed", "m:3 n:65 k:129 trans_b:1"},
      {"few rows", "m:2 n:67 k:131"},
      {"beside a tile", "m:33 n:40 k:80"},
      {"both transposed, prime", "m:17 n:37 k:67 trans_a:1 trans_b:1"},
      {"a transposed, beside a block", "m:48 n:33 k:49 trans_a:1"},
      {"whole packs, a transposed", "batch:2 m:72 n:68 k:76 trans_a:1"},
      {"whole packs, b transposed", "m:24 n:64 k:64 trans_b:1"},
      {"batch, over a block of rows", "batch:2 m:131 n:130 k:32 trans_b:1"},
      {"sums beyond 24 bits", "m:5 n:7 k:5003 trans_b:1"},
      {"the largest products", "m:13 n:33 k:1031 a=-128 b=-128"},
  };
  const Cases float8{
      {"one product", "m:1 n:1 k:1"},
      {"empty sums are 0", "m:3 n:5 k:0"},
      {"no rows", "m:0 n:3 k:3"},
      {"beside a tile", "m:33 n:40 k:80"},
      {"both transposed, prime", "m:17 n:37 k:67 trans_a:1 trans_b:1"},
      {"whole packs, a transposed", "batch:2 m:72 n:68 k:76 trans_a:1"},
      {"whole packs, b transposed", "m:16 n:64 k:64 trans_b:1"},
      {"batch and alpha, over a tile", "batch:2 m:131 n:130 k:160 trans_b:1 alpha:0.5"},
      {"many chains", "m:5 n:7 k:5003 trans_b:1"},
      {"chains of cuBLASLt, batch and alpha", "batch:2 m:37 n:48 k:1040 trans_b:1 alpha:0.5"},
      {"all numbers there are", "m:5 n:33 k:67 trans_b:1 a=-448..448 b=-448..448"},
      {"one NaN, the last", "m:5 n:48 k:64 trans_b:1 b=last:nan"},
  };
  return concat({across(kAllPrecisions, all_precisions), across(kFloatTypes, floats), across(kF32AndBf16, f32_and_bf16),
                 across(Words{"dtype:bf16", "dtype:f16"}, halves), with("dtype:i8", int8),
                 with("dtype:f8e4m3", float8)});
}

inline Cases gemm_cases(Scale scale) {
  const Cases all_precisions{
      {"square, in a CPU's last-level cache", "m:1024 n:1024 k:1024"},
  };
  const Cases standard{
      {"MLP 784-128, batch 64: too small for a GPU?", "m:64 n:128 k:784"},
      {"square, the size usually quoted for GPUs", "m:4096 n:4096 k:4096"},
      {"square, small", "m:256 n:256 k:256"},
      {"square, beyond a CPU's caches", "m:2048 n:2048 k:2048"},
      // DeepBench lists column-major m, n, k: row-major that is the transposed product, m and n exchanged.
      {"DeepBench RNN 1760, batch 16", "m:16 n:1760 k:1760"},
      {"DeepBench RNN 1760, batch 128", "m:128 n:1760 k:1760"},
      {"DeepBench RNN 1760, batch 16, b transposed", "m:16 n:1760 k:1760 trans_b:1"},
      {"thin result", "m:1760 n:16 k:1760"},
      {"DeepBench speech 5124, batch 700", "m:700 n:5124 k:2048"},
      {"DeepBench speech 35, batch 700", "m:700 n:35 k:2048"},
      {"DeepBench 7680, batch 64", "m:64 n:7680 k:2560"},
      {"BERT-base 768->3072, 384 tokens", "m:384 n:3072 k:768 trans_b:1"},
      {"BERT-base 3072->768, 384 tokens", "m:384 n:768 k:3072 trans_b:1"},
      {"GPT-2 124M 768->2304, 1024 tokens", "m:1024 n:2304 k:768 trans_b:1"},
      {"GPT-2 124M, weight gradient of 768->3072", "m:3072 n:768 k:1024 trans_a:1"},
      {"BERT-base scores, 12 heads", "batch:12 m:384 n:384 k:64 trans_b:1 alpha:0.125"},
      {"GPT-2 124M scores, B8 H12 T1024", "batch:96 m:1024 n:1024 k:64 trans_b:1 alpha:0.125"},
      {"matrix times vector", "m:4096 n:1 k:4096"},
  };
  const Cases more{
      {"square", "m:512 n:512 k:512"},
      {"square, large", "m:8192 n:8192 k:8192"},
      {"BERT-base 768->768, 384 tokens", "m:384 n:768 k:768 trans_b:1"},
      {"BERT-base 768->2304, 384 tokens", "m:384 n:2304 k:768 trans_b:1"},
      {"BERT-large 1024->1024, 96 times, 384 tokens", "m:384 n:1024 k:1024 trans_b:1"},
      {"BERT-large 1024->4096, 24 times, 384 tokens", "m:384 n:4096 k:1024 trans_b:1"},
      {"BERT-large 4096->1024, 24 times, 384 tokens", "m:384 n:1024 k:4096 trans_b:1"},
      {"GPT-2 124M 768->768, 8192 tokens", "m:8192 n:768 k:768 trans_b:1"},
      {"GPT-2 124M 768->2304, 8192 tokens", "m:8192 n:2304 k:768 trans_b:1"},
      {"GPT-2 124M 3072->768, 8192 tokens", "m:8192 n:768 k:3072 trans_b:1"},
      {"GPT-2 124M 768->3072, 8192 tokens", "m:8192 n:3072 k:768 trans_b:1"},
      {"GPT-2 124M vocabulary, 8192 tokens", "m:8192 n:50257 k:768 trans_b:1"},
      {"Llama-3-8B 4096->4096, 512 tokens", "m:512 n:4096 k:4096 trans_b:1"},
      {"Llama-3-8B 4096->6144, 512 tokens", "m:512 n:6144 k:4096 trans_b:1"},
      {"Llama-3-8B 4096->28672, 512 tokens", "m:512 n:28672 k:4096 trans_b:1"},
      {"Llama-3-8B 14336->4096, 512 tokens", "m:512 n:4096 k:14336 trans_b:1"},
      {"DeepBench 512x8x500000", "m:8 n:512 k:500000"},
      {"DeepBench 3072x24000x1024", "m:24000 n:3072 k:1024"},
  };
  const Cases int8{
      {"BERT-base 768->3072, 384 tokens", "m:384 n:3072 k:768 trans_b:1"},
      {"square, in a CPU's last-level cache", "m:1024 n:1024 k:1024 trans_b:1"},
      {"square, beyond a CPU's caches", "m:2048 n:2048 k:2048"},
      {"DeepBench RNN 1760, batch 16, b transposed", "m:16 n:1760 k:1760 trans_b:1"},
  };
  const Cases float8{
      {"BERT-base 768->3072, 384 tokens", "m:384 n:3072 k:768 trans_b:1"},
      {"square, beyond a CPU's caches", "m:2048 n:2048 k:2048 trans_b:1"},
      {"GPT-2 124M 768->2304, 1024 tokens", "m:1024 n:2304 k:768 trans_b:1"},
      {"DeepBench RNN 1760, batch 16, b transposed", "m:16 n:1760 k:1760 trans_b:1"},
  };
  const Cases float8_more{
      {"square, large", "m:8192 n:8192 k:8192 trans_b:1"},
      {"Llama-3-8B 4096->28672, 512 tokens", "m:512 n:28672 k:4096 trans_b:1"},
      {"Llama-3-8B 14336->4096, 512 tokens", "m:512 n:4096 k:14336 trans_b:1"},
  };
  const Cases deepbench_training = across(  // its square layers
      {"trans_b:0", "trans_b:1"}, across({"m:16", "m:32", "m:64", "m:128", "m:7000"},
                                         across({"n:1760 k:1760", "n:2048 k:2048", "n:2560 k:2560", "n:4096 k:4096"},
                                                {{"DeepBench training", ""}})));
  const Cases deepbench_rest = concat({
      across({"m:16", "m:32", "m:64", "m:128"}, {{"DeepBench 7680", "n:7680 k:2560"}}),
      across({"k:1760", "k:2048", "k:2560", "k:4096"},
             {{"DeepBench speech 5124x9124", "m:9124 n:5124"}, {"DeepBench speech 35x8457", "m:8457 n:35"}}),
  });
  const Cases tf32 =
      across({"m:2048 n:2048 k:2048", "m:4096 n:4096 k:4096", "m:8192 n:8192 k:8192"}, {{"square, TF32", "math:tf32"}});
  return by_scale(scale, gemm_test_cases(),
                  concat({across(kAllPrecisions, all_precisions), across(kF32AndBf16, standard), with("dtype:i8", int8),
                          with("dtype:f8e4m3", float8)}),
                  concat({across(kFloatTypes, more), with("dtype:f8e4m3", float8_more), deepbench_training,
                          across(kF32AndBf16, deepbench_rest), tf32}),
                  across(kF32AndBf16, sweep("m n k", 16, 2048, "", 2)));
}

// gemm_acc: what differs from gemm is where c is read, so few shapes; and gradients that are added up over batches.
inline Cases gemm_acc_cases(Scale scale) {
  const Cases all_precisions{
      {"beside a register tile", "m:17 n:33 k:65"},
      {"a transposed, alpha", "m:33 n:24 k:17 trans_a:1 alpha:0.5"},
      {"whole packs, b transposed", "m:16 n:24 k:32 trans_b:1"},
  };
  const Cases floats{
      {"no rows", "m:0 n:3 k:3"},
      {"empty sums leave c", "m:3 n:17 k:0 alpha:2"},
      {"one product", "m:1 n:1 k:1 alpha:-1"},
      {"one product a sum, added to larger numbers", "m:17 n:33 k:1 c=-10..10"},
      {"two products a sum", "m:17 n:33 k:2"},
      {"a matrix times a vector", "m:129 n:1 k:33 alpha:0.5"},
      {"a vector times a matrix, transposed", "m:1 n:65 k:129 trans_b:1"},
      {"batch", "batch:3 m:17 n:31 k:3 trans_b:1 alpha:2"},
      {"beside a tile", "m:65 n:129 k:31 trans_a:1 trans_b:1"},
  };
  const Cases f32_and_bf16{
      {"over cache blocks in k", "m:16 n:33 k:1601 alpha:0.5"},
      {"one column over cache blocks in k", "m:33 n:1 k:1601 trans_a:1"},
  };
  const Cases standard{
      {"GPT-2 124M, weight gradient of 768->3072 over 1024 tokens", "m:3072 n:768 k:1024 trans_a:1"},
      {"square, beyond a CPU's caches", "m:2048 n:2048 k:2048"},
      {"DeepBench RNN 1760, batch 16", "m:16 n:1760 k:1760"},
      {"BERT-base, weight gradient of 768->3072 over 384 tokens", "m:3072 n:768 k:384 trans_a:1"},
  };
  const Cases more{
      {"square, large", "m:8192 n:8192 k:8192"},
      {"Llama-3-8B, weight gradient of 4096->6144 over 512 tokens", "m:6144 n:4096 k:512 trans_a:1"},
  };
  return by_scale(
      scale,
      concat({across(kAllPrecisions, all_precisions), across(kFloatTypes, floats), across(kF32AndBf16, f32_and_bf16)}),
      across(kF32AndBf16, standard), across(kFloatTypes, more), across(kF32AndBf16, sweep("m n k", 16, 2048, "", 2)));
}

}  // namespace duet
