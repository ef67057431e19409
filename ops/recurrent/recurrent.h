// SPDX-License-Identifier: Apache-2.0
// One layer of a recurrent network over T steps: rnn_tanh, gru and lstm. All row-major, dense.
//
//   x: (T, B, I), w: (directions G H, I), r: (directions G H, H), h0, hT: (directions, B, H), y: (T, B, directions H),
//   bias: (directions G H); of gru (directions, 2, G H), the second beside r h.
//   reserve: (directions, T, B, K H): what the backward pass needs besides y. lstm: the gates i f g o, and c; gru: z r
//   n and m = r_n h + bias; rnn_tanh: nothing. With inference = 1 it is empty.
//   dy: as y, or (0, B, directions H) where nothing after the layer reads y (last_only).
//   lengths: (B) i32, with padded = 1: sequence b has the steps before lengths[b], in any order of the lengths, as in
//   cuDNN's padded layout and behind PyTorch's pack_padded_sequence. A length below 1 counts as 1, one above T as T.
//
// With a = w x[t] + r h + bias, the gates in the order given here, h and c of the step before (at first h0 and c0), and
// s the logistic function:
//   rnn_tanh, G = 1:  h' = tanh(a)
//   gru, G = 3, z r n (arXiv:1406.1078, reset after the product, as cuDNN and PyTorch): z, r = s(a),
//       n = tanh(w_n x + bias + r m),  h' = (1 - z) n + z h
//   lstm, G = 4, i f g o (Hochreiter and Schmidhuber 1997, with forget gates): i, f, o = s(a), g = tanh(a),
//       c' = f c + i g,  h' = o tanh(c')
// The second direction goes from the last step to the first; its y stands beside that of the first. hT (cT) is the
// state after the last step of each direction. The backward pass adds up the gradients of y, hT and cT. No output may
// be an input. Arithmetic is in f32 or better; the state may be rounded to dtype from step to step.
//
// With lengths, the last step is that of the sequence, where its second direction begins. Behind it y, reserve and dx
// are 0, and x, dy and the y and reserve of the backward pass may hold anything: nothing depends on them. flops and
// bytes count the steps that the sequences have as they are drawn, not T for each: the work of skipping the others is
// an implementation's own.
#pragma once
#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "ops/gemm/product.h"
#include "ops/recurrent/recurrent_cases.h"

namespace duet {

struct RecurrentShape {
  int64_t T = 0, B = 0, I = 0, H = 0;
  bool bidirectional = false, padded = false;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of all tensors");
    field("T", T, "steps");
    field("B", B, "sequences");
    field("I", I, "features of x");
    field("H", H, "features of a direction's state");
    field.option("bidirectional", bidirectional, "a second direction, from the last step to the first");
    field.option("padded", padded, "each sequence has its own number of steps, in lengths");
  }
  int64_t directions() const { return bidirectional ? 2 : 1; }
  // How many steps a sequence has whose element of lengths is `given`.
  int64_t length_of(int64_t given) const { return std::min(T, std::max<int64_t>(1, given)); }
  // Lengths are drawn evenly from T to 1, so that the work of a case is known: `rank` counts them from the longest. The
  // sequences have them in another order than by length.
  int64_t length_at(int64_t rank) const { return length_of(T - (T - 1) * rank / std::max<int64_t>(1, B - 1)); }
  int64_t drawn_length(int64_t sequence) const {
    int64_t stride = std::max<int64_t>(1, B * 5 / 8);  // coprime to B: each rank once
    while (std::gcd(stride, B) > 1) ++stride;
    return length_at((sequence * stride + B / 2) % B);
  }
  int64_t steps() const {  // of all sequences
    if (!padded) return T * B;
    int64_t sum = 0;
    for (int64_t rank = 0; rank < B; ++rank) sum += length_at(rank);
    return sum;
  }
  std::string invalid() const {
    for (const int64_t extent : {T, B, I, H})
      if (extent > INT32_MAX) return std::to_string(extent) + ": T, B, I and H stay below 2^31";
    if (padded && B > kMaxPadded) return "padded: B " + std::to_string(B) + ", at most " + std::to_string(kMaxPadded);
    if (!is_float(dtype)) return std::string("dtype ") + name_of(dtype) + ": allowed are f64, f32, bf16, f16";
    return {};
  }

