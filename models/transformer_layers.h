// SPDX-License-Identifier: Apache-2.0
// The layers of Transformers, in the form of models/layers.h: normalisation of tokens, attention, feed-forward; and how
// language models are served. Rows are tokens: (B T, C). models/gpt2.cpp and models/transformer.cpp use them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/layers.h"
#include "ops/attention/attention_packed.h"
#include "ops/norm/layernorm.h"

namespace duet {

// A residual connection before the sum: x and what a layer made of it. The normalisation that follows adds them, in one
// op (ops/norm/add_layernorm.h, ops/norm/add_rmsnorm.h).
struct Branches {
  Var x;
  Var fx = {};  // absent: x alone
};
struct Normed {
  Var sum, y;  // y: the normalised sum
};

// Parameters <name>.weight, <name>.bias (cols).
class NormLayer {
 public:
  NormLayer(Tape& tape, const std::string& name, int64_t rows, int64_t cols, DType dtype);
  Normed forward(Branches in);
  Var backward(Var dy);

 private:
  Tape* tape_;
  LayerNorm shape_;
  Var gamma_, beta_, x_, mean_, rstd_;
};

// The part of a text that the evaluation of a language model computes: its attribute `phase`.
//   whole: every token, and the logits behind each of them, as in training.
//   prefill: the beginning of a text, `tokens` tokens, whose keys and values it leaves in caches; the logits behind the
//     token that `last` names, one row for each sequence.
//   decode: one more token of each sequence. Attention reads the caches, where its keys and values join the others.
// The caches have room for `context` tokens. They are states of the tape, so that Tape::copy_state_from takes them from
// one phase's tape to the other's.
enum class TextPhase : uint8_t { whole, prefill, decode };
inline std::vector<std::string> names_of(TextPhase) { return {"whole", "prefill", "decode"}; }
inline constexpr const char* kTextPhase = "of an inference: the whole text, its beginning (prefill) or its next token";
Cases text_phases();                                         // the phases that are served, for Model::served
std::string untrained_phase(TextPhase phase);                // why it is not trained; "" for whole
std::string invalid_phase(TextPhase phase, int64_t tokens);  // why decode has not one token; "" where it may

// What a phase reads: inputs of the tape.
struct TextInput {
  Var token;     // "x", (batch, tokens)
  Var position;  // (batch): where the first of these tokens belongs. decode: "position"; prefill: zeros
  Var lengths;   // decode: "lengths", (batch): tokens of each sequence, this one included
  Var last;      // prefill: "last", (batch): which of the batch tokens rows is the last of each sequence
};
TextInput text_input(Tape& tape, TextPhase phase, int64_t batch, int64_t tokens, int64_t vocabulary, int64_t context);
// h, (batch tokens, width), or of a prefill the sum of its rows `last`, (batch, width).
Branches rows_with_logits(Tape& tape, const TextInput& text, Branches h, int64_t batch, int64_t tokens, int64_t width,
                          DType dtype);

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
    int64_t cached = 0;  // tokens for which a cache has room, a state <name>.cache; 0: there is none
  };
  AttentionLayer(Tape& tape, const std::string& name, const Options& options);
  Var forward(Var x, Var memory = {});
  Var forward_cached(Var x, const TextInput& text);  // self-attention in the phases prefill and decode
  struct Gradients {
    Var dx, dmemory;  // dmemory: in cross-attention only
  };
  Gradients backward(Var dy);

 private:
  // Whether self-attention reads the projection as it is. Wider heads are served on a GPU by cuda.materialised alone,
  // which takes heads that lie apart.
  bool reads_packed() const { return !options_.cross && attention_.D <= 128; }
  PackedAttentionShape packed_shape() const;
  Var split_heads(Var rows, int64_t tokens, int64_t parts);
  Var project_packed(Var x);  // sets queries_, keys_ and values_; returns all three, one behind the other
  Var project_out(Var y);
  Tape* tape_;
  Options options_;
  Attention attention_;
  std::optional<LinearLayer> packed_, q_, kv_;
  LinearLayer out_;
  Var qkv_, y_, lse_;                    // qkv_: where it is read as it is
  Var queries_, keys_, values_, cache_;  // elsewhere, and behind a cache, heads are permuted
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
