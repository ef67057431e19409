// SPDX-License-Identifier: Apache-2.0
#include "models/mlp.h"

#include <cmath>

#include "models/served_weights.h"
#include "ops/elementwise/dropout.h"
#include "ops/elementwise/quantise.h"
#include "ops/elementwise/relu.h"
#include "ops/gemm/gemm.h"
#include "ops/gemm/linear.h"
#include "ops/gemm/linear_int8.h"
#include "ops/reduction/sum.h"

namespace duet {
namespace {

constexpr double kDrawnHidden = 3;  // hidden activations of weights as they are drawn

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

// A linear layer of 8-bit integers: x, in f32 from 0 on, is rounded to levels from 0 to 127, which is relu as well.
// reach: the largest x. States: <name>.input_scale, <name>.weight, <name>.scale; parameter <name>.bias.
Var layer_int8(Tape& tape, const std::string& name, Var x, int64_t n, int64_t in, int64_t out, double reach) {
  const double level = 1 / (127 * std::sqrt(static_cast<double>(in)));  // of weights as default_init draws them
  const Var scale_x = tape.state(name + ".input_scale", {1}, reach / 127),
            w = tape.state(name + ".weight", {out, in}, Fill::uniform(-127, 127), DType::i8),
            scale_w = tape.state(name + ".scale", {out}, level),
            bias = tape.parameter(name + ".bias", {out}, default_init(in)),
            zero = tape.constant(name + ".zero", {1}, 0, DType::i32);
  const Var levels = tape.add(Quantise{.outer = 1, .c = 1, .inner = n * in, .lo = 0}, {x, scale_x, zero});
  return tape.add(LinearInt8{.n = n, .in = in, .out = out}, {levels, w, scale_x, scale_w, bias});
}

}  // namespace

std::string Mlp::invalid() const {
  if (const std::string why = invalid_model(batch, dtype) + invalid_mixed(mixed, dtype); !why.empty()) return why;
  return int8 && dtype != DType::f32 ? std::string("dtype ") + name_of(dtype) + ": with int8 f32 is allowed" : "";
}

void Mlp::train(Tape& tape) const {
  if (int8) throw Error("int8: only an inference has weights of 8 bits; a training step has them in dtype");
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
  if (int8) {
    tape.phase("forward");
    const Var h = layer_int8(tape, "fc1", x, batch, kIn, kHidden, 1);
    tape.output("logits", layer_int8(tape, "fc2", h, batch, kHidden, kOut, kDrawnHidden));
    return;
  }
  const Parameters p = declare(tape, dtype);
  tape.phase("forward");
  const Var h = tape.add(hidden(*this), {x, p.w1, p.b1});
  tape.output("logits", tape.add(head(*this), {h, p.w2, p.b2}));
}

// Pixels lie in 0 to 1. So no hidden activation exceeds its bias and the positive weights of its row: with that as the
// largest level nothing is cut off, and no samples are needed to find it.
void Mlp::adapt(Checkpoint& checkpoint) const {
  if (!int8) return;
  const std::vector<double> w = values_of(checkpoint, "fc1.weight"), bias = values_of(checkpoint, "fc1.bias");
  double reach = 1e-6;
  for (size_t o = 0; o < bias.size(); ++o) {
    double sum = bias[o];
    for (size_t i = 0; i < w.size() / bias.size(); ++i) sum += std::max(0.0, w[o * (w.size() / bias.size()) + i]);
    reach = std::max(reach, sum);
  }
  for (const char* layer : {"fc1", "fc2"}) quantise_rows(checkpoint, layer);
  set_values(checkpoint, "fc1.input_scale", DType::f32, {1}, {1.0 / 127});
  set_values(checkpoint, "fc2.input_scale", DType::f32, {1}, {reach / 127});
}

DUET_MODEL(Mlp);

}  // namespace duet