  static constexpr int64_t kMaxPadded = int64_t{1} << 20;
};

template <Cell kCell>
struct RecurrentBase : RecurrentShape {
  static constexpr Cell kind = kCell;
  static constexpr bool has_c = kCell == Cell::lstm;
  static constexpr int64_t G = gates_of(kCell), K = kept_of(kCell);

  void infer(const Shapes::Dims& x, const Shapes::Dims& h0) {
    T = x[0];
    B = x[1];
    I = x[2];
    H = h0[2];
    bidirectional = h0[0] == 2;
  }

  // Weights are drawn so that errors fade: the absolute values of a row of r add up to about 1, and gates have slopes
  // of 1/4 or less.
  Fill w_fill() const { return reach(3.0 / std::max<int64_t>(1, I)); }
  Fill r_fill() const { return reach(2.0 / std::max<int64_t>(1, H)); }
  static Fill reach(double a) { return Fill::uniform(-std::min(a, 2.0), std::min(a, 2.0)); }

  Shape x_shape() const { return {T, B, I}; }
  Shape w_shape() const { return {directions() * G * H, I}; }
  Shape r_shape() const { return {directions() * G * H, H}; }
  Shape bias_shape() const { return kCell == Cell::gru ? Shape{directions(), 2, G * H} : Shape{directions() * G * H}; }
  Shape h_shape() const { return {directions(), B, H}; }
  Shape y_shape() const { return {T, B, directions() * H}; }
  Shape reserve_shape() const { return {directions(), T, B, K * H}; }
  double product_flops() const { return 2.0 * directions() * G * steps() * H * (I + H); }

  // An input with a row of `row` elements for each step of each sequence.
  TensorSpec of_steps(const TensorSpec& spec, int64_t row) const {
    int64_t touched = 0;  // where it overflows, the tensor is refused
    return padded && !__builtin_mul_overflow(steps(), row, &touched) ? spec.touching(touched) : spec;
  }
  std::function<double(int64_t, uint32_t)> drawn_lengths(bool is_lengths) const {
    if (!is_lengths) return {};
    return [p = static_cast<const RecurrentShape&>(*this)](int64_t b, uint32_t) {
      return static_cast<double>(p.drawn_length(b));
    };
  }

  // The reference computes with each value the standard deviation of its error, through every product, gate and step (a
  // running error analysis, Higham 3.3, of independent roundings, whose squares add up; see ops/summation.h). The sum
  // of absolute errors instead would exceed the gradients of long sequences. The unit of the deviations is that of one
  // operation:
  //  - bf16 and f16: products, gates or their gradients, the reserve and states may be rounded to dtype. One rounding
  //    has a deviation of u / sqrt(3), and every operation counts as one.
  //  - f32: 2 u, which also covers an exp and a division.
  // Sums of products have their own deviation besides (product_error, ops/gemm/product.h). A product is added up on its
  // own; biases and the gradient carried from the next step are added to the finished sum.
  double unit() const { return is_half() ? unit_roundoff(dtype) / std::sqrt(3.0) : 2 * unit_roundoff(dtype); }
  bool is_half() const { return dtype == DType::bf16 || dtype == DType::f16; }
  double units_of_sum(double count, double sum, double root_sum) const {
    const Terms terms = are_alike(count, sum, root_sum) ? Terms::may_be_alike : Terms::vary;
    const SumError error = product_error(count, 0, dtype, Math::ieee, kTransformed, terms);
    return (error.rel * std::abs(sum) + error.root_sum * root_sum) / (kDeviations * unit());
  }
  Tolerance tolerance() const {
    const double u_out = unit_roundoff(dtype);
    // Gradients decay over the steps, and each of their terms may be flushed to zero on its own.
    const auto terms = static_cast<double>(T * B + G * (I + H));
    return {.rel = u_out,
            .abs_sum = kDeviations * unit() * (1 + u_out),
            .abs = underflow(dtype) + terms * underflow(DType::f32)};
  }
};

