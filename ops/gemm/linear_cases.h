// SPDX-License-Identifier: Apache-2.0
// The shapes at which linear and its backward pass are tested and timed.
#pragma once
#include "ops/gemm/product.h"  // kAllPrecisions

namespace duet {

inline Cases linear_cases(Scale scale) {
  const Cases all_precisions{
      {"one product", "n:1 in:1 out:1"},      {"beside a register tile", "n:17 in:65 out:33"},
      {"relu", "n:33 in:17 out:65 act:relu"}, {"MLP hidden layer, narrowed", "n:32 in:129 out:128 act:relu"},
      {"MLP head", "n:32 in:128 out:10"},
  };
  const Cases floats{
      {"gelu", "n:33 in:17 out:65 act:gelu"},
      {"gelu, beside a pack", "n:17 in:31 out:40 act:gelu"},
      {"whole packs", "n:16 in:32 out:24"},
      {"whole packs, relu", "n:16 in:32 out:24 act:relu"},
      {"whole packs, gelu", "n:16 in:32 out:24 act:gelu"},
      {"whole packs, gelu, samples in parts", "n:131 in:8 out:32 act:gelu"},
      {"gelu, no features", "n:3 in:0 out:5 act:gelu"},
      {"gelu, one output", "n:65 in:33 out:1 act:gelu"},
      {"no samples", "n:0 in:3 out:5 act:relu"},
      {"no features: the bias alone", "n:3 in:0 out:5 act:relu"},
      {"no outputs", "n:3 in:5 out:0"},
      {"one sample", "n:1 in:129 out:65 act:relu"},
      {"one output", "n:65 in:33 out:1"},
      {"three of each", "n:3 in:3 out:3 act:relu"},
      {"thin and long", "n:1031 in:3 out:3"},
      {"over a cache block", "n:259 in:1031 out:65 act:relu"},
  };
  const Cases standard{
      {"MLP 784-128, batch 32", "n:32 in:784 out:128 act:relu"},
      {"BERT-base 768->3072, 384 tokens", "n:384 in:768 out:3072 act:relu"},
      {"GPT-2 124M 768->3072 with gelu, 1024 tokens", "n:1024 in:768 out:3072 act:gelu"},
      {"MLP 128-10, batch 32", "n:32 in:128 out:10"},
      {"MLP 784-128, batch 512", "n:512 in:784 out:128 act:relu"},
      {"MLP 128-10, batch 512", "n:512 in:128 out:10"},
      {"BERT-base 3072->768, 384 tokens", "n:384 in:3072 out:768"},
      {"BERT-large 1024->4096, 24 times, 384 tokens", "n:384 in:1024 out:4096"},
      {"GPT-2 124M 768->2304, 1024 tokens", "n:1024 in:768 out:2304"},
      {"ResNet-50 head, batch 32", "n:32 in:2048 out:1000"},
  };
  const Cases more{
      {"MLP 784-128, batch 64", "n:64 in:784 out:128 act:relu"},
      {"BERT-base 768->768, 384 tokens", "n:384 in:768 out:768"},
      {"BERT-base 768->2304, 384 tokens", "n:384 in:768 out:2304"},
      {"BERT-large 1024->1024, 96 times, 384 tokens", "n:384 in:1024 out:1024"},
      {"BERT-large 4096->1024, 24 times, 384 tokens", "n:384 in:4096 out:1024"},
      {"GPT-2 124M 768->3072, 8192 tokens", "n:8192 in:768 out:3072"},
      {"GPT-2 124M 3072->768, 8192 tokens", "n:8192 in:3072 out:768"},
      {"GPT-2 124M 768->768, 8192 tokens", "n:8192 in:768 out:768"},
      {"GPT-2 124M 768->2304, 8192 tokens", "n:8192 in:768 out:2304"},
      {"GPT-2 124M vocabulary, 1024 tokens", "n:1024 in:768 out:50257"},
      {"GPT-2 124M vocabulary, 8192 tokens", "n:8192 in:768 out:50257"},
      {"Llama-3-8B 4096->4096, 512 tokens", "n:512 in:4096 out:4096"},
      {"Llama-3-8B 4096->28672, 512 tokens", "n:512 in:4096 out:28672"},
      {"Llama-3-8B 14336->4096, 512 tokens", "n:512 in:14336 out:4096"},
      {"Llama-3-8B 4096->6144, 512 tokens", "n:512 in:4096 out:6144"},
  };
  const Cases tf32 = with("math:tf32", {{"BERT-base 768->3072, 384 tokens", "n:384 in:768 out:3072 act:relu"},
                                        {"BERT-base 3072->768, 384 tokens", "n:384 in:3072 out:768"},
                                        {"GPT-2 124M 768->2304, 1024 tokens", "n:1024 in:768 out:2304"},
                                        {"Llama-3-8B 4096->4096, 512 tokens", "n:512 in:4096 out:4096"}});
  return by_scale(scale, concat({across(kAllPrecisions, all_precisions), across(kFloatTypes, floats)}),
                  across(kF32AndBf16, standard), concat({across(kFloatTypes, more), tf32}),
                  sweep("n", 1, 16384, "in:768 out:3072"));
}

}  // namespace duet
