// SPDX-License-Identifier: Apache-2.0
#include "models/mlp.h"

#include <cmath>

#include "models/served_weights.h"
#include "ops/elementwise/bias.h"
#include "ops/elementwise/quantise.h"
#include "ops/elementwise/relu.h"
#include "ops/gemm/gemm.h"
#include "ops/gemm/linear.h"
#include "ops/gemm/linear_int8.h"
#include "ops/loss/cross_entropy_fused.h"
#include "ops/reduction/all_reduce.h"
#include "ops/reduction/sum.h"

namespace duet {
namespace {

constexpr double kDrawnHidden = 3;  // hidden activations of weights as they are drawn

struct Parameters {
  Var w1, b1, w2, b2;  // of `units` hidden units: (units, 784), (units), (10, units), (10)
};

Parameters declare(Tape& tape, const Mlp& m, const std::string& prefix = "") {
  Parameters p;
  p.w1 = tape.parameter(prefix + "fc1.weight", {m.units(), Mlp::kIn}, default_init(Mlp::kIn), m.dtype);
  p.b1 = tape.parameter(prefix + "fc1.bias", {m.units()}, default_init(Mlp::kIn), m.dtype);
  p.w2 = tape.parameter(prefix + "fc2.weight", {Mlp::kOut, m.units()}, default_init(Mlp::kHidden), m.dtype);
  // Each part has a copy of this bias. They begin alike, at 0: each tensor is drawn apart.
  p.b2 = tape.parameter(prefix + "fc2.bias", {Mlp::kOut}, m.parts > 1 ? Fill::constant(0) : default_init(Mlp::kHidden),
                        m.dtype);
  return p;
}

Linear hidden(const Mlp& m) {
  return {.n = m.batch, .in = m.kIn, .out = m.units(), .act = Act::relu, .dtype = m.dtype};
}
Linear head(const Mlp& m) { return {.n = m.batch, .in = m.kHidden, .out = m.kOut, .dtype = m.dtype}; }
Var pixels(Tape& tape, const Mlp& m) { return tape.input("x", m.dtype, {m.batch, m.kIn}, Fill::uniform(0, 1)); }

// The gradients of the head, from its input h (batch, units); returns that of h.
Var head_backward(Tape& tape, const Mlp& m, const Parameters& p, Var h, Var logits, Var dlogits) {
  return tape.add(LinearBackward{.n = m.batch, .in = m.units(), .out = m.kOut, .dtype = m.dtype},
                  {h, p.w2, logits, dlogits},
                  {{LinearBackward::dw, tape.gradient(p.w2)}, {LinearBackward::dbias, tape.gradient(p.b2)}});
}

// The gradients of the first layer. x needs none, and linear_backward would spend a third product on it.
// dy: (batch, units), of the layer's output y after relu.
void hidden_backward(Tape& tape, const Mlp& m, const Parameters& p, Var x, Var y, Var dy) {
  const Var dz =
      tape.add(ReluBackward{.n = m.batch * m.units(), .dtype = m.dtype}, {y, dy});  // y > 0 where relu let through
  tape.add(Gemm{.m = m.units(), .n = m.kIn, .k = m.batch, .trans_a = true, .dtype = m.dtype}, {dz, x},
           {{Gemm::c, tape.gradient(p.w1)}});
  tape.add(Sum{.rows = m.batch, .cols = m.units(), .dtype = m.dtype, .axis = 0}, {dz}, {{Sum::y, tape.gradient(p.b1)}});
}

// A part of the network whose hidden units are split. Parts share x and label, which each device would have a copy of.
struct Part {
  Parameters p;
  Var h, logits;  // its hidden activations; the sum of all parts' logits, as it received it
};

std::vector<Part> declare_parts(Tape& tape, const Mlp& m) {
  std::vector<Part> parts;
  for (int64_t i = 0; i < m.parts; ++i) parts.push_back({declare(tape, m, "part" + std::to_string(i) + "."), {}, {}});
  return parts;
}

void forward(Tape& tape, const Mlp& m, std::vector<Part>& parts, Var x) {
  const int64_t n = m.batch * m.kOut;
  const auto of_part = [&](Var all, size_t i) {
    return tape.slice(all, static_cast<int64_t>(i) * n, {m.batch, m.kOut});
  };
  const Var shares = tape.pieces("logits of the parts", m.dtype, {m.parts, n});
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].h = tape.add(hidden(m), {x, parts[i].p.w1, parts[i].p.b1});
    tape.add(Gemm{.m = m.batch, .n = m.kOut, .k = m.units(), .trans_b = true, .dtype = m.dtype},
             {parts[i].h, parts[i].p.w2}, {{Gemm::c, of_part(shares, i)}});
  }
  const Var sums = tape.add(AllReduce{.replicas = m.parts, .n = n, .dtype = m.dtype}, {shares});
  for (size_t i = 0; i < parts.size(); ++i)
    parts[i].logits =
        tape.add(Bias{.outer = m.batch, .c = m.kOut, .dtype = m.dtype}, {of_part(sums, i), parts[i].p.b2});
}