template <Cell kCell>
struct Recurrent : RecurrentBase<kCell> {
  using Base = RecurrentBase<kCell>;
  using Base::bidirectional, Base::padded, Base::dtype, Base::T, Base::B, Base::I, Base::H, Base::has_c;
  static constexpr const char* name = kCell == Cell::lstm ? "lstm" : kCell == Cell::gru ? "gru" : "rnn_tanh";
  static constexpr const char* formula =
      kCell == Cell::lstm  ? "i, f, o = s(a), g = tanh(a), a = w x[t] + r h + bias;  c' = f c + i g,  h' = o tanh(c')"
      : kCell == Cell::gru ? "z, r = s(w x[t] + r h + bias), n = tanh(w_n x[t] + bias + r m), m = r_n h + bias;  "
                             "h' = (1 - z) n + z h"
                           : "h' = tanh(w x[t] + r h + bias)";
  bool inference = false;
  void attributes(auto&& field) {
    RecurrentShape::attributes(field);
    if constexpr (Base::K > 0) field.option("inference", inference, "no backward pass follows: reserve is empty");
  }

  static constexpr int kAfter = has_c ? 6 : 5;
  static constexpr Slot x = input(0, "x"), w = input(1, "w"), r = input(2, "r"), bias = input(3, "bias"),
                        h0 = input(4, "h0"), c0 = input(has_c ? 5 : -1, "c0");  // c0, cT: of lstm
  static constexpr Slot y = output(kAfter, "y"), hT = output(kAfter + 1, "hT"), cT = output(has_c ? 8 : -1, "cT"),
                        reserve = output(has_c ? 9 : 7, "reserve");
  static constexpr Slot lengths = input(has_c ? 10 : 8, "lengths");  // with padded

  void infer(Shapes s) { Base::infer(s[x], s[h0]); }
  std::vector<TensorSpec> tensors() const {
    std::vector<TensorSpec> all{this->of_steps(x.of(dtype, this->x_shape()), I),
                                w.of(dtype, this->w_shape(), this->w_fill()),
                                r.of(dtype, this->r_shape(), this->r_fill()), bias.of(dtype, this->bias_shape()),
                                h0.of(dtype, this->h_shape())};
    if (has_c) all.push_back(c0.of(dtype, this->h_shape()));
    all.push_back(y.of(dtype, this->y_shape()));
    all.push_back(hT.of(dtype, this->h_shape()));
    if (has_c) all.push_back(cT.of(dtype, this->h_shape()));
    all.push_back(reserve.of(dtype, inference ? Shape{this->directions(), T, B, 0} : this->reserve_shape()));
    if (padded) all.push_back(lengths.of(DType::i32, {B}));
    return all;
  }
  std::function<double(int64_t, uint32_t)> drawn(int slot) const { return this->drawn_lengths(slot == lengths.index); }
  double flops() const { return this->product_flops(); }
  int64_t slices() const { return this->directions() * B; }        // a sequence in one direction
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/recurrent/recurrent.cpp
  static Cases cases(Scale scale) {
    const Cases all = recurrent_cases(kCell, scale);
    if constexpr (Base::K == 0) return all;
    if (scale == Scale::sweep) return all;
    if (scale != Scale::test) return concat({all, with("inference:1", all)});
    // Both ways in which c passes from step to step, both directions, and none.
    const Cases some = concat({having("bidirectional:1", all), having("T:0", all), having("H:131", all)});
    return concat({all, with("inference:1", some)});
  }
};

