// SPDX-License-Identifier: Apache-2.0
// Appends the keys and values of new tokens to those of the tokens before them, which attention reads (a KV cache).
//   x: (split, B, H, T, D), the heads of T new tokens of each sequence; position: (B) i32, where the first of them
//   belongs; cache: (split, B, H, C, D), in place; row-major, dense, disjoint. split: 2 where keys and values lie one
//   behind the other, as permute leaves them.
//   Token t of sequence b becomes row position[b] + t of each of its heads. A row outside [0, C) is not written.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "core/problem.h"

namespace duet {

struct CacheAppend {
  static constexpr const char* name = "cache_append";
  static constexpr const char* formula =
      "cache[s,b,h,position[b]+t,d] = x[s,b,h,t,d] where position[b] + t lies in [0, C)";
  static constexpr Slot x = input(0, "x"), position = input(1, "position"), cache = inout(2, "cache");
  static constexpr bool exact_on_integers = true;

  int64_t B = 0, H = 0, T = 0, D = 0, C = 0;
  int64_t split = 1;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and cache");
    field("B", B, "sequences");
    field("H", H, "heads of each");
    field("T", T, "new tokens of each sequence");
    field("D", D, "elements of a head");
    field("C", C, "tokens of a sequence for which the cache has room");
    field.option("split", split, "caches one behind the other: 2 for keys and values");
  }
  void infer(Shapes s) {
    split = s[x][0];
    B = s[x][1];
    H = s[x][2];
    T = s[x][3];
    D = s[x][4];
    C = s[cache][3];
  }
  std::string invalid() const { return split >= 1 ? "" : "split: 1 or more, is " + std::to_string(split); }
  int64_t heads() const { return split * B * H; }
  std::vector<TensorSpec> tensors() const {
    // What is written is not read before: half of the traffic of an inout tensor.
    const int64_t written = heads() * std::min(T, C) * D;
    // Positions are drawn where all tokens have room.
    return {x.of(dtype, {split, B, H, T, D}),
            position.of(DType::i32, {B}, Fill::below(std::max<int64_t>(1, C - T + 1))),
            cache.of(dtype, {split, B, H, C, D}).touching(ceil_div(written, 2))};
  }
  double flops() const { return 0; }
  Tolerance tolerance() const { return {}; }  // elements move bit for bit
  // A token of a head of x; after the tokens, a row of the cache, of which those that stay are claimed. So that samples
  // meet both: a cache has many rows, and few are written.
  int64_t slices() const { return heads() * T + heads() * C; }
  std::vector<int64_t> parts() const { return {heads() * T, heads() * C}; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/memory/cache_append.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one element", "B:1 H:1 T:1 D:1 C:1"},
        {"no sequence", "B:0 H:2 T:3 D:5 C:7"},
        {"no head", "B:2 H:0 T:3 D:5 C:7"},
        {"no token: the cache stays", "B:2 H:3 T:0 D:5 C:7"},
        {"heads of nothing", "B:2 H:3 T:3 D:0 C:7"},
        {"no room", "B:2 H:3 T:3 D:5 C:0"},
        {"nothing alike, and rows beyond the end", "B:3 H:2 T:5 D:7 C:11 split:2 position=8"},
        {"one token of each sequence", "B:5 H:3 T:1 D:33 C:9 split:2"},
        {"one token of each sequence, whole packs", "B:5 H:3 T:1 D:64 C:17 split:2"},
        {"more tokens than there is room", "B:2 H:2 T:9 D:16 C:5"},
        {"a prompt", "B:1 H:3 T:1031 D:8 C:1050 split:2 position=0"},
        {"a prompt, no packs", "B:1 H:3 T:1031 D:3 C:1050 position=19"},
        {"from before the beginning", "B:2 H:3 T:5 D:8 C:7 position=-2"},
        {"before the beginning: the cache stays", "B:2 H:3 T:5 D:8 C:7 position=-5"},
        {"behind the end: the cache stays", "B:2 H:3 T:5 D:8 C:7 position=7"},
        {"positions at both ends of i32", "B:2 H:1 T:5 D:8 C:7 position=2147483647"},
        {"edge values, infinities and NaN", "B:2 H:3 T:9 D:33 C:31 x=edges+inf+nan"},
    };
    const Cases standard{
        {"GPT-2 124M, decode, 8 sequences", "B:8 H:12 T:1 D:64 C:1024 split:2"},
        {"GPT-2 124M, a prompt of 1024 tokens", "B:1 H:12 T:1024 D:64 C:1024 split:2"},
    };
    const Cases more{
        {"Llama-3-8B, decode, 16 sequences", "B:16 H:8 T:1 D:128 C:4096"},
    };
    return across(kFloatTypes, by_scale(scale, test, standard, more));
  }
};

}  // namespace duet
