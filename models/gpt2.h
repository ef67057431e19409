// SPDX-License-Identifier: Apache-2.0
// GPT-2: tokens and positions embedded, pre-norm blocks of causal attention and a GELU feed-forward, a head that shares its
// weights with the token embedding; cross-entropy of the next token, gradients clipped to norm 1, AdamW. By default the
// 124M model of Radford et al., Language models are unsupervised multitask learners, 2019. No dropout.
#pragma once
#include "models/model.h"

namespace duet {

struct Gpt2 {
  static constexpr const char* name = "gpt2";
  static constexpr double kRate = 6e-4 / 100, kBeta1 = 0.9, kBeta2 = 0.95, kDecay = 0.1, kMaxNorm = 1;

  int64_t batch = 1, tokens = 256;
  int64_t layers = 12, width = 768, heads = 12, vocabulary = 50257, context = 1024;
  DType dtype = DType::f32;
  bool mixed = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "sequences of a step");
    field("tokens", tokens, "tokens of a sequence");
    field.option("layers", layers, "blocks");
    field.option("width", width, "elements of a token");
    field.option("heads", heads, "heads of attention");
    field.option("vocabulary", vocabulary, "different tokens");
    field.option("context", context, "positions with an embedding");
    field.option(
        "mixed", mixed,
        "master parameters and the optimiser's state in f32 beside parameters in dtype; in f16 the loss is scaled");
  }
  std::string invalid() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;

  static std::vector<Case<Gpt2>> cases(Scale scale) {
    if (scale == Scale::test) return {{"every layer, narrowed", {2, 7, 2, 24, 3, 31, 11}}};
    if (scale == Scale::standard) return {{"124M, one short sequence", {1, 256}}};
    return {{"124M, one short sequence", {1, 256}},
            {"124M, four full sequences", {4, 1024}},
            {"124M, four full sequences, mixed precision",
             {.batch = 4, .tokens = 1024, .dtype = DType::bf16, .mixed = true}},
            {"124M, four full sequences, mixed precision with loss scaling",
             {.batch = 4, .tokens = 1024, .dtype = DType::f16, .mixed = true}}};
  }
};

}  // namespace duet