// y and reserve are those of the forward pass. dhT and dcT are added to dy at the last step of each direction.
template <Cell kCell>
struct RecurrentBackward : RecurrentBase<kCell> {
  using Base = RecurrentBase<kCell>;
  using Base::bidirectional, Base::padded, Base::dtype, Base::T, Base::B, Base::I, Base::H, Base::G, Base::has_c;
  static constexpr const char* name = kCell == Cell::lstm  ? "lstm_backward"
                                      : kCell == Cell::gru ? "gru_backward"
                                                           : "rnn_tanh_backward";
  static constexpr const char* formula =
      kCell == Cell::lstm
          ? "dc += dh o (1 - tanh(c)^2);  da = (dc g i (1-i), dc c' f (1-f), dc i (1-g^2), dh tanh(c) o (1-o));  "
            "dx = w' da, dh = r' da + dy, dc = f dc;  dw = sum da x, dr = sum da h, dbias = sum da"
      : kCell == Cell::gru
          ? "da = (dh (h - n) z (1-z), da_n m r (1-r), dh (1-z) (1-n^2)), dm = r da_n;  dx = w' da, "
            "dh = r' (da_z, da_r, dm) + z dh + dy;  dw = sum da x, dr = sum (da_z, da_r, dm) h, dbias likewise"
          : "da = dh (1 - y^2);  dx = w' da, dh = r' da + dy;  dw = sum da x, dr = sum da h, dbias = sum da";
  static constexpr int kAfter = has_c ? 5 : 4;
  static constexpr Slot x = input(0, "x"), w = input(1, "w"), r = input(2, "r"), h0 = input(3, "h0"),
                        c0 = input(has_c ? 4 : -1, "c0"), y = input(kAfter, "y"),
                        reserve = input(kAfter + 1, "reserve"), dy = input(kAfter + 2, "dy"),
                        dhT = input(kAfter + 3, "dhT"), dcT = input(has_c ? 9 : -1, "dcT");
  static constexpr int kOut = has_c ? 10 : 8;
  static constexpr Slot dx = output(kOut, "dx"), dw = output(kOut + 1, "dw"), dr = output(kOut + 2, "dr"),
                        dbias = output(kOut + 3, "dbias"), dh0 = output(kOut + 4, "dh0"),
                        dc0 = output(has_c ? 15 : -1, "dc0");
  static constexpr Slot lengths = input(has_c ? 16 : 13, "lengths");  // with padded

  bool last_only = false;

  void attributes(auto&& field) {
    Base::attributes(field);
    field.option("last_only", last_only, "no dy: only the last states have gradients");
  }
  void infer(Shapes s) {
    Base::infer(s[x], s[h0]);
    last_only = s[dy][0] < T;
  }
  Shape dy_shape() const { return {last_only ? 0 : T, B, this->directions() * H}; }
  std::vector<TensorSpec> tensors() const {
    const int64_t wide = this->directions() * H;
    std::vector<TensorSpec> all{this->of_steps(x.of(dtype, this->x_shape()), I),
                                w.of(dtype, this->w_shape(), this->w_fill()),
                                r.of(dtype, this->r_shape(), this->r_fill()), h0.of(dtype, this->h_shape())};
    if (has_c) all.push_back(c0.of(dtype, this->h_shape()));
    all.push_back(this->of_steps(y.of(dtype, this->y_shape()), wide));
    const Fill gates = Fill::uniform(0, 1);  // their range
    all.push_back(this->of_steps(reserve.of(dtype, this->reserve_shape(), gates), Base::K * wide));
    all.push_back(this->of_steps(dy.of(dtype, dy_shape()), last_only ? 0 : wide));
    all.push_back(dhT.of(dtype, this->h_shape()));
    if (has_c) all.push_back(dcT.of(dtype, this->h_shape()));
    all.push_back(dx.of(dtype, this->x_shape()));
    all.push_back(dw.of(dtype, this->w_shape()));
    all.push_back(dr.of(dtype, this->r_shape()));
    all.push_back(dbias.of(dtype, this->bias_shape()));
    all.push_back(dh0.of(dtype, this->h_shape()));
    if (has_c) all.push_back(dc0.of(dtype, this->h_shape()));
    if (padded) all.push_back(lengths.of(DType::i32, {B}));
    return all;
  }
  std::function<double(int64_t, uint32_t)> drawn(int slot) const { return this->drawn_lengths(slot == lengths.index); }
  double flops() const { return 2 * this->product_flops(); }
  int64_t slices() const { return B + this->directions(); }  // a sequence; then a direction's weights
  std::vector<int64_t> parts() const { return {B, this->directions()}; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/recurrent/recurrent.cpp
  static Cases cases(Scale scale) {
    return concat({recurrent_cases(kCell, scale), with("last_only:1", last_only_cases(kCell, scale))});
  }
};

using RnnTanh = Recurrent<Cell::rnn_tanh>;
using Gru = Recurrent<Cell::gru>;
using Lstm = Recurrent<Cell::lstm>;
using RnnTanhBackward = RecurrentBackward<Cell::rnn_tanh>;
using GruBackward = RecurrentBackward<Cell::gru>;
using LstmBackward = RecurrentBackward<Cell::lstm>;

}  // namespace duet
