// SPDX-License-Identifier: Apache-2.0
// A score of a sequence of measurements: two LSTMs of 128 units, one above the other, and one logit from the last state
// of the upper one; binary cross-entropy, Adam. 60 steps of 32 features. Each LSTM has one bias, not two as in PyTorch.
// Hochreiter and Schmidhuber, Long short-term memory, 1997.
#include "models/layers.h"
#include "models/model.h"
#include "ops/memory/permute.h"
#include "ops/recurrent/recurrent.h"

namespace duet {

struct LstmScorer {
  static constexpr const char* name = "lstm_scorer";
  static constexpr double kLearningRate = 1e-3;

  int64_t batch = 64, T = 60, features = 32, units = 128;
  DType dtype = DType::f32;
  bool mixed = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "sequences of a step");
    field.option("T", T, "steps of a sequence");
    field.option("features", features, "numbers of a step");
    field.option("units", units, "units of each LSTM");
    field.option("mixed", mixed, kMixed);
  }
  std::string invalid() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;

  static Cases cases(Scale scale) {
    const Cases test{
        {"few, short and narrow", "batch:3 T:5 features:7 units:12"},
    };
    const Cases standard{
        {"one sequence", "batch:1"},
        {"the usual batch", "batch:64"},
        {"large enough to fill a device?", "batch:512"},
        {"the usual batch, mixed precision", "bf16 batch:64 mixed:1"},
        {"the usual batch, mixed precision with loss scaling", "f16 batch:64 mixed:1"},
    };
    return by_scale(scale, test, standard, {}, sweep("batch", 1, 512, "", 2));
  }
};

namespace {

// One LSTM. Shapes: x (T, B, in), y (T, B, units), last state (1, B, units).
class LstmLayer {
 public:
  LstmLayer(Tape& tape, const std::string& name, const LstmScorer& m, int64_t in, Var no_state)
      : tape_(&tape), none_(no_state) {
    shape_.T = m.T;
    shape_.B = m.batch;
    shape_.I = in;
    shape_.H = m.units;
    shape_.dtype = m.dtype;
    w_ = tape.parameter(name + ".weight", {4 * m.units, in}, default_init(m.units), m.dtype);
    r_ = tape.parameter(name + ".recurrent", {4 * m.units, m.units}, default_init(m.units), m.dtype);
    bias_ = tape.parameter(name + ".bias", {4 * m.units}, default_init(m.units), m.dtype);
  }
  struct Result {
    Var y, last;
  };
  Result forward(Var x) {
    const Outputs out = run(x, false);
    x_ = x;
    y_ = out[Lstm::y];
    reserve_ = out[Lstm::reserve];
    return {y_, out[Lstm::hT]};
  }
  Result evaluate(Var x) {  // keeps nothing for a backward pass
    const Outputs out = run(x, true);
    return {out[Lstm::y], out[Lstm::hT]};
  }
  // Of the layer whose last state is read (last_only) or of the layer whose y is.
  Var backward(Var dy, Var dlast, bool last_only) {
    LstmBackward problem;
    static_cast<RecurrentShape&>(problem) = shape_;
    problem.last_only = last_only;
    const Outputs d = tape_->add(problem, {x_, w_, r_, none_, none_, y_, reserve_, dy, dlast, none_},
                                 {{LstmBackward::dw, tape_->gradient(w_)},
                                  {LstmBackward::dr, tape_->gradient(r_)},
                                  {LstmBackward::dbias, tape_->gradient(bias_)}});
    return d[LstmBackward::dx];
  }

 private:
  Outputs run(Var x, bool inference) {
    Lstm problem;
    static_cast<RecurrentShape&>(problem) = shape_;
    problem.inference = inference;
    return tape_->add(problem, {x, w_, r_, bias_, none_, none_});
  }
  Tape* tape_;
  RecurrentShape shape_;
  Var none_, w_, r_, bias_, x_, y_, reserve_;
};

struct Layers {
  const LstmScorer& m;
  Tape& tape;
  // A permutation of rows, from sequences first to steps first.
  const Permute to_steps{.B = 1, .T = m.batch, .H = m.T, .D = m.features, .dtype = m.dtype};
  const Var none = tape.constant("no state", {1, m.batch, m.units}, 0, m.dtype);  // h and c before the first step
  LstmLayer lower{tape, "lstm1", m, m.features, none}, upper{tape, "lstm2", m, m.units, none};
  LinearLayer head{tape, "fc", {.n = m.batch, .in = m.units, .out = 1, .dtype = m.dtype}};

  Var forward(Var x) { return head.forward(upper.forward(lower.forward(tape.add(to_steps, {x})).y).last); }
  Var evaluate(Var x) { return head.forward(upper.evaluate(lower.evaluate(tape.add(to_steps, {x})).y).last); }
  void backward(Var dlogits) {
    const Var nothing = tape.constant("no gradient", {0, m.batch, m.units}, 0, m.dtype);
    const Var dy = upper.backward(nothing, head.backward(dlogits), true);
    lower.backward(dy, none, false);
  }
};

Var measurements(Tape& tape, const LstmScorer& m) {
  return tape.input("x", m.dtype, {m.batch, m.T, m.features}, Fill::uniform(-1, 1));
}

}  // namespace

std::string LstmScorer::invalid() const {
  if (T < 1 || T > 1 << 16) return "T " + std::to_string(T) + ": 1 to 65536 are allowed";
  if (features < 1 || features > 1 << 16) return "features " + std::to_string(features) + ": 1 to 65536 are allowed";
  if (units < 1 || units > 1 << 14) return "units " + std::to_string(units) + ": 1 to 16384 are allowed";
  return invalid_model(batch, dtype) + invalid_mixed(mixed, dtype);
}

void LstmScorer::train(Tape& tape) const {
  const Var x = measurements(tape, *this), target = tape.input("label", dtype, {batch, 1}, Fill::below(2));
  Layers net{*this, tape};
  BinaryLoss loss(tape, batch, dtype, mixed);
  tape.phase("forward");
  loss.forward(net.forward(x), target);
  tape.phase("backward");
  net.backward(loss.backward());
  add_optimiser(tape, dtype, AdamOptions{.learning_rate = kLearningRate, .mixed = mixed});
}

void LstmScorer::evaluate(Tape& tape) const {
  const Var x = measurements(tape, *this);
  Layers net{*this, tape};
  tape.phase("forward");
  tape.output("logits", net.evaluate(x));
}

DUET_MODEL(LstmScorer);

}  // namespace duet
