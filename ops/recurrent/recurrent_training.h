// SPDX-License-Identifier: Apache-2.0
// Both passes of a recurrent layer as one problem: rnn_tanh_training, gru_training and lstm_training. What the forward
// pass keeps for the backward pass is the implementation's own, so that libraries whose reserve is opaque (cuDNN,
// oneDNN) can be compared. Formulas, shapes and lengths: ops/recurrent/recurrent.h. dy, dhT and dcT are given: they do
// not depend on y. No output may be an input.
#pragma once
#include <functional>
#include <vector>

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
  };
  const Cases lstm{
      {"scorer: 60 steps of 32 features, 128 units", "T:60 B:16 I:32 H:128"},
      {"scorer, a larger batch", "T:60 B:64 I:32 H:128"},
      {"IMDb sentiment: 512 x 256 tokens of 16 features, 32 units", "T:256 B:512 I:16 H:32 bidirectional:1"},
      {"DeepBench 512, batch 16", "T:25 B:16 I:512 H:512"},
      {"DeepBench 512, batch 128", "T:25 B:128 I:512 H:512"},
  };
  const Cases gru{
      {"the scorer's layer as a GRU", "T:60 B:16 I:32 H:128"},
      {"the scorer's layer as a GRU, a larger batch", "T:60 B:64 I:32 H:128"},
      {"DeepBench 1024, fewer steps", "T:25 B:32 I:1024 H:1024"},
  };
  const Cases rnn_tanh{
      {"the scorer's layer as a plain RNN", "T:60 B:16 I:32 H:128"},
      {"the scorer's layer as a plain RNN, a larger batch", "T:60 B:64 I:32 H:128"},
      {"DeepBench 1760, batch 16", "T:50 B:16 I:1760 H:1760"},
  };
  return across(kFloatTypes, by_scale(scale, test, cell == Cell::lstm ? lstm : cell == Cell::gru ? gru : rnn_tanh, {}));
}

template <Cell kCell>
struct RecurrentTraining : RecurrentBase<kCell> {
  using Base = RecurrentBase<kCell>;
  using Base::padded, Base::dtype, Base::T, Base::B, Base::I, Base::H, Base::has_c;
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
  static constexpr Slot lengths = input(kGradients + (has_c ? 6 : 5), "lengths");  // with padded

  void infer(Shapes s) { Base::infer(s[x], s[h0]); }
  std::vector<TensorSpec> tensors() const {
    const auto state = [&](std::vector<TensorSpec>& all, Slot h, Slot c) {
      all.push_back(h.of(dtype, this->h_shape()));
      if (has_c) all.push_back(c.of(dtype, this->h_shape()));
    };
    std::vector<TensorSpec> all{this->of_steps(x.of(dtype, this->x_shape()), I),
                                w.of(dtype, this->w_shape(), this->w_fill()),
                                r.of(dtype, this->r_shape(), this->r_fill()), bias.of(dtype, this->bias_shape())};
    state(all, h0, c0);
    all.push_back(this->of_steps(dy.of(dtype, this->y_shape()), this->directions() * H));
    state(all, dhT, dcT);
    all.push_back(y.of(dtype, this->y_shape()));
    state(all, hT, cT);
    all.push_back(dx.of(dtype, this->x_shape()));
    all.push_back(dw.of(dtype, this->w_shape()));
    all.push_back(dr.of(dtype, this->r_shape()));
    all.push_back(dbias.of(dtype, this->bias_shape()));
    state(all, dh0, dc0);
    if (padded) all.push_back(lengths.of(DType::i32, {B}));
    return all;
  }
  std::function<double(int64_t, uint32_t)> drawn(int slot) const { return this->drawn_lengths(slot == lengths.index); }
  double flops() const { return 3 * this->product_flops(); }
  int64_t slices() const { return B + this->directions(); }  // a sequence; then a direction's weights
  std::vector<int64_t> parts() const { return {B, this->directions()}; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/recurrent/recurrent_training.cpp
  static Cases cases(Scale scale) { return training_cases(kCell, scale); }

  // The passes by themselves.
  Recurrent<kCell> forward() const { return Recurrent<kCell>{*this}; }
  RecurrentBackward<kCell> backward() const { return RecurrentBackward<kCell>{*this}; }
};

using RnnTanhTraining = RecurrentTraining<Cell::rnn_tanh>;
using GruTraining = RecurrentTraining<Cell::gru>;
using LstmTraining = RecurrentTraining<Cell::lstm>;

}  // namespace duet
