// SPDX-License-Identifier: Apache-2.0
// The shapes at which attention is tested and timed: those of models, and of arXiv:2307.08691 (2048 features, 16 k
// tokens).
#pragma once
#include "core/cases.h"

namespace duet {

inline Cases attention_cases(Scale scale) {
  const Cases test{
      {"one key", "B:1 H:1 Tq:1 Tk:1 D:1"},
      {"no sequence", "B:0 H:2 Tq:3 Tk:3 D:8"},
      {"no query", "B:1 H:2 Tq:0 Tk:3 D:8"},
      {"heads without features", "B:1 H:1 Tq:3 Tk:5 D:0"},
      {"more keys than queries", "B:2 H:2 Tq:17 Tk:33 D:8"},
      {"few keys, whole packs", "B:1 H:2 Tq:5 Tk:9 D:8"},
      {"first one visible key; keys that no query sees", "B:1 H:1 Tq:33 Tk:65 D:8 causal:1"},
      {"more queries than keys", "B:1 H:1 Tq:65 Tk:17 D:40 causal:1"},
      {"queries grouped, 2 heads to one of k and v", "B:2 H:4 Tq:17 Tk:17 D:16 Hkv:2 causal:1"},
      {"one head of k and v; scale given", "B:1 H:3 Tq:3 Tk:31 D:33 Hkv:1 scale:0.25"},
      {"beside a tile", "B:1 H:1 Tq:65 Tk:65 D:8 causal:1"},
      {"whole tiles", "B:1 H:1 Tq:64 Tk:64 D:16"},
      {"heads of GPT-2", "B:1 H:1 Tq:17 Tk:33 D:64"},
      {"wide heads", "B:1 H:1 Tq:17 Tk:31 D:128 causal:1"},
      {"many keys", "B:1 H:1 Tq:3 Tk:1031 D:8"},
      {"a negative scale; several tiles of two heads", "B:1 H:4 Tq:70 Tk:75 D:16 Hkv:2 scale:-0.5"},
      {"wide heads, several tiles", "B:1 H:1 Tq:130 Tk:150 D:96 causal:1"},
      {"wide heads that end within a pack", "B:1 H:1 Tq:9 Tk:67 D:99"},
      {"several tiles of queries", "B:1 H:1 Tq:259 Tk:131 D:3 causal:1"},
  };
  const Cases standard{
      {"GPT-2 124M, batch 4", "B:4 H:12 Tq:1024 Tk:1024 D:64 causal:1"},
      {"BERT-base, one sequence", "B:1 H:12 Tq:384 Tk:384 D:64"},
      {"BERT-large, one sequence", "B:1 H:16 Tq:384 Tk:384 D:64"},
      {"GPT-2 124M, batch 8", "B:8 H:12 Tq:1024 Tk:1024 D:64 causal:1"},
      {"Llama-3-8B, 2048 tokens", "B:1 H:32 Tq:2048 Tk:2048 D:128 Hkv:8 causal:1"},
  };
  const Cases more{
      {"FlashAttention-2, 16k tokens", "B:32 H:32 Tq:512 Tk:512 D:64"},
      {"FlashAttention-2, 16k tokens", "B:32 H:16 Tq:512 Tk:512 D:128"},
      {"FlashAttention-2, 16k tokens", "B:16 H:32 Tq:1024 Tk:1024 D:64"},
      {"FlashAttention-2, 16k tokens", "B:16 H:16 Tq:1024 Tk:1024 D:128"},
      {"FlashAttention-2, 16k tokens", "B:8 H:32 Tq:2048 Tk:2048 D:64"},
      {"FlashAttention-2, 16k tokens", "B:8 H:16 Tq:2048 Tk:2048 D:128"},
      {"FlashAttention-2, 16k tokens", "B:4 H:32 Tq:4096 Tk:4096 D:64"},
      {"FlashAttention-2, 16k tokens", "B:4 H:16 Tq:4096 Tk:4096 D:128"},
      {"FlashAttention-2, 16k tokens", "B:2 H:32 Tq:8192 Tk:8192 D:64"},
      {"FlashAttention-2, 16k tokens", "B:2 H:16 Tq:8192 Tk:8192 D:128"},
      {"FlashAttention-2, 16k tokens", "B:1 H:32 Tq:16384 Tk:16384 D:64"},
      {"FlashAttention-2, 16k tokens", "B:1 H:16 Tq:16384 Tk:16384 D:128"},
  };
  return concat(
      {across(kFloatTypes, by_scale(scale, test, standard, across({"causal:0", "causal:1"}, more))),
       across(kF32AndBf16, by_scale(scale, {}, {}, {}, sweep("Tq Tk", 16, 2048, "B:1 H:12 D:64 causal:1", 2)))});
}

// Under a sliding window, and of sequences that end at their own lengths.
inline Cases masked_attention_cases(Scale scale) {
  const Cases test{
      {"a window of 5 keys", "B:1 H:2 Tq:33 Tk:33 D:8 causal:1 window:5"},
      {"a window of one key", "B:1 H:1 Tq:17 Tk:17 D:8 causal:1 window:1"},
      {"a window longer than the sequence; keys that no query sees", "B:1 H:1 Tq:9 Tk:17 D:8 causal:1 window:1000"},
      {"a window that leaves out tiles of keys", "B:1 H:1 Tq:140 Tk:140 D:16 causal:1 window:40"},
      {"wide heads, a window", "B:1 H:1 Tq:70 Tk:100 D:96 causal:1 window:20"},
      {"wide heads of odd width, a window", "B:1 H:1 Tq:9 Tk:20 D:99 causal:1 window:5"},
      {"a window, over tiles of queries and of keys", "B:1 H:1 Tq:300 Tk:300 D:8 causal:1 window:70"},
      {"wide heads, a window, over tiles of queries", "B:1 H:1 Tq:200 Tk:200 D:72 causal:1 window:30"},
      {"wide heads, few queries, a window", "B:1 H:1 Tq:40 Tk:70 D:72 causal:1 window:20"},
      {"padding, over tiles of keys", "B:2 H:1 Tq:70 Tk:400 D:8 padded:1"},
      {"padding", "B:3 H:2 Tq:17 Tk:33 D:8 padded:1"},
      {"padding, causal, queries grouped", "B:2 H:4 Tq:17 Tk:17 D:16 Hkv:2 causal:1 padded:1"},
      {"padding that leaves out tiles of keys", "B:2 H:1 Tq:9 Tk:150 D:64 padded:1"},
      {"lengths of zero count as 1", "B:2 H:1 Tq:5 Tk:9 D:8 padded:1 lengths=0"},
      {"lengths above Tk count as Tk", "B:2 H:1 Tq:5 Tk:9 D:8 padded:1 lengths=1000000"},
  };
  const Cases standard{
      {"BERT-base, 8 sequences of 216 to 384 tokens", "B:8 H:12 Tq:384 Tk:384 D:64 padded:1"},
      {"Longformer's window of 512, 4096 tokens", "B:1 H:12 Tq:4096 Tk:4096 D:64 causal:1 window:512"},
  };
  const Cases more{
      {"Mistral-7B, 8192 tokens", "B:1 H:32 Tq:8192 Tk:8192 D:128 Hkv:8 causal:1 window:4096"},
  };
  return across(kFloatTypes, by_scale(scale, test, standard, more));
}

// One new token of each sequence against the keys and values that the tokens before it left (a KV cache). Only forward:
// nothing is trained in this way.
inline Cases decode_cases(Scale scale) {
  const Cases test{
      {"decode: keys in parts", "B:1 H:1 Tq:1 Tk:521 D:64"},
      {"decode: features end within a vector", "B:1 H:2 Tq:2 Tk:65 D:33 Hkv:1"},
      {"decode: 3 rows share a head; features end within a warp", "B:2 H:3 Tq:1 Tk:65 D:40 Hkv:1"},
      {"decode: 5 rows share a head", "B:1 H:5 Tq:1 Tk:70 D:64 Hkv:1"},
      {"decode: wide heads, one row", "B:1 H:1 Tq:1 Tk:70 D:128"},
      {"decode: wide heads, 4 rows", "B:1 H:4 Tq:1 Tk:67 D:128 Hkv:1"},
      {"decode: wide heads, 8 rows of two queries", "B:1 H:4 Tq:2 Tk:66 D:128 Hkv:1"},
      {"decode: sequences of unlike length, the last parts empty", "B:3 H:1 Tq:1 Tk:521 D:64 padded:1"},
      {"decode: wide heads, 4 rows, sequences of unlike length", "B:2 H:4 Tq:1 Tk:67 D:128 Hkv:1 padded:1"},
      {"decode: one key of 600", "B:1 H:2 Tq:1 Tk:600 D:64 padded:1 lengths=1"},
      {"decode: every score so low that its exp is 0", "B:1 H:3 Tq:1 Tk:67 D:8 q=9..11 k=-4.5..-3.5"},
  };
  const Cases standard{
      {"GPT-2 124M, decode, 8 sequences", "B:8 H:12 Tq:1 Tk:1024 D:64"},
      {"Llama-3-8B, decode, 1 sequence", "B:1 H:32 Tq:1 Tk:8192 D:128 Hkv:8"},
      {"Llama-3-8B, decode, 16 sequences", "B:16 H:32 Tq:1 Tk:4096 D:128 Hkv:8"},
      {"Llama-3-8B, decode, 16 sequences of 2176 to 4096 keys", "B:16 H:32 Tq:1 Tk:4096 D:128 Hkv:8 padded:1"},
  };
  return concat(
      {across(kFloatTypes, by_scale(scale, test, standard)),
       across(kF32AndBf16, by_scale(scale, {}, {}, {}, sweep("Tk", 256, 16384, "B:1 H:32 Tq:1 D:128 Hkv:8", 2)))});
}

}  // namespace duet
