// SPDX-License-Identifier: Apache-2.0
// Sentiment of a review, as in Keras' example for IMDb: tokens of a vocabulary of 10000 as 16 numbers each, an LSTM of 32
// units in either direction, their last states side by side to one logit; binary cross-entropy, Adam.
// LSTM biases: one, not two as in PyTorch. Graves and Schmidhuber, Framewise phoneme classification, 2005.
#pragma once
#include "models/model.h"

namespace duet {

struct BiLstm {
  static constexpr const char* name = "bilstm";
  static constexpr int64_t kWords = 10000, kFeatures = 16, kUnits = 32;
  static constexpr double kRate = 1e-3;

  int64_t batch = 512, T = 256;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "sequences of a step");
    field.option("T", T, "tokens of a sequence");
  }
  std::string invalid() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;

  static std::vector<Case<BiLstm>> cases(Scale scale) {
    if (scale == Scale::test) return {{"few and short", {3, 5}}};
    return {{"one review", {1}},
            {"a vector of reviews", {8}},
            {"between them, for the break-even", {64}},
            {"the usual batch", {512}}};
  }
};

}  // namespace duet
