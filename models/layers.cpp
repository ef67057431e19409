// SPDX-License-Identifier: Apache-2.0
#include "models/layers.h"

#include <cmath>
#include <functional>
#include <numeric>

#include "ops/conv/conv2d_backward.h"
#include "ops/conv/conv2d_bias.h"
#include "ops/elementwise/bias.h"
#include "ops/elementwise/fake_quantise.h"
#include "ops/elementwise/prune.h"
#include "ops/elementwise/relu.h"
#include "ops/elementwise/scale_update.h"
#include "ops/elementwise/unscale.h"
#include "ops/gemm/gelu_linear.h"
#include "ops/gemm/gemm.h"
#include "ops/loss/bce_logits.h"
#include "ops/loss/cross_entropy_fused.h"
#include "ops/loss/distill.h"
#include "ops/memory/fill.h"
#include "ops/memory/permute.h"
#include "ops/memory/transpose.h"
#include "ops/optimiser/adam.h"
#include "ops/optimiser/mixed.h"
#include "ops/optimiser/sgd.h"
#include "ops/reduction/norm2.h"
#include "ops/statistic.h"

namespace duet {

Fill default_init(int64_t terms) {
  const double reach = 1 / std::sqrt(static_cast<double>(terms));
  return Fill::uniform(-reach, reach);
}

std::string outside_range(const char* what, int64_t value, int64_t max) {
  return std::string(what) + " " + std::to_string(value) + ": 1 to " + std::to_string(max) + " are allowed";
}

std::string invalid_model(int64_t batch, DType dtype) {
  if (!is_float(dtype)) return std::string("dtype ") + name_of(dtype) + ": allowed are f64, f32, bf16, f16";
  return batch >= 1 && batch <= 1 << 20 ? "" : outside_range("batch", batch, 1 << 20);
}

// --- weights ---------------------------------------------------------------------------------------------------------

Weight::Weight(Tape& tape, const std::string& name, const Shape& shape, double reach, DType dtype, WeightForm form)
    : tape_(&tape), shape_(shape), dtype_(dtype), form_(form) {
  const Fill init = Fill::uniform(-reach, reach);
  w_ = form == WeightForm::frozen ? tape.state(name, shape, init, dtype) : tape.parameter(name, shape, init, dtype);
  if (form != WeightForm::quantised) return;
  scale_ = tape.constant(name + ".scale", {shape[0]}, reach / 127, statistic_dtype(dtype));
  zero_ = tape.constant(name + ".zero", {shape[0]}, 0, DType::i32);
}

namespace {
int64_t elements_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}
// Shape and levels of a quantised weight, with a scale for each row: levels are symmetric, -127 to 127.
template <class P>
P quantised(const Shape& shape, DType dtype) {
  return {.outer = 1, .c = shape[0], .inner = elements_of(shape) / shape[0], .lo = -127, .hi = 127, .dtype = dtype};
}
}  // namespace

Var Weight::forward() {
  if (form_ == WeightForm::quantised)
    return used_ = tape_->add(quantised<FakeQuantise>(shape_, dtype_), {w_, scale_, zero_});
  if (form_ != WeightForm::pruned) return used_ = w_;
  const Outputs kept = tape_->add(Prune{.n = elements_of(shape_), .dtype = dtype_}, {w_});
  mask_ = kept[Prune::mask];
  return used_ = kept[Prune::y];
}

Var Weight::current() const { return used_; }

Var Weight::gradient() {
  if (form_ == WeightForm::plain) return tape_->gradient(w_);
  return d_used_ = tape_->pieces("gradient of a weight as used", dtype_, shape_);
}

void Weight::finish_gradient() {
  if (form_ == WeightForm::quantised)
    tape_->add(quantised<FakeQuantiseBackward>(shape_, dtype_), {w_, scale_, zero_, d_used_},
               {{FakeQuantiseBackward::dx, tape_->gradient(w_)}});
  if (form_ == WeightForm::pruned)  // dropping with p = 0 leaves the factor 1: dx = dy mask
    tape_->add(DropoutBackward{.n = elements_of(shape_), .dtype = dtype_, .p = 0}, {d_used_, mask_},
               {{DropoutBackward::dx, tape_->gradient(w_)}});
}

// --- linear ----------------------------------------------------------------------------------------------------------

