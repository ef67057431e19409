// SPDX-License-Identifier: Apache-2.0
#include "models/mlp.h"

#include "ops/elementwise/dropout.h"
#include "ops/elementwise/relu.h"
#include "ops/gemm/gemm.h"
#include "ops/gemm/linear.h"
#include "ops/reduction/sum.h"

namespace duet {
namespace {

struct Parameters {
  Var w1, b1, w2, b2;  // (128, 784), (128), (10, 128), (10)
};

Parameters declare(Tape& tape, DType dtype) {
  Parameters p;
  p.w1 = tape.parameter("fc1.weight", {Mlp::kHidden, Mlp::kIn}, default_init(Mlp::kIn), dtype);
  p.b1 = tape.parameter("fc1.bias", {Mlp::kHidden}, default_init(Mlp::kIn), dtype);
  p.w2 = tape.parameter("fc2.weight", {Mlp::kOut, Mlp::kHidden}, default_init(Mlp::kHidden), dtype);
  p.b2 = tape.parameter("fc2.bias", {Mlp::kOut}, default_init(Mlp::kHidden), dtype);
  return p;
}

Linear hidden(const Mlp& m) {
  return {.n = m.batch, .in = m.kIn, .out = m.kHidden, .act = Act::relu, .dtype = m.dtype};
}
Linear head(const Mlp& m) { return {.n = m.batch, .in = m.kHidden, .out = m.kOut, .dtype = m.dtype}; }
Var pixels(Tape& tape, const Mlp& m) { return tape.input("x", m.dtype, {m.batch, m.kIn}, Fill::uniform(0, 1)); }

// The gradients of the first layer. x needs none, and linear_backward would spend a third product on it.
// dy: (batch, 128), of the layer's output y after relu.
void hidden_backward(Tape& tape, const Mlp& m, const Parameters& p, Var x, Var y, Var dy) {
  const Var dz =
      tape.add(ReluBackward{.n = m.batch * m.kHidden, .dtype = m.dtype}, {y, dy});  // y > 0 where relu let through
  tape.add(Gemm{.m = m.kHidden, .n = m.kIn, .k = m.batch, .trans_a = true, .dtype = m.dtype}, {dz, x},
           {{Gemm::c, tape.gradient(p.w1)}});
  tape.add(Sum{.rows = m.batch, .cols = m.kHidden, .dtype = m.dtype, .axis = 0}, {dz}, {{Sum::y, tape.gradient(p.b1)}});
}

}  // namespace

std::string Mlp::invalid() const { return invalid_model(batch, dtype) + invalid_mixed(mixed, dtype); }

void Mlp::train(Tape& tape) const {
  const Var x = pixels(tape, *this), label = tape.input("label", DType::i32, {batch}, Fill::below(kOut));
  const Parameters p = declare(tape, dtype);
  const Var offset = tape.counter("dropout.offset", batch * kHidden);
  CrossEntropyLoss loss(tape, batch, kOut, dtype, mixed);

  tape.phase("forward");
  const Var h = tape.add(hidden(*this), {x, p.w1, p.b1});
  const Outputs dropped = tape.add(Dropout{.n = batch * kHidden, .dtype = dtype, .p = kDropout}, {h, offset});
  const Var logits = tape.add(head(*this), {dropped, p.w2, p.b2});
  loss.forward(logits, label);

  tape.phase("backward");
  const Var dlogits = loss.backward();
  const Var ddropped =
      tape.add(LinearBackward{.n = batch, .in = kHidden, .out = kOut, .dtype = dtype}, {dropped, p.w2, logits, dlogits},
               {{LinearBackward::dw, tape.gradient(p.w2)}, {LinearBackward::dbias, tape.gradient(p.b2)}});
  const Var dh = tape.add(DropoutBackward{.n = batch * kHidden, .dtype = dtype, .p = kDropout},
                          {ddropped, dropped[Dropout::mask]});
  hidden_backward(tape, *this, p, x, h, dh);

  if (optimiser == OptimiserKind::adam)
    add_optimiser(tape, dtype, AdamOptions{.learning_rate = kAdamLearningRate, .mixed = mixed});
  else
    add_optimiser(tape, dtype, SgdOptions{.learning_rate = kLearningRate, .momentum = kMomentum, .mixed = mixed});
}

void Mlp::evaluate(Tape& tape) const {
  const Var x = pixels(tape, *this);
  const Parameters p = declare(tape, dtype);
  tape.phase("forward");
  const Var h = tape.add(hidden(*this), {x, p.w1, p.b1});
  tape.output("logits", tape.add(head(*this), {h, p.w2, p.b2}));
}

DUET_MODEL(Mlp);

}  // namespace duet
