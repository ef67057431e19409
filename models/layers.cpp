// SPDX-License-Identifier: Apache-2.0
#include "models/layers.h"

#include <cmath>

#include "ops/conv/conv2d_backward.h"
#include "ops/elementwise/bias.h"
#include "ops/elementwise/relu.h"
#include "ops/elementwise/scale_update.h"
#include "ops/elementwise/unscale.h"
#include "ops/gemm/gemm.h"
#include "ops/loss/bce_logits.h"
#include "ops/loss/cross_entropy.h"
#include "ops/optimiser/adam.h"
#include "ops/optimiser/clip_grad_norm.h"
#include "ops/optimiser/mixed.h"
#include "ops/optimiser/sgd.h"
#include "ops/reduction/norm2.h"
#include "ops/statistic.h"

namespace duet {

Fill default_init(int64_t terms) {
  const double reach = 1 / std::sqrt(static_cast<double>(terms));
  return Fill::uniform(-reach, reach);
}

std::string invalid_model(int64_t batch, DType dtype) {
  if (!is_float(dtype)) return std::string("dtype ") + name_of(dtype) + ": allowed are f64, f32, bf16, f16";
  return batch >= 1 && batch <= 1 << 20 ? "" : "batch " + std::to_string(batch) + ": 1 to 1048576 are allowed";
}

// --- linear ----------------------------------------------------------------------------------------------------------

LinearLayer::LinearLayer(Tape& tape, const std::string& name, const Linear& shape) : tape_(&tape), shape_(shape) {
  w_ = tape.parameter(name + ".weight", {shape.out, shape.in}, default_init(shape.in), shape.dtype);
  bias_ = tape.parameter(name + ".bias", {shape.out}, default_init(shape.in), shape.dtype);
}

Var LinearLayer::forward(Var x) {
  x_ = x;
  return y_ = tape_->add(shape_, {x, w_, bias_});
}

Var LinearLayer::backward(Var dy) {
  const LinearBackward problem{
      .n = shape_.n, .in = shape_.in, .out = shape_.out, .act = shape_.act, .dtype = shape_.dtype};
  return tape_->add(problem, {x_, w_, y_, dy},
                    {{LinearBackward::dw, tape_->gradient(w_)}, {LinearBackward::dbias, tape_->gradient(bias_)}});
}

void LinearLayer::backward_parameters(Var dy) {  // without the product for dx
  const BiasBackward sum{.outer = shape_.n, .c = shape_.out, .act = shape_.act, .dtype = shape_.dtype};
  const std::pair<Slot, Var> dbias{BiasBackward::dbias, tape_->gradient(bias_)};
  if (shape_.act == Act::none)
    tape_->add(sum, {dy}, {dbias});
  else
    dy = tape_->add(sum, {dy, y_}, {dbias})[BiasBackward::dx];
  tape_->add(Gemm{.m = shape_.out, .n = shape_.in, .k = shape_.n, .trans_a = true, .dtype = shape_.dtype}, {dy, x_},
             {{Gemm::c, tape_->gradient(w_)}});
}

// --- convolution -----------------------------------------------------------------------------------------------------

ConvLayer::ConvLayer(Tape& tape, const std::string& name, const Conv2d& shape) : tape_(&tape), shape_(shape) {
  const int64_t terms = shape.group_c() * shape.r * shape.s;
  w_ = tape.parameter(name + ".weight", shape.tensors()[Conv2d::filter.index].shape, default_init(terms), shape.dtype);
  bias_ = tape.parameter(name + ".bias", {shape.k}, default_init(terms), shape.dtype);
}

Var ConvLayer::forward(Var x) {
  x_ = x;
  y_ = tape_->add(shape_, {x, w_});
  tape_->add(Bias{.outer = shape_.n,
                  .c = shape_.k,
                  .inner = shape_.ho() * shape_.wo(),
                  .act = Act::relu,
                  .dtype = shape_.dtype},
             {y_, bias_}, {{Bias::y, y_}});
  return y_;
}

Var ConvLayer::before_relu(Var dy) {
  tape_->add(BiasBackward{.outer = shape_.n,
                          .c = shape_.k,
                          .inner = shape_.ho() * shape_.wo(),
                          .act = Act::relu,
                          .dtype = shape_.dtype},
             {dy, y_}, {{BiasBackward::dbias, tape_->gradient(bias_)}, {BiasBackward::dx, dy}});
  tape_->add(Conv2dBackwardFilter{shape_}, {x_, dy}, {{Conv2dBackwardFilter::dw, tape_->gradient(w_)}});
  return dy;
}

void ConvLayer::backward_parameters(Var dy) { before_relu(dy); }
Var ConvLayer::backward(Var dy) { return tape_->add(Conv2dBackwardData{shape_}, {w_, before_relu(dy)}); }

// --- pooling ---------------------------------------------------------------------------------------------------------

MaxPoolLayer::MaxPoolLayer(Tape& tape, const Conv2d& of) : tape_(&tape) {
  shape_.n = of.n;
  shape_.c = of.k;
  shape_.h = of.ho();
  shape_.w = of.wo();
  shape_.dtype = of.dtype;
  shape_.r = shape_.s = shape_.stride_h = shape_.stride_w = 2;
}

Var MaxPoolLayer::forward(Var x) {
  const Outputs pooled = tape_->add(shape_, {x});
  index_ = pooled[MaxPool2d::index];
  return pooled;
}

Var MaxPoolLayer::evaluate(Var x) {
  MaxPool2d shape = shape_;
  shape.indexed = false;
  return tape_->add(shape, {x});
}

Var MaxPoolLayer::backward(Var dy) { return tape_->add(MaxPool2dBackward{shape_}, {index_, dy}); }

// --- loss and optimisers ---------------------------------------------------------------------------------------------

namespace {
constexpr double kInitialLossScale = 65536;
}  // namespace

bool scales_loss(DType dtype, bool mixed) { return mixed && dtype == DType::f16; }

void CrossEntropyLoss::forward(Var logits, Var label) {
  tape_->phase("loss");
  const Outputs loss = tape_->add(CrossEntropy{.rows = rows_, .cols = cols_, .dtype = dtype_}, {logits, label});
  logits_ = logits;
  label_ = label;
  lse_ = loss[CrossEntropy::lse];
  tape_->output("logits", logits);
  tape_->output("loss", loss[CrossEntropy::loss]);
}

Var CrossEntropyLoss::backward() {
  const CrossEntropyBackward problem{.rows = rows_, .cols = cols_, .dtype = dtype_, .scaled = scaled_};
  if (!scaled_) return tape_->add(problem, {logits_, label_, lse_});
  return tape_->add(problem, {logits_, label_, lse_, tape_->state(kLossScale, {1}, kInitialLossScale)});
}

void BinaryLoss::forward(Var logits, Var target) {
  tape_->phase("loss");
  logits_ = logits;
  target_ = target;
  tape_->output("logits", logits);
  tape_->output("loss", tape_->add(BceLogits{.n = rows_, .dtype = dtype_}, {logits, target}));
}

Var BinaryLoss::backward() { return tape_->add(BceLogitsBackward{.n = rows_, .dtype = dtype_}, {logits_, target_}); }

// --- optimisers ------------------------------------------------------------------------------------------------------

std::string invalid_mixed(bool mixed, DType dtype) {
  const bool half = dtype == DType::bf16 || dtype == DType::f16;
  return !mixed || half ? "" : std::string("mixed: master parameters go with bf16 or f16, not ") + name_of(dtype);
}

namespace {

// The gradients as an optimiser takes them. bad: whether to leave the step out; with mixed only.
struct Gradients {
  Var g, bad;
};
Gradients ready_gradients(Tape& tape, DType dtype, bool mixed, double max_norm) {
  const int64_t n = tape.parameter_count();
  Gradients ready{tape.gradients(), {}};
  if (scales_loss(dtype, mixed)) {
    const Outputs unscaled = tape.add(Unscale{.n = n, .dtype = dtype}, {ready.g, tape.find(kLossScale)});
    ready = {unscaled[Unscale::y], unscaled[Unscale::bad]};
  } else if (mixed) {
    ready.bad = tape.constant("good", {1}, 0, DType::i32);  // never set: no step is bad
  }
  if (max_norm > 0) {
    const DType type = mixed::gradient_dtype(dtype, mixed);
    const Var norm = tape.add(Norm2{.n = n, .dtype = type}, {ready.g});
    tape.add(ClipGradNorm{.n = n, .dtype = type, .max_norm = max_norm}, {norm, ready.g});
  }
  return ready;
}
void adapt_scale(Tape& tape, DType dtype, bool mixed, Var bad) {
  if (!scales_loss(dtype, mixed)) return;
  tape.add(ScaleUpdate{}, {bad, tape.find(kLossScale), tape.state("good_steps", {1}, 0, DType::i32)});
}

template <class Rule>
void add_adam(Tape& tape, DType dtype, const AdamOptions& rule) {
  const int64_t n = tape.parameter_count();
  const DType state = mixed::state_dtype(dtype, rule.mixed);
  const Var lr = tape.state("lr", {1}, rule.learning_rate, statistic_dtype(dtype)),
            step = tape.state("step", {1}, 0, DType::i32);
  const Var m = tape.state("m", {n}, 0, state), v = tape.state("v", {n}, 0, state);
  const Rule adam{.n = n,
                  .dtype = dtype,
                  .beta1 = rule.beta1,
                  .beta2 = rule.beta2,
                  .eps = rule.eps,
                  .weight_decay = rule.weight_decay,
                  .mixed = rule.mixed};
  tape.phase("optimiser");
  const Gradients ready = ready_gradients(tape, dtype, rule.mixed, rule.max_norm);
  if (rule.mixed)
    tape.add(adam, {ready.g, lr, step, tape.parameters(), m, v, ready.bad, tape.master()});
  else
    tape.add(adam, {ready.g, lr, step, tape.parameters(), m, v});
  adapt_scale(tape, dtype, rule.mixed, ready.bad);
}

}  // namespace

void add_optimiser(Tape& tape, DType dtype, const SgdOptions& rule) {
  const int64_t n = tape.parameter_count();
  const Var lr = tape.state("lr", {1}, rule.learning_rate, statistic_dtype(dtype));
  const Var velocity = tape.state("velocity", {n}, 0, mixed::state_dtype(dtype, rule.mixed));
  const Sgd sgd{
      .n = n, .dtype = dtype, .momentum = rule.momentum, .weight_decay = rule.weight_decay, .mixed = rule.mixed};
  tape.phase("optimiser");
  const Gradients ready = ready_gradients(tape, dtype, rule.mixed, 0);
  if (rule.mixed)
    tape.add(sgd, {ready.g, lr, tape.parameters(), velocity, ready.bad, tape.master()});
  else
    tape.add(sgd, {ready.g, lr, tape.parameters(), velocity});
  adapt_scale(tape, dtype, rule.mixed, ready.bad);
}

void add_optimiser(Tape& tape, DType dtype, const AdamOptions& rule) {
  rule.decoupled ? add_adam<AdamW>(tape, dtype, rule) : add_adam<Adam>(tape, dtype, rule);
}

}  // namespace duet
