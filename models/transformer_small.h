// SPDX-License-Identifier: Apache-2.0
// The encoder-decoder Transformer of Vaswani et al., arXiv:1706.03762 (normalisation after each residual sum), narrowed:
// 3 + 3 layers, 256 wide, 4 heads, feed-forward 1024, 8000 tokens shared by source, target and head; learnt positions.
// Cross-entropy of the next target token, Adam, dropout 0.1.
#pragma once
#include "models/model.h"

namespace duet {

struct TransformerSmall {
  static constexpr const char* name = "transformer_small";
  static constexpr double kRate = 1e-5, kBeta1 = 0.9, kBeta2 = 0.98, kEpsilon = 1e-9;

  int64_t batch = 16, tokens = 64;
  int64_t layers = 3, width = 256, heads = 4, inner = 1024, vocabulary = 8000;
  double dropout = 0.1;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "pairs of sequences of a step");
    field("tokens", tokens, "tokens of a sequence, source and target alike");
    field.option("layers", layers, "layers of the encoder, and of the decoder");
    field.option("width", width, "elements of a token");
    field.option("heads", heads, "heads of attention");
    field.option("inner", inner, "elements between the two layers of a feed-forward");
    field.option("vocabulary", vocabulary, "different tokens");
    field.option("dropout", dropout, "probability that an element is dropped");
  }
  std::string invalid() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;

  static std::vector<Case<TransformerSmall>> cases(Scale scale) {
    if (scale == Scale::test) return {{"every layer, narrowed", {2, 8, 2, 24, 3, 40, 31}}};
    return {{"one pair of 64 tokens", {1}},
            {"between them, for the break-even", {2}},
            {"between them, for the break-even", {4}},
            {"16 pairs of 64 tokens", {16}},
            {"large enough to fill a device?", {64}}};
  }
};

}  // namespace duet
