// SPDX-License-Identifier: Apache-2.0
// The arithmetic of one step of rnn_tanh, gru and lstm on vectors of units: forward_row and backward_rows. The sums
// that enter it come from the matrix products of the *_by_* files. Include after foreach_target.
#if defined(DUET_CPU_REF_RECURRENT_CELL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_RECURRENT_CELL_INL_H_
#undef DUET_CPU_REF_RECURRENT_CELL_INL_H_
#else
#define DUET_CPU_REF_RECURRENT_CELL_INL_H_
#endif
#include <utility>

#include "cpu_ref/recurrent/layer.h"
#include "cpu_ref/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::recurrent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace duet::HWY_NAMESPACE;  // NOLINT: load_as_f32, store_f32_as, load, store, for_float, exp2

using D = hn::ScalableTag<float>;
using Vec = hn::Vec<D>;
constexpr D d;

// Calls f.operator()<cell, T>() for the cell and the element type of p.
template <class F>
HWY_INLINE void for_cell(const Layer& p, const F& f) {
  for_float(p.dtype, [&]<class T>() {
    switch (p.cell) {
      case Cell::rnn_tanh:
        return f.template operator()<Cell::rnn_tanh, T>();
      case Cell::gru:
        return f.template operator()<Cell::gru, T>();
      case Cell::lstm:
        return f.template operator()<Cell::lstm, T>();
    }
  });
}

// 1 + exp(-v), with v clamped to [-22, 22]. Then a product of two such values is finite, and what is beyond the clamp
// is less than a rounding of 1.
HWY_INLINE Vec one_and_power(Vec v) {
  const auto max = hn::Set(d, 22.0f * kLog2E), t = hn::Mul(v, hn::Set(d, -kLog2E));
  const auto bounded = min_or_nan(max, max_or_nan(hn::Neg(max), t));
  return hn::Add(hn::Set(d, 1.0f), exp2(d, bounded));
}
HWY_INLINE Vec tanh(Vec v) {
  return hn::Sub(hn::Div(hn::Set(d, 2.0f), one_and_power(hn::Add(v, v))), hn::Set(d, 1.0f));
}
// 1 / a and 1 / b with one division.
HWY_INLINE std::pair<Vec, Vec> reciprocals(Vec a, Vec b) {
  const auto both = hn::Div(hn::Set(d, 1.0f), hn::Mul(a, b));
  return {hn::Mul(both, b), hn::Mul(both, a)};
}
HWY_INLINE Vec at(const float* p) { return hn::LoadU(d, p); }
HWY_INLINE Vec one_minus(Vec v) { return hn::Sub(hn::Set(d, 1.0f), v); }
HWY_INLINE Vec one_minus_square(Vec v) { return hn::NegMulAdd(v, v, hn::Set(d, 1.0f)); }

// A row of T as f32, with zeros from n up to `padded`; and a row of f32 as T.
template <class T>
HWY_INLINE void widen_row(const T* from, int64_t n, int64_t padded, float* to) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < padded; i += lanes)
    hn::StoreU(load_as_f32(d, from + i, std::max<int64_t>(0, n - i)), d, to + i);
}
template <class T>
HWY_INLINE void narrow_row(const float* from, int64_t n, T* to) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) store_f32_as(d, load(d, from + i, n - i, 0.0f), to + i, n - i);
}

// What one row (sequence) of a step forward reads and writes. Parts lie sums_step apart in `sums` and H apart
// elsewhere. `sums` is read in whole vectors.
template <class T>
struct ForwardRow {
  const float* sums;
  int64_t sums_step, H;
  const T* from_x;  // where x has been multiplied ahead, its sums by gates; then `sums` are those of h alone
  const float* h_before;
  float *h, *c;
  T *reserve, *y;  // either may be from_x: a unit is read before it is written; reserve is null for inference
};

// kAhead: x has been multiplied ahead.
template <Cell kCell, bool kAhead, class T>
HWY_INLINE void forward_row(const ForwardRow<T>& s, int64_t units) {
  constexpr Parts kParts = parts_of(kCell);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < units; j += lanes) {
    const int64_t left = units - j;
    const auto sum = [&](int64_t part) HWY_ATTR {
      if (!kAhead) return at(s.sums + part * s.sums_step + j);
      if (!kParts.x_enters(part)) return at(s.sums + part * s.sums_step + j);
      const auto from_x = load_as_f32(d, s.from_x + (part - kParts.x_first) * s.H + j, left);
      return kParts.h_enters(part) ? hn::Add(at(s.sums + part * s.sums_step + j), from_x) : from_x;
    };
    const auto keep = [&](int64_t part, Vec v) HWY_ATTR {
      if (s.reserve) store_f32_as(d, v, s.reserve + part * s.H + j, left);
    };
    // Gates and the new state.
    Vec next;
    if constexpr (kCell == Cell::lstm) {
      // One division for i and f. g has one of its own: a shared one would add roundings to its tanh.
      const auto [i, f] = reciprocals(one_and_power(sum(0)), one_and_power(sum(1)));
      const auto g = tanh(sum(2)), o = hn::Div(hn::Set(d, 1.0f), one_and_power(sum(3)));
      const auto state = hn::MulAdd(f, at(s.c + j), hn::Mul(i, g));
      hn::StoreU(state, d, s.c + j);
      keep(0, i);
      keep(1, f);
      keep(2, g);
      keep(3, o);
      keep(4, state);
      next = hn::Mul(o, tanh(state));
    } else if constexpr (kCell == Cell::gru) {
      const auto m = sum(0), ez = one_and_power(sum(1)), er = one_and_power(sum(2)), from_x = sum(3);
      const auto [z, r] = reciprocals(ez, er);
      const auto n = tanh(hn::MulAdd(r, m, from_x));
      keep(0, z);
      keep(1, r);
      keep(2, n);
      keep(3, m);
      next = hn::MulAdd(z, hn::Sub(load(d, s.h_before + j, left, 0.0f), n), n);
    } else {
      next = tanh(sum(0));
    }
    // Write back.
    store(d, next, s.h + j, left);
    store_f32_as(d, next, s.y + j, left);
  }
}