namespace {
double default_reach(int64_t terms) { return 1 / std::sqrt(static_cast<double>(terms)); }
Var bias_of(Tape& tape, const std::string& name, int64_t n, int64_t terms, DType dtype, WeightForm form) {
  return form == WeightForm::frozen ? tape.state(name, {n}, default_init(terms), dtype)
                                    : tape.parameter(name, {n}, default_init(terms), dtype);
}
}  // namespace

LinearLayer::LinearLayer(Tape& tape, const std::string& name, const Linear& shape, WeightForm form)
    : tape_(&tape),
      shape_(shape),
      w_(tape, name + ".weight", {shape.out, shape.in}, default_reach(shape.in), shape.dtype, form),
      bias_(bias_of(tape, name + ".bias", shape.out, shape.in, shape.dtype, form)) {}

Var LinearLayer::forward(Var x) {
  x_ = x;
  return y_ = tape_->add(shape_, {x, w_.forward(), bias_});
}

Var LinearLayer::backward(Var dy) {
  const LinearBackward problem{
      .n = shape_.n, .in = shape_.in, .out = shape_.out, .act = shape_.act, .dtype = shape_.dtype};
  const Var gate = shape_.act == Act::none ? dy : y_;  // of which the op reads nothing, so that y is not kept for it
  const Var dx = tape_->add(problem, {x_, w_.current(), gate, dy},
                            {{LinearBackward::dw, w_.gradient()}, {LinearBackward::dbias, tape_->gradient(bias_)}});
  w_.finish_gradient();
  return dx;
}

void LinearLayer::backward_parameters(Var dy) {  // without the product for dx
  const BiasBackward sum{.outer = shape_.n, .c = shape_.out, .act = shape_.act, .dtype = shape_.dtype};
  const std::pair<Slot, Var> dbias{BiasBackward::dbias, tape_->gradient(bias_)};
  if (shape_.act == Act::none)
    tape_->add(sum, {dy}, {dbias});
  else
    dy = tape_->add(sum, {dy, y_}, {dbias})[BiasBackward::dx];
  backward_weight(dy);
}

void LinearLayer::backward_weight(Var dy) {
  tape_->add(Gemm{.m = shape_.out, .n = shape_.in, .k = shape_.n, .trans_a = true, .dtype = shape_.dtype}, {dy, x_},
             {{Gemm::c, w_.gradient()}});
  w_.finish_gradient();
}

Var LinearLayer::backward_through_gelu(Var dy, Var h, LinearLayer& before) {
  backward_parameters(dy);
  const Outputs out =
      tape_->add(GeluLinearBackwardData{.n = shape_.n, .in = shape_.in, .out = shape_.out, .dtype = shape_.dtype},
                 {dy, w_.current(), h}, {{GeluLinearBackwardData::dbias, tape_->gradient(before.bias_)}});
  const Var dh = out[GeluLinearBackwardData::dh];
  before.backward_weight(dh);
  const Linear& first = before.shape_;
  return tape_->add(Gemm{.m = first.n, .n = first.in, .k = first.out, .dtype = first.dtype}, {dh, before.w_.current()});
}

// --- convolution -----------------------------------------------------------------------------------------------------

int64_t first_channels(int64_t channels, Layout layout, DType dtype) {
  const bool half = dtype == DType::bf16 || dtype == DType::f16;
  return layout == Layout::nhwc && half && channels > 1 ? ceil_div(channels, 8) * 8 : channels;
}

Var images_as(Tape& tape, Var x, int64_t channels, const Conv2d& first) {
  const int64_t n = first.n, pixels = first.h * first.w;
  if (first.layout == Layout::nchw || channels == 1) return x;  // with one channel the layouts are the same
  if (first.c == channels)
    return tape.add(Transpose{.batch = n, .rows = channels, .cols = pixels, .dtype = first.dtype}, {x});
  // Channels first, with the rows of zeros behind them; then one transposition.
  const Var planes = tape.pieces("planes", first.dtype, {first.c, n, first.h, first.w});
  const int64_t given = channels * n * pixels, all = first.c * n * pixels;
  const int64_t from = given / 8 * 8;  // a slice begins at a multiple of 16 bytes
  tape.add(FillValue{.n = all - from, .dtype = first.dtype}, {},
           {{FillValue::y, tape.slice(planes, from, {all - from})}});
  tape.add(Permute{.B = 1, .T = n, .H = channels, .D = pixels, .dtype = first.dtype}, {x},
           {{Permute::y, tape.slice(planes, 0, {channels, n, first.h, first.w})}});
  return tape.add(Transpose{.batch = 1, .rows = first.c, .cols = n * pixels, .dtype = first.dtype}, {planes});
}

