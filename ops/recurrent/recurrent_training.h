// SPDX-License-Identifier: Apache-2.0
// Both passes of recurrent layers as one problem: rnn_tanh_training, gru_training and lstm_training. What the forward
// pass keeps for the backward pass is the implementation's own, so that libraries whose reserve is opaque (cuDNN,
// oneDNN) can be compared. Formulas, shapes and lengths: ops/recurrent/recurrent.h. dy, dhT and dcT are given: they do
// not depend on y. No output may be an input.
//
// With layers > 1 each layer but the first reads y of the layer below, of both directions, as torch.nn.LSTM and cuDNN
// have it. y and dy are those of the last layer, x, w, dx and dw those of the first. Then
//   r, bias, h0, c0, dhT, dcT, hT, cT, dr, dbias, dh0, dc0: as of layers * directions directions, those of a layer
//     beside each other,
//   w_above, dw_above: (layers - 1, directions G H, directions H), w of the layers above the first,
//   lengths: (0) where the layers are not padded.
// With dropout > 0, y of each layer but the last, numbered l from 0, passes through the op dropout
// (ops/elementwise/dropout.h) with this probability and the key seed + l; offset: (1) i32 is that of all of them.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ops/elementwise/dropout.h"
#include "ops/recurrent/recurrent.h"

namespace duet {

inline Cases training_cases(Cell cell, Scale scale) {
  const Cases test{
      {"one of each", "T:1 B:1 I:1 H:1"},
      {"no steps", "T:0 B:2 I:3 H:3"},
      {"no sequences", "T:2 B:0 I:3 H:3"},
      {"no features", "T:2 B:3 I:0 H:3"},
      {"small, both directions", "T:3 B:3 I:5 H:3 bidirectional:1"},
      {"whole packs", "T:4 B:4 I:8 H:8"},
      {"a state over a warp", "T:3 B:2 I:3 H:33 bidirectional:1"},
      {"many steps", "T:33 B:2 I:4 H:6"},
      {"a state over a block's threads", "T:2 B:3 I:5 H:131"},
      {"lengths", "T:5 B:4 I:3 H:5 bidirectional:1 padded:1"},
      {"two layers", "T:3 B:2 I:5 H:3 layers:2"},
      {"three layers, both directions", "T:3 B:3 I:2 H:4 bidirectional:1 layers:3"},
      {"layers of whole packs, as wide as their input", "T:4 B:4 I:8 H:8 layers:2"},
      {"layers of both directions, as wide as their input", "T:2 B:2 I:6 H:3 bidirectional:1 layers:2"},
      {"layers, no steps", "T:0 B:2 I:3 H:3 layers:2"},
      {"layers, no sequences", "T:2 B:0 I:3 H:3 layers:2"},
      {"layers, no features", "T:2 B:3 I:0 H:3 layers:2"},
      {"layers whose weights begin anywhere", "T:2 B:3 I:5 H:131 layers:2"},
      {"layers, lengths", "T:5 B:4 I:3 H:5 bidirectional:1 padded:1 layers:2"},
      {"dropout between layers", "T:3 B:2 I:5 H:3 layers:3 dropout:0.5"},
      {"dropout of whole packs, an offset that is negative as i32", "T:4 B:4 I:8 H:8 layers:2 dropout:0.2 offset=-3"},
      {"dropout, lengths", "T:5 B:4 I:3 H:5 bidirectional:1 padded:1 layers:2 dropout:0.25 seed:-7"},
  };
  const Cases lstm{
      {"scorer: 60 steps of 32 features, 128 units", "T:60 B:16 I:32 H:128"},
      {"scorer, a larger batch", "T:60 B:64 I:32 H:128"},
      {"IMDb sentiment: 512 x 256 tokens of 16 features, 32 units", "T:256 B:512 I:16 H:32 bidirectional:1"},
      {"DeepBench 512, batch 16", "T:25 B:16 I:512 H:512"},
      {"DeepBench 512, batch 128", "T:25 B:128 I:512 H:512"},
      {"the scorer's two layers", "T:60 B:16 I:32 H:128 layers:2"},
      {"the scorer's two layers, dropout between them", "T:60 B:16 I:32 H:128 layers:2 dropout:0.2"},
      {"four layers of 512 units, few steps: each layer multiplies the work of the reference",
       "T:4 B:4 I:512 H:512 layers:4"},
  };
  const Cases gru{
      {"the scorer's layer as a GRU", "T:60 B:16 I:32 H:128"},
      {"the scorer's layer as a GRU, a larger batch", "T:60 B:64 I:32 H:128"},
      {"DeepBench 1024, fewer steps", "T:25 B:32 I:1024 H:1024"},
      {"the scorer's two layers as GRUs", "T:60 B:16 I:32 H:128 layers:2"},
  };
  const Cases rnn_tanh{
      {"the scorer's layer as a plain RNN", "T:60 B:16 I:32 H:128"},
      {"the scorer's layer as a plain RNN, a larger batch", "T:60 B:64 I:32 H:128"},
      {"DeepBench 1760, batch 16", "T:50 B:16 I:1760 H:1760"},
      {"the scorer's two layers as plain RNNs", "T:60 B:16 I:32 H:128 layers:2"},
  };
  return across(kFloatTypes, by_scale(scale, test, cell == Cell::lstm ? lstm : cell == Cell::gru ? gru : rnn_tanh, {}));
}

template <Cell kCell>
struct RecurrentTraining : RecurrentBase<kCell> {
  using Base = RecurrentBase<kCell>;
  using Base::padded, Base::dtype, Base::T, Base::B, Base::I, Base::H, Base::G, Base::has_c;
  static constexpr const char* name = kCell == Cell::lstm  ? "lstm_training"
                                      : kCell == Cell::gru ? "gru_training"
                                                           : "rnn_tanh_training";
  static constexpr const char* formula =
      kCell == Cell::lstm  ? "y, hT and cT as lstm; then dx, dw, dr, dbias, dh0 and dc0 as lstm_backward"
      : kCell == Cell::gru ? "y and hT as gru; then dx, dw, dr, dbias and dh0 as gru_backward"
                           : "y and hT as rnn_tanh; then dx, dw, dr, dbias and dh0 as rnn_tanh_backward";