// What a step backward reads and writes, from the first unit of the first row on.
template <class T>
struct BackwardRows {
  int64_t H;  // between the parts of reserve and gates
  const T* reserve;
  const T *c, *h;  // the state before the step
  int64_t c_row, h_row;
  const T *y, *dy;  // y: read by rnn_tanh only; dy: null where only the last states have gradients
  int64_t y_row;
  float *dh, *dc;  // in and out, in whole vectors
  int64_t state_row;
  float* gates;  // out: the gradient of each part before its gate
  int64_t gates_row;
  float* bias;  // in and out: the sums of those over the rows, in whole vectors
  int64_t bias_step;
};

// `rows` rows of a step. A vector of units at a time, over all rows, so that the sums of the biases stay in registers.
template <Cell kCell, class T>
void backward_rows(const BackwardRows<T>& s, int64_t rows, int64_t units) {
  constexpr int64_t kParts = parts_of(kCell).count, K = kept_of(kCell);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < units; j += lanes) {
    const int64_t left = units - j;
    Vec total[kParts];
    for (int64_t part = 0; part < kParts; ++part) total[part] = at(s.bias + part * s.bias_step + j);
    for (int64_t i = 0; i < rows; ++i) {
      const auto kept = [&](int64_t part)
                            HWY_ATTR { return load_as_f32(d, s.reserve + (i * K + part) * s.H + j, left); };
      // The gradient of h, then of the sums before the gates.
      Vec da[kParts];
      float* dh = s.dh + i * s.state_row + j;
      auto dv = at(dh);
      if (s.dy) dv = hn::Add(dv, load_as_f32(d, s.dy + i * s.y_row + j, left));
      if constexpr (kCell == Cell::lstm) {
        const auto gi = kept(0), f = kept(1), g = kept(2), o = kept(3), tanh_c = tanh(kept(4));
        const auto c = load_as_f32(d, s.c + i * s.c_row + j, left);
        float* dc = s.dc + i * s.state_row + j;
        const auto do_ = hn::Mul(dv, o), dtotal = hn::MulAdd(one_minus_square(tanh_c), do_, at(dc));
        const auto di = hn::Mul(dtotal, gi), df = hn::Mul(dtotal, f);
        da[0] = hn::Mul(hn::Mul(di, g), one_minus(gi));
        da[1] = hn::Mul(hn::Mul(df, c), one_minus(f));
        da[2] = hn::Mul(di, one_minus_square(g));
        da[3] = hn::Mul(hn::Mul(do_, tanh_c), one_minus(o));
        hn::StoreU(df, d, dc);
      } else if constexpr (kCell == Cell::gru) {
        const auto z = kept(0), r = kept(1), n = kept(2), m = kept(3);
        const auto h = load_as_f32(d, s.h + i * s.h_row + j, left), one_z = one_minus(z);
        da[3] = hn::Mul(hn::Mul(dv, one_z), one_minus_square(n));
        da[1] = hn::Mul(hn::Mul(dv, hn::Sub(h, n)), hn::Mul(z, one_z));
        da[0] = hn::Mul(da[3], r);
        da[2] = hn::Mul(hn::Mul(da[0], m), one_minus(r));
        hn::StoreU(hn::Mul(dv, z), d, dh);
      } else {
        da[0] = hn::Mul(dv, one_minus_square(load_as_f32(d, s.y + i * s.y_row + j, left)));
      }
      // Write back.
      for (int64_t part = 0; part < kParts; ++part) {
        store(d, da[part], s.gates + i * s.gates_row + part * s.H + j, left);
        total[part] = hn::Add(total[part], da[part]);
      }
    }
    for (int64_t part = 0; part < kParts; ++part) hn::StoreU(total[part], d, s.bias + part * s.bias_step + j);
  }
}

// to[first + i] = the sum over `count` rows of from, which lie `pitch` floats apart, for i < n.
inline void add_runs(DType dtype, const float* from, int64_t count, int64_t pitch, int64_t n, void* to, int64_t first) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for_float(dtype, [&]<class T>() {
    for (int64_t i = 0; i < n; i += lanes) {
      auto sum = hn::Zero(d);
      for (int64_t s = 0; s < count; ++s) sum = hn::Add(sum, load(d, from + s * pitch + i, n - i, 0.0f));
      store_f32_as(d, sum, static_cast<T*>(to) + first + i, n - i);
    }
  });
}

}  // namespace duet::recurrent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