namespace {
// The bias of a convolution's channels: n planes of each channel, or the rows of n images.
BiasBackward channel_bias_backward(const Conv2d& shape) {
  const int64_t pixels = shape.ho() * shape.wo();
  const bool last = shape.layout == Layout::nhwc;
  return {.outer = last ? shape.n * pixels : shape.n,
          .c = shape.k,
          .inner = last ? 1 : pixels,
          .act = Act::relu,
          .dtype = shape.dtype};
}
int64_t terms_of(const Conv2d& shape) { return shape.group_c() * shape.r * shape.s; }
}  // namespace

ConvLayer::ConvLayer(Tape& tape, const std::string& name, const Conv2d& shape, WeightForm form)
    : tape_(&tape),
      shape_(shape),
      w_(tape, name + ".weight", shape.tensors()[Conv2d::filter.index].shape, default_reach(terms_of(shape)),
         shape.dtype, form),
      bias_(bias_of(tape, name + ".bias", shape.k, terms_of(shape), shape.dtype, form)) {}

Var ConvLayer::forward(Var x) {
  x_ = x;
  y_ = evaluate(x);
  return y_;
}

Var ConvLayer::evaluate(Var x) {
  return tape_->add(Conv2dBias{.conv = shape_, .act = Act::relu}, {x, w_.forward(), bias_});
}

Var ConvLayer::before_relu(Var dy) {
  tape_->add(channel_bias_backward(shape_), {dy, y_},
             {{BiasBackward::dbias, tape_->gradient(bias_)}, {BiasBackward::dx, dy}});
  tape_->add(Conv2dBackwardFilter{shape_}, {x_, dy}, {{Conv2dBackwardFilter::dw, w_.gradient()}});
  w_.finish_gradient();
  return dy;
}

void ConvLayer::backward_parameters(Var dy) { before_relu(dy); }
Var ConvLayer::backward(Var dy) { return tape_->add(Conv2dBackwardData{shape_}, {w_.current(), before_relu(dy)}); }

// --- pooling ---------------------------------------------------------------------------------------------------------