// All but the optimiser.
void train_parts(Tape& tape, const Mlp& m, Var x, Var label) {
  std::vector<Part> parts = declare_parts(tape, m);
  tape.phase("forward");
  forward(tape, m, parts, x);

  tape.phase("loss");
  std::vector<Outputs> losses;
  for (const Part& part : parts)
    losses.push_back(
        tape.add(CrossEntropyFused{.rows = m.batch, .cols = m.kOut, .dtype = m.dtype}, {part.logits, label}));
  tape.output("logits", parts[0].logits);
  tape.output("loss", losses[0][CrossEntropyFused::loss]);

  tape.phase("backward");
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [p, h, logits] = parts[i];
    hidden_backward(tape, m, p, x, h, head_backward(tape, m, p, h, logits, losses[i][CrossEntropyFused::dx]));
  }
}

void train_whole(Tape& tape, const Mlp& m, Var x, Var label) {
  const Parameters p = declare(tape, m);
  DropoutLayer dropout(tape, "dropout", m.batch * m.kHidden, m.dropout, m.dtype);
  CrossEntropyLoss loss(tape, m.batch, m.kOut, m.dtype, {.mixed = m.mixed});

  tape.phase("forward");
  const Var h = tape.add(hidden(m), {x, p.w1, p.b1});
  const Var dropped = dropout.forward(h);
  const Var logits = tape.add(head(m), {dropped, p.w2, p.b2});
  loss.forward(logits, label);

  tape.phase("backward");
  const Var dlogits = loss.backward();
  hidden_backward(tape, m, p, x, h, dropout.backward(head_backward(tape, m, p, dropped, logits, dlogits)));
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
  if (!(dropout >= 0 && dropout < 1)) return "dropout " + std::to_string(dropout) + ": 0 to below 1 is allowed";
  if (int8 && dtype != DType::f32) return std::string("dtype ") + name_of(dtype) + ": with int8 f32 is allowed";
  if (parts == 1) return "";
  const std::string split = "parts " + std::to_string(parts);
  if (parts != 2 && parts != 4 && parts != 8) return split + ": 1, 2, 4 or 8 is allowed";
  if (int8 || mixed) return split + ": int8 and mixed precision allow parts 1 only";
  if (dropout != 0)
    return split + ": dropout above 0 allows parts 1 only, because parts would drop other units than the whole network";
  if (batch % 4 != 0)
    return split + ": the batch has to be a multiple of 4, so that each part's logits begin at a multiple of 16 bytes";
  return "";
}

void Mlp::train(Tape& tape) const {
  if (int8) throw Error("int8: only an inference has weights of 8 bits; a training step has them in dtype");
  const Var x = pixels(tape, *this), label = tape.input("label", DType::i32, {batch}, Fill::below(kOut));
  parts > 1 ? train_parts(tape, *this, x, label) : train_whole(tape, *this, x, label);
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
  if (parts > 1) {
    std::vector<Part> split = declare_parts(tape, *this);
    tape.phase("forward");
    forward(tape, *this, split, x);
    return tape.output("logits", split[0].logits);
  }
  const Parameters p = declare(tape, *this);
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