  static constexpr int kGiven = has_c ? 6 : 5;                // dy
  static constexpr int kMade = kGiven + (has_c ? 3 : 2);      // y
  static constexpr int kGradients = kMade + (has_c ? 3 : 2);  // dx
  static constexpr Slot x = input(0, "x"), w = input(1, "w"), r = input(2, "r"), bias = input(3, "bias"),
                        h0 = input(4, "h0"), c0 = input(has_c ? 5 : -1, "c0");  // c: of lstm, as in the following
  static constexpr Slot dy = input(kGiven, "dy"), dhT = input(kGiven + 1, "dhT"),
                        dcT = input(has_c ? kGiven + 2 : -1, "dcT");
  static constexpr Slot y = output(kMade, "y"), hT = output(kMade + 1, "hT"), cT = output(has_c ? kMade + 2 : -1, "cT");
  static constexpr Slot dx = output(kGradients, "dx"), dw = output(kGradients + 1, "dw"),
                        dr = output(kGradients + 2, "dr"), dbias = output(kGradients + 3, "dbias"),
                        dh0 = output(kGradients + 4, "dh0"), dc0 = output(has_c ? kGradients + 5 : -1, "dc0");
  static constexpr int kOptional = kGradients + (has_c ? 6 : 5);
  static constexpr Slot lengths = input(kOptional, "lengths");  // with padded or layers > 1
  static constexpr Slot w_above = input(kOptional + 1, "w_above"),
                        dw_above = output(kOptional + 2, "dw_above");  // with layers > 1
  static constexpr Slot offset = input(kOptional + 3, "offset");       // with dropout > 0

  static constexpr int64_t kMaxLayers = 64;
  int64_t layers = 1;
  double dropout = 0;
  int64_t seed = 0;

  void attributes(auto&& field) {
    Base::attributes(field);
    field.option("layers", layers, "layers, of which each but the first reads y of the one below");
    field.option("dropout", dropout, "probability to drop an element of y between two layers, below 1");
    field.option("seed", seed, "key of dropout's random numbers");
  }
  std::string invalid() const {
    if (layers < 1 || layers > kMaxLayers)
      return "layers " + std::to_string(layers) + ": 1 to " + std::to_string(kMaxLayers);
    if (!(dropout >= 0 && dropout < 1)) return "dropout " + std::to_string(dropout) + ": from 0 to below 1";
    if (dropout > 0 && layers == 1)
      return "dropout " + std::to_string(dropout) + ": it lies between layers, there is one";
    return Base::invalid();
  }
  void infer(Shapes s) {  // layers are given: one of two directions has the states of two of one
    Base::infer(s[x], s[h0]);
    this->bidirectional = s[h0][0] == 2 * layers;
  }