MaxPoolLayer::MaxPoolLayer(Tape& tape, const Conv2d& of) : tape_(&tape) {
  shape_.n = of.n;
  shape_.c = of.k;
  shape_.h = of.ho();
  shape_.w = of.wo();
  shape_.layout = of.layout;
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

// --- dropout ---------------------------------------------------------------------------------------------------------

DropoutLayer::DropoutLayer(Tape& tape, const std::string& name, int64_t n, double p, DType dtype)
    : tape_(&tape), shape_{.n = n, .dtype = dtype, .p = p} {
  if (p > 0) offset_ = tape.counter(name + ".offset", n);
}

Var DropoutLayer::forward(Var x) {
  if (shape_.p == 0) return x;
  const Outputs out = tape_->add(shape_, {x, offset_});
  mask_ = out[Dropout::mask];
  return out;
}

Var DropoutLayer::backward(Var dy) {
  if (shape_.p == 0) return dy;
  return tape_->add(DropoutBackward{.n = shape_.n, .dtype = shape_.dtype, .p = shape_.p}, {dy, mask_});
}

// --- loss and optimisers ---------------------------------------------------------------------------------------------

namespace {
constexpr double kInitialLossScale = 65536;
}  // namespace

bool scales_loss(DType dtype, bool mixed) { return mixed && dtype == DType::f16; }

void CrossEntropyLoss::forward(Var logits, Var label) {
  tape_->phase("loss");
  const CrossEntropyFused problem{.rows = rows_,
                                  .cols = cols_,
                                  .dtype = dtype_,
                                  .smooth = options_.smooth,
                                  .scaled = scales_loss(dtype_, options_.mixed)};
  std::vector<Var> inputs{logits, label};
  if (problem.scaled) inputs.push_back(tape_->state(kLossScale, {1}, kInitialLossScale));
  if (!options_.in_place) tape_->output("logits", logits);
  const Outputs out =
      options_.in_place ? tape_->add(problem, inputs, {{CrossEntropyFused::dx, logits}}) : tape_->add(problem, inputs);
  tape_->output("loss", out[CrossEntropyFused::loss]);
  dlogits_ = out[CrossEntropyFused::dx];
}

void DistillLoss::forward(Var logits, Var teacher, Var label) {
  tape_->phase("loss");
  logits_ = logits;
  teacher_ = teacher;
  label_ = label;
  tape_->output("logits", logits);
  tape_->output("loss", tape_->add(Distill{.rows = rows_, .cols = cols_, .dtype = dtype_}, {logits, teacher, label}));
}

Var DistillLoss::backward() {
  const DistillBackward problem{.rows = rows_, .cols = cols_, .dtype = dtype_, .scaled = scaled_};
  if (!scaled_) return tape_->add(problem, {logits_, teacher_, label_});
  return tape_->add(problem, {logits_, teacher_, label_, tape_->state(kLossScale, {1}, kInitialLossScale)});
}

void BinaryLoss::forward(Var logits, Var target) {
  tape_->phase("loss");
  logits_ = logits;
  target_ = target;
  tape_->output("logits", logits);
  tape_->output("loss", tape_->add(BceLogits{.n = rows_, .dtype = dtype_}, {logits, target}));
}

Var BinaryLoss::backward() {
  const BceLogitsBackward problem{.n = rows_, .dtype = dtype_, .scaled = scaled_};
  if (!scaled_) return tape_->add(problem, {logits_, target_});
  return tape_->add(problem, {logits_, target_, tape_->state(kLossScale, {1}, kInitialLossScale)});
}

// --- optimisers ------------------------------------------------------------------------------------------------------

std::string invalid_mixed(bool mixed, DType dtype) {
  const bool half = dtype == DType::bf16 || dtype == DType::f16;
  return !mixed || half ? "" : std::string("mixed: master parameters go with bf16 or f16, not ") + name_of(dtype);
}

namespace {

// The gradients as an optimiser takes them. bad: whether to leave the step out; with mixed only. norm: with max_norm
// only.
struct Gradients {
  Var g, bad, norm;
};
Gradients ready_gradients(Tape& tape, DType dtype, bool mixed, double max_norm) {
  const int64_t n = tape.parameter_count();
  Gradients ready{tape.gradients(), {}, {}};
  if (scales_loss(dtype, mixed)) {
    const Outputs unscaled = tape.add(Unscale{.n = n, .dtype = dtype}, {ready.g, tape.find(kLossScale)});
    ready = {unscaled[Unscale::y], unscaled[Unscale::bad], {}};
  } else if (mixed) {
    ready.bad = tape.constant("good", {1}, 0, DType::i32);  // never set: no step is bad
  }
  if (max_norm > 0) ready.norm = tape.add(Norm2{.n = n, .dtype = mixed::gradient_dtype(dtype, mixed)}, {ready.g});
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
                  .max_norm = rule.max_norm,
                  .mixed = rule.mixed};
  tape.phase(kOptimiser);
  const Gradients ready = ready_gradients(tape, dtype, rule.mixed, rule.max_norm);
  std::vector<Var> arguments{ready.g, lr, step, tape.parameters(), m, v};
  if (rule.mixed) arguments.insert(arguments.end(), {ready.bad, tape.master()});
  if (adam.clips()) arguments.push_back(ready.norm);
  tape.add(adam, arguments);
  adapt_scale(tape, dtype, rule.mixed, ready.bad);
}

}  // namespace

void add_optimiser(Tape& tape, DType dtype, const SgdOptions& rule) {
  const int64_t n = tape.parameter_count();
  const Var lr = tape.state("lr", {1}, rule.learning_rate, statistic_dtype(dtype));
  const Var velocity = tape.state("velocity", {n}, 0, mixed::state_dtype(dtype, rule.mixed));
  const Sgd sgd{
      .n = n, .dtype = dtype, .momentum = rule.momentum, .weight_decay = rule.weight_decay, .mixed = rule.mixed};
  tape.phase(kOptimiser);
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
