// SPDX-License-Identifier: Apache-2.0
#include "models/cnn.h"

namespace duet {
namespace {

// The convolutions of `shape`, each with the extent of its images.
std::vector<Conv2d> convolutions_of(const CnnShape& shape) {
  std::vector<Conv2d> all;
  int64_t side = shape.side, channels = first_channels(shape.channels, shape.layout, shape.dtype);
  for (const CnnShape::Convolution& c : shape.convolutions) {
    all.push_back({.n = shape.batch,
                   .c = channels,
                   .h = side,
                   .w = side,
                   .k = c.channels,
                   .r = c.side,
                   .s = c.side,
                   .layout = shape.layout,
                   .dtype = shape.dtype});
    channels = c.channels;
    side = c.pooled ? all.back().ho() / 2 : all.back().ho();
  }
  return all;
}
int64_t last_side(const CnnShape& shape) {
  const int64_t side = convolutions_of(shape).back().ho();
  return shape.convolutions.back().pooled ? side / 2 : side;
}

}  // namespace

std::string invalid_cnn(const CnnShape& shape) {
  if (shape.side > 4096) return "side " + std::to_string(shape.side) + ": at most 4096 is allowed";
  return last_side(shape) >= 1 ? "" : "side " + std::to_string(shape.side) + ": too small for the convolutions";
}

Cnn::Cnn(Tape& tape, const CnnShape& shape, const std::string& prefix) : tape_(&tape), shape_(shape) {
  const std::vector<Conv2d> convolutions = convolutions_of(shape);
  first_ = convolutions.front();
  for (size_t i = 0; i < convolutions.size(); ++i) {
    convolutions_.emplace_back(tape, prefix + "conv" + std::to_string(i + 1), convolutions[i], shape.form);
    pools_.emplace_back();
    if (shape.convolutions[i].pooled) pools_.back().emplace(tape, convolutions[i]);
  }
  int64_t in = convolutions.back().k * last_side(shape) * last_side(shape);
  for (size_t i = 0; i < shape.linear.size(); ++i) {
    const bool last = i + 1 == shape.linear.size();
    if (last && shape.dropout > 0)
      dropout_.emplace(tape, prefix + "dropout", shape.batch * in, shape.dropout, shape.dtype);
    linear_.emplace_back(tape, prefix + "fc" + std::to_string(i + 1),
                         Linear{.n = shape.batch,
                                .in = in,
                                .out = shape.linear[i],
                                .act = last ? Act::none : Act::relu,
                                .dtype = shape.dtype},
                         shape.form);
    in = shape.linear[i];
  }
}

Var Cnn::linear_layers(Var h, bool training) {
  for (size_t i = 0; i < linear_.size(); ++i) {
    if (training && dropout_ && i + 1 == linear_.size()) h = dropout_->forward(h);
    h = linear_[i].forward(h);
  }
  return h;
}

Var Cnn::forward(Var x) {
  Var h = images_as(*tape_, x, shape_.channels, first_);
  for (size_t i = 0; i < convolutions_.size(); ++i) {
    h = convolutions_[i].forward(h);
    if (pools_[i]) h = pools_[i]->forward(h);
  }
  return linear_layers(h, true);
}

Var Cnn::evaluate(Var x) {
  Var h = images_as(*tape_, x, shape_.channels, first_);
  for (size_t i = 0; i < convolutions_.size(); ++i) {
    h = convolutions_[i].evaluate(h);
    if (pools_[i]) h = pools_[i]->evaluate(h);
  }
  return linear_layers(h, false);
}

void Cnn::backward(Var dy) {
  for (size_t i = linear_.size(); i-- > 0;) {
    dy = linear_[i].backward(dy);
    if (dropout_ && i + 1 == linear_.size()) dy = dropout_->backward(dy);
  }
  for (size_t i = convolutions_.size(); i-- > 0;) {
    if (pools_[i]) dy = pools_[i]->backward(dy);
    if (i == 0)
      convolutions_[i].backward_parameters(dy);
    else
      dy = convolutions_[i].backward(dy);
  }
}

Var image_input(Tape& tape, const CnnShape& shape, Fill fill) {
  return tape.input("x", shape.dtype, {shape.batch, shape.channels, shape.side, shape.side}, fill);
}

}  // namespace duet