  // A layer, the first being 0.
  int64_t features_of(int64_t layer) const { return layer == 0 ? I : this->directions() * H; }
  Base layer(int64_t index) const {
    Base one = *this;
    one.I = features_of(index);
    return one;
  }
  Shape of_layers(Shape one) const {
    one[0] *= layers;
    return one;
  }
  // Of y of a layer, and of its gradient.
  Dropout dropout_of(int64_t index) const {
    Dropout op;
    op.n = T * B * this->directions() * H;
    op.dtype = dtype;
    op.p = dropout;
    op.seed = static_cast<int64_t>(static_cast<uint64_t>(seed) + static_cast<uint64_t>(index));
    return op;
  }
  DropoutBackward dropout_backward() const {
    DropoutBackward op;
    op.n = dropout_of(0).n;
    op.dtype = dtype;
    op.p = dropout;
    return op;
  }
  Shape w_above_shape() const { return {layers - 1, this->directions() * G * H, this->directions() * H}; }

  std::vector<TensorSpec> tensors() const {
    const Shape h_shape = of_layers(this->h_shape()), r_shape = of_layers(this->r_shape()),
                bias_shape = of_layers(this->bias_shape());
    const auto state = [&](std::vector<TensorSpec>& all, Slot h, Slot c) {
      all.push_back(h.of(dtype, h_shape));
      if (has_c) all.push_back(c.of(dtype, h_shape));
    };
    std::vector<TensorSpec> all{this->of_steps(x.of(dtype, this->x_shape()), I),
                                w.of(dtype, this->w_shape(), this->w_fill()), r.of(dtype, r_shape, this->r_fill()),
                                bias.of(dtype, bias_shape)};
    state(all, h0, c0);
    all.push_back(this->of_steps(dy.of(dtype, this->y_shape()), this->directions() * H));
    state(all, dhT, dcT);
    all.push_back(y.of(dtype, this->y_shape()));
    state(all, hT, cT);
    all.push_back(dx.of(dtype, this->x_shape()));
    all.push_back(dw.of(dtype, this->w_shape()));
    all.push_back(dr.of(dtype, r_shape));
    all.push_back(dbias.of(dtype, bias_shape));
    state(all, dh0, dc0);
    if (padded || layers > 1) all.push_back(lengths.of(DType::i32, {padded ? B : 0}));
    if (layers > 1) {
      all.push_back(w_above.of(dtype, w_above_shape(), layer(1).w_fill()));
      all.push_back(dw_above.of(dtype, w_above_shape()));
    }
    if (dropout > 0) all.push_back(offset.of(DType::i32, {1}));
    return all;
  }
  std::function<double(int64_t, uint32_t)> drawn(int slot) const {
    return slot == offset.index ? Dropout{}.drawn(Dropout::offset.index) : this->drawn_lengths(slot == lengths.index);
  }
  double flops() const {
    double sum = 0;
    for (int64_t l = 0; l < layers; ++l) sum += 3 * layer(l).product_flops();
    // One for each element, there and back.
    if (dropout > 0) sum += 2.0 * (layers - 1) * this->steps() * this->directions() * H;
    return sum;
  }
  Tolerance tolerance() const {
    Tolerance all = Base::tolerance();
    for (int64_t l = 1; l < layers; ++l) all.abs += layer(l).tolerance().abs;
    return all;
  }
  // A sequence; then the weights of a direction, of all layers.
  int64_t slices() const { return B + this->directions(); }
  std::vector<int64_t> parts() const { return {B, this->directions()}; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/recurrent/recurrent_training.cpp
  static Cases cases(Scale scale) { return training_cases(kCell, scale); }

  // The passes of a layer by themselves.
  Recurrent<kCell> forward(int64_t index) const { return Recurrent<kCell>{layer(index)}; }
  RecurrentBackward<kCell> backward(int64_t index) const { return RecurrentBackward<kCell>{layer(index)}; }
};

using RnnTanhTraining = RecurrentTraining<Cell::rnn_tanh>;
using GruTraining = RecurrentTraining<Cell::gru>;
using LstmTraining = RecurrentTraining<Cell::lstm>;

}  // namespace duet
