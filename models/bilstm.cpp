// SPDX-License-Identifier: Apache-2.0
// Sentiment of a review, as in Keras' example for IMDb: tokens of a vocabulary of 10000 embedded in 16 numbers each, an
// LSTM of 32 units in either direction, their last states concatenated and mapped to one logit; binary cross-entropy,
// Adam. The LSTM has one bias, not two as in PyTorch. Graves and Schmidhuber, Framewise phoneme classification, 2005.
#include "models/layers.h"
#include "models/model.h"
#include "ops/embedding/embedding.h"
#include "ops/memory/permute.h"
#include "ops/recurrent/recurrent.h"

namespace duet {

struct BiLstm {
  static constexpr const char* name = "bilstm";
  static constexpr int64_t kWords = 10000, kFeatures = 16, kUnits = 32;
  static constexpr double kLearningRate = 1e-3;

  int64_t batch = 512, T = 256;
  DType dtype = DType::f32;
  bool mixed = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "sequences of a step");
    field.option("T", T, "tokens of a sequence");
    field.option("mixed", mixed, kMixed);
  }
  std::string invalid() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;

  static Cases cases(Scale scale) {
    const Cases test{
        {"few and short", "batch:3 T:5"},
    };
    const Cases standard{
        {"one review", "batch:1"},
        {"a vector of reviews", "batch:8"},
        {"between them, for the break-even", "batch:64"},
        {"the usual batch", "batch:512"},
        {"the usual batch, mixed precision", "bf16 batch:512 mixed:1"},
        {"the usual batch, mixed precision with loss scaling", "f16 batch:512 mixed:1"},
    };
    return by_scale(scale, test, standard, {}, sweep("batch", 1, 512, "", 2));
  }
};

namespace {

// Shapes: x (B, T) tokens, embedded (B, T, 16), the LSTM's input (T, B, 16) and last states (2, B, 32), head's input
// (B, 64).
struct Layers {
  const BiLstm& m;
  Tape& tape;
  const int64_t B = m.batch, T = m.T;
  const Embedding embedding{.B = B, .T = T, .V = m.kWords, .C = m.kFeatures, .dtype = m.dtype, .position = false};
  // A permutation of rows: from sequences first to steps first, or from directions first to sequences first.
  const Permute to_steps{.B = 1, .T = B, .H = T, .D = m.kFeatures, .dtype = m.dtype};
  const Permute to_rows{.B = 1, .T = 2, .H = B, .D = m.kUnits, .dtype = m.dtype};
  const Var table = tape.parameter("embedding.weight", {m.kWords, m.kFeatures}, Fill::normal(0, 1), m.dtype);
  const Var w = tape.parameter("lstm.weight", {2 * 4 * m.kUnits, m.kFeatures}, default_init(m.kUnits), m.dtype);
  const Var r = tape.parameter("lstm.recurrent", {2 * 4 * m.kUnits, m.kUnits}, default_init(m.kUnits), m.dtype);
  const Var bias = tape.parameter("lstm.bias", {2 * 4 * m.kUnits}, default_init(m.kUnits), m.dtype);
  LinearLayer head{tape, "fc", {.n = B, .in = 2 * m.kUnits, .out = 1, .dtype = m.dtype}};
  const Var none = tape.constant("no state", {2, B, m.kUnits}, 0, m.dtype);  // h and c before the first step

  Lstm lstm(bool inference) const {
    Lstm p;
    p.inference = inference;
    p.T = T;
    p.B = B;
    p.I = m.kFeatures;
    p.H = m.kUnits;
    p.bidirectional = true;
    p.dtype = m.dtype;
    return p;
  }
  LstmBackward lstm_backward() const {
    LstmBackward p;
    p.T = T;
    p.B = B;
    p.I = m.kFeatures;
    p.H = m.kUnits;
    p.bidirectional = true;
    p.dtype = m.dtype;
    p.last_only = true;  // the head reads the last states only
    return p;
  }

  Var steps = {}, y = {}, reserve = {};
  Outputs run(Var token, bool inference) {
    steps = tape.add(to_steps, {tape.add(embedding, {token, table})});
    return tape.add(lstm(inference), {steps, w, r, bias, none, none});
  }
  Var forward(Var token) {
    const Outputs out = run(token, false);
    y = out[Lstm::y];
    reserve = out[Lstm::reserve];
    return head.forward(tape.add(to_rows, {out[Lstm::hT]}));
  }
  Var evaluate(Var token) {  // keeps nothing for a backward pass
    return head.forward(tape.add(to_rows, {run(token, true)[Lstm::hT]}));
  }

  void backward(Var token, Var dlogits) {
    Permute to_directions = to_rows, to_sequences = to_steps;
    to_directions.inverse = to_sequences.inverse = true;
    const Var nothing = tape.constant("no gradient", lstm_backward().dy_shape(), 0, m.dtype);
    const Var dlast = tape.add(to_directions, {head.backward(dlogits)});
    const Outputs d = tape.add(lstm_backward(), {steps, w, r, none, none, y, reserve, nothing, dlast, none},
                               {{LstmBackward::dw, tape.gradient(w)},
                                {LstmBackward::dr, tape.gradient(r)},
                                {LstmBackward::dbias, tape.gradient(bias)}});
    const EmbeddingBackward scatter{
        .B = B, .T = T, .V = m.kWords, .C = m.kFeatures, .dtype = m.dtype, .position = false};
    tape.add(scatter, {token, tape.add(to_sequences, {d[LstmBackward::dx]})},
             {{EmbeddingBackward::dtable, tape.gradient(table)}});
  }
};

Var tokens(Tape& tape, const BiLstm& m) {
  return tape.input("x", DType::i32, {m.batch, m.T}, Fill::below(BiLstm::kWords));
}

}  // namespace

std::string BiLstm::invalid() const {
  if (T < 1 || T > 1 << 16) return "T " + std::to_string(T) + ": 1 to 65536 are allowed";
  return invalid_model(batch, dtype) + invalid_mixed(mixed, dtype);
}

void BiLstm::train(Tape& tape) const {
  const Var token = tokens(tape, *this), target = tape.input("label", dtype, {batch, 1}, Fill::below(2));
  Layers net{*this, tape};
  BinaryLoss loss(tape, batch, dtype, mixed);

  tape.phase("forward");
  loss.forward(net.forward(token), target);

  tape.phase("backward");
  net.backward(token, loss.backward());

  add_optimiser(tape, dtype, AdamOptions{.learning_rate = kLearningRate, .mixed = mixed});
}

void BiLstm::evaluate(Tape& tape) const {
  const Var token = tokens(tape, *this);
  Layers net{*this, tape};
  tape.phase("forward");
  tape.output("logits", net.evaluate(token));
}

DUET_MODEL(BiLstm);

}  // namespace duet
