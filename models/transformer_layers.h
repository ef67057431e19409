// SPDX-License-Identifier: Apache-2.0
// The layers of Transformers, in the form of models/layers.h: normalisation of tokens, attention, feed-forward.
// Rows are tokens: (B T, C). models/gpt2.cpp and models/transformer_small.cpp use them.
#pragma once
#include <optional>
#include <string>

#include "models/layers.h"
#include "ops/attention/attention.h"
#include "ops/norm/layernorm.h"

namespace duet {

// Parameters <name>.weight, <name>.bias (cols).
class NormLayer {
 public:
  NormLayer(Tape& tape, const std::string& name, int64_t rows, int64_t cols, DType dtype);
  Var forward(Var x);
  Var backward(Var dy);

 private:
  Tape* tape_;
  LayerNorm shape_;
  Var gamma_, beta_, x_, mean_, rstd_;
};

// Multi-head attention with its projections. Self-attention projects x to packed queries, keys and values;
// cross-attention takes keys and values of `memory`. Parameters <name>.qkv (self) or <name>.q and <name>.kv,
// <name>.out.
class AttentionLayer {
 public:
  struct Options {
    int64_t batch, tokens,
        memory_tokens;  // tokens: of x; memory_tokens: of `memory`, equal to tokens in self-attention
    int64_t width, heads;
    bool causal = false, cross = false;
    DType dtype = DType::f32;
  };
  AttentionLayer(Tape& tape, const std::string& name, const Options& options);
  Var forward(Var x, Var memory = {});
  struct Gradients {
    Var dx, dmemory;  // dmemory: in cross-attention only
  };
  Gradients backward(Var dy);

 private:
  Tape* tape_;
  Options options_;
  Attention attention_;
  std::optional<LinearLayer> packed_, q_, kv_;
  LinearLayer out_;
  Var queries_, keys_, values_, y_, lse_;
};

// w2 act(w1 x + b1) + b2. Parameters <name>.fc1, <name>.fc2.
enum class Hidden : uint8_t { relu, gelu };
class FeedForward {
 public:
  FeedForward(Tape& tape, const std::string& name, int64_t rows, int64_t width, int64_t inner, Hidden hidden,
              DType dtype);
  Var forward(Var x);
  Var backward(Var dy);

 private:
  Tape* tape_;
  int64_t elements_;
  Hidden hidden_;
  DType dtype_;
  LinearLayer first_, second_;
  Var before_;
};

// Why packed projections cannot be sliced, or "": slices must begin at multiples of 16 bytes, a kernel's widest access.
std::string invalid_packing(int64_t batch, int64_t tokens, int64_t width, DType dtype);

Var add_tensors(Tape& tape, Var a, Var b, int64_t n, DType dtype);

}  // namespace duet
