// A thread has a slice of the sequences for all steps, so that no step waits for a fork: the slice's state and gates stay
// in L1, the packed weights in L1 or L2. x and h lie side by side: a step is one product of the matrix engine's register
// tiles, and a large product over all steps would only pass its result through memory. Backward, the same in reverse;
// weight gradients are summed by each slice, some steps at a time, or where they are larger than L2, by one
// product at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/recurrent/recurrent_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/registry.h"
#include "cpu_ref/gemm/engine.h"
#include "cpu_ref/pieces.h"
#include "cpu_ref/scratch.h"
#include "cpu_ref/softmax-inl.h"
#include "ops/recurrent/recurrent.h"

#ifndef DUET_CPU_REF_RECURRENT_TUNED_ONCE_
#define DUET_CPU_REF_RECURRENT_TUNED_ONCE_
namespace duet::recurrent {

// The sums that a step forms, H each: those that x enters and those that h enters are runs of parts. gru: n z r m.
template <Cell kCell>
struct Parts {
  static constexpr int64_t kCount = kCell == Cell::rnn_tanh ? 1 : 4;
  static constexpr int64_t kX = 0, kXEnd = kCell == Cell::gru ? 3 : kCount;
  static constexpr int64_t kH = kCell == Cell::gru ? 1 : 0, kHEnd = kCount;
  static constexpr int64_t gate(int64_t part) {  // of w or r
    return kCell == Cell::gru ? std::array<int64_t, 4>{2, 0, 1, 2}[static_cast<size_t>(part)] : part;
  }
  static constexpr bool x_enters(int64_t part) { return part < kXEnd; }
  static constexpr bool h_enters(int64_t part) { return part >= kH; }
};

constexpr int64_t kMostSums = int64_t{64} << 10;  // floats: a slice's own weight gradients stay in L2
constexpr int64_t kMostWeights = 16384;           // floats that lie in L1 and L2 whatever else a slice touches
constexpr int64_t kStepRows = 112;                // rows of gate gradients that one product with x and h takes

// Sizes in floats, rows padded to whole vectors.
struct Plan {
  engine::KernelShape kernel = engine::kernel_shape();
  int64_t parts = 0, B = 0, I = 0, H = 0, wide_i = 0, wide_h = 0, x_parts = 0, h_parts = 0;
  int64_t rows = 0, slices = 0;  // of a slice
  int64_t ring = 1;              // steps between two products for weight gradients
  bool sums_in_slice = false;

  template <class P>
  Plan(const P& p, int threads, int64_t tasks_per_slice)
      : parts(Parts<P::kind>::kCount),
        B(p.B),
        I(p.I),
        H(p.H),
        wide_i(padded(p.I)),
        wide_h(padded(p.H)),
        x_parts(Parts<P::kind>::kXEnd - Parts<P::kind>::kX),
        h_parts(Parts<P::kind>::kHEnd - Parts<P::kind>::kH) {
    const int64_t weights = parts * wide_h * (I + H);
    rows = kernel.rows * (weights <= kMostWeights ? 2 : weights <= 16 * kMostWeights ? 4 : 8);
    rows = std::clamp<int64_t>(ceil_div(B * tasks_per_slice, threads), 1, rows);
    slices = ceil_div(B, rows);
    ring = std::max<int64_t>(1, kStepRows / rows);
    sums_in_slice = sums_floats() <= kMostSums;
  }
  int64_t padded(int64_t n) const { return ceil_div(n, kernel.lanes) * kernel.lanes; }
  int64_t gates() const { return parts * wide_h; }
  int64_t pitch() const { return padded(I + H); }  // of x and h, side by side
  int64_t strips(int64_t columns) const { return ceil_div(columns, kernel.columns); }
  int64_t strip_floats(int64_t columns, int64_t k) const { return strips(columns) * kernel.columns * k; }
  int64_t width(int64_t columns, int64_t s) const { return std::min(kernel.columns, columns - s * kernel.columns); }
  int64_t row(int64_t slice) const { return B * slice / slices; }

  int64_t forward_weights() const { return parts * strip_floats(wide_h, I + H); }
  int64_t forward_scratch() const { return rows * (pitch() + gates() + wide_h) + 64; }
  int64_t backward_weights() const {
    return strip_floats(wide_i, x_parts * wide_h) + strip_floats(wide_h, h_parts * wide_h);
  }
  int64_t sums_floats() const { return gates() * (wide_i + wide_h); }  // of dw and dr
  int64_t step_floats() const { return gates() + wide_i + wide_h; }    // of a row: gate gradients, x, h
  int64_t backward_scratch() const {
    return rows * (2 * wide_h + wide_i) + (sums_in_slice ? ring * rows * step_floats() : 0) + 64;
  }
};

// to[i][j] (+)= sum_k a(i, k) b[k][j] for `columns` whole vectors of columns. a: value k of row i at a[i * a_row + k * a_k].
// b: packed strips of kc rows of which [first, first + k) take part; or rows `b_pitch` apart.
struct Product {
  const float* a;
  int64_t a_row, a_k;
  const float* b;
  int64_t b_pitch, b_rows, b_first;
  float* to;
  int64_t to_pitch;
  const float* bias;
  bool add;
};
inline void multiply(const Plan& plan, const Product& p, int64_t rows, int64_t columns, int64_t k) {
  const int64_t strip = plan.kernel.columns, tiles = ceil_div(rows, plan.kernel.rows);
  for (int64_t s = 0; s < plan.strips(columns); ++s) {
    engine::Tile tile{};
    tile.columns = plan.width(columns, s), tile.kc = k, tile.a_line = p.a_row, tile.a_k = p.a_k;
    tile.b_k = p.b_pitch ? p.b_pitch : tile.columns <= plan.kernel.lanes ? plan.kernel.lanes : strip;
    tile.b = p.b_pitch ? p.b + s * strip : p.b + s * strip * p.b_rows + p.b_first * tile.b_k;
    tile.b_ahead = 0, tile.sums_step = p.to_pitch, tile.add = p.add, tile.last = true, tile.column = s * strip;
    const engine::Result result{.c = nullptr, .dtype = DType::f32, .step = 0, .bias = p.bias};
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = rows * t / tiles;
      tile.rows = rows * (t + 1) / tiles - row, tile.a = p.a + row * p.a_row,
      tile.sums = p.to + row * p.to_pitch + s * strip;
      run_tile(tile, result);
    }
  }
}

// Where a slice leaves what belongs to the weights of a direction: its own sums, or the rows of every step.
struct WeightSums {
  float *x, *h, *bias;             // (gates, wide_i), (gates, wide_h), (gates)
  float *gates, *x_rows, *h_rows;  // (T, B, ...), of all slices
};

// Strips of columns of one part: rows [0, k) of `from`, whose lines are the columns.
inline void pack(const Plan& plan, const engine::Matrix& from, int64_t lines, int64_t columns, int64_t k, int64_t rows,
                 int64_t first, float* to) {
  for (int64_t s = 0; s < plan.strips(columns); ++s) {
    const int64_t width = plan.width(columns, s), line = s * plan.kernel.columns;
    const int64_t height = width <= plan.kernel.lanes ? plan.kernel.lanes : plan.kernel.columns;
    from.pack(line, std::clamp<int64_t>(lines - line, 0, height), height, 0, k,
              to + s * plan.kernel.columns * rows + first * height);
  }
}

}  // namespace duet::recurrent
#endif

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
using recurrent::Parts, recurrent::Product, recurrent::WeightSums;
using D = hn::ScalableTag<float>;
using Vec = hn::Vec<D>;
constexpr D d;

// 1 + exp(-v), v between -22 and 22: the product of four is finite, and beyond lies less than a rounding of 1.
HWY_INLINE Vec one_and_power(Vec v) {
  const auto most = hn::Set(d, 22.0f * kLog2E), t = hn::Mul(v, hn::Set(d, -kLog2E));
  const auto bounded = hn::Min(most, hn::Max(hn::Neg(most), t));  // in this order NaN passes
  return hn::Add(hn::Set(d, 1.0f), exp2(d, bounded));
}
HWY_INLINE Vec twice_less_one(Vec v) { return hn::MulSub(v, hn::Set(d, 2.0f), hn::Set(d, 1.0f)); }
HWY_INLINE Vec tanh(Vec v) {
  return hn::Sub(hn::Div(hn::Set(d, 2.0f), one_and_power(hn::Add(v, v))), hn::Set(d, 1.0f));
}
// 1 / a and 1 / b by one division.
HWY_INLINE std::pair<Vec, Vec> reciprocals(Vec a, Vec b) {
  const auto both = hn::Div(hn::Set(d, 1.0f), hn::Mul(a, b));
  return {hn::Mul(both, b), hn::Mul(both, a)};
}
HWY_INLINE Vec at(const float* p) { return hn::LoadU(d, p); }
HWY_INLINE Vec one_minus(Vec v) { return hn::Sub(hn::Set(d, 1.0f), v); }

template <class T>
HWY_INLINE void widen_row(const T* from, int64_t n, int64_t padded, float* to) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < padded; i += lanes) hn::StoreU(read(d, from + i, std::max<int64_t>(0, n - i)), d, to + i);
}
template <class T>
HWY_INLINE void narrow_row(const float* from, int64_t n, T* to) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) write(d, load(d, from + i, n - i, 0.0f), to + i, n - i);
}

// A step's states from its sums, for one row: h (in and out), c, reserve (null for inference), y. sums: (parts, wide).
template <Cell kCell, class T>
HWY_INLINE void step_of_row(const float* sums, int64_t H, int64_t wide, float* h, float* c, T* reserve, T* y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < H; j += lanes) {
    const int64_t left = H - j;
    const auto keep = [&](int64_t part, Vec v) HWY_ATTR {
      if (reserve) write(d, v, reserve + part * H + j, left);
    };
    Vec next;
    if constexpr (kCell == Cell::lstm) {
      const auto ei = one_and_power(at(sums + j)), ef = one_and_power(at(sums + wide + j));
      const auto g2 = at(sums + 2 * wide + j);
      const auto eg = one_and_power(hn::Add(g2, g2)), eo = one_and_power(at(sums + 3 * wide + j));
      const auto first = hn::Mul(ei, ef), second = hn::Mul(eg, eo);
      const auto [to_if, to_go] = reciprocals(first, second);
      const auto i = hn::Mul(to_if, ef), f = hn::Mul(to_if, ei), o = hn::Mul(to_go, eg);
      const auto g = twice_less_one(hn::Mul(to_go, eo));
      const auto state = hn::MulAdd(f, at(c + j), hn::Mul(i, g));
      hn::StoreU(state, d, c + j);
      keep(0, i), keep(1, f), keep(2, g), keep(3, o), keep(4, state);
      next = hn::Mul(o, tanh(state));
    } else if constexpr (kCell == Cell::gru) {
      const auto [z, r] = reciprocals(one_and_power(at(sums + wide + j)), one_and_power(at(sums + 2 * wide + j)));
      const auto m = at(sums + 3 * wide + j), n = tanh(hn::MulAdd(r, m, at(sums + j)));
      keep(0, z), keep(1, r), keep(2, n), keep(3, m);
      next = hn::MulAdd(z, hn::Sub(load(d, h + j, left, 0.0f), n), n);
    } else {
      next = tanh(at(sums + j));
    }
    store(d, next, h + j, left);
    write(d, next, y + j, left);
  }
}

template <class P, class T>
void forward_slice(const P& p, const recurrent::Plan& plan, Args t, int64_t dir, int64_t slice, const float* weights,
                   const float* bias, float* scratch) {
  using Of = Parts<P::kind>;
  const int64_t I = p.I, H = p.H, B = p.B, b0 = plan.row(slice), rows = plan.row(slice + 1) - b0;
  const int64_t pitch = plan.pitch(), gates = plan.gates(), wide = plan.wide_h, out = p.directions() * H;
  float *xh = scratch, *sums = xh + rows * pitch, *c = sums + rows * gates;
  const int64_t state = (dir * B + b0) * H;
  for (int64_t i = 0; i < rows; ++i) {
    const T* h0 = t[P::h0].template as<const T>() + state + i * H;
    for (int64_t j = 0; j < H; ++j) xh[i * pitch + I + j] = static_cast<float>(h0[j]);
    if constexpr (P::has_c) widen_row(t[P::c0].template as<const T>() + state + i * H, H, wide, c + i * wide);
  }
  for (int64_t step = 0; step < p.T; ++step) {
    const int64_t time = dir == 0 ? step : p.T - 1 - step;
    const T* x = t[P::x].template as<const T>() + (time * B + b0) * I;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < I; j += lanes) store(d, read(d, x + i * I + j, I - j), xh + i * pitch + j, I - j);
    for (int64_t part = 0; part < Of::kCount; ++part) {
      const int64_t first = Of::x_enters(part) ? 0 : I, end = Of::h_enters(part) ? I + H : I;
      multiply(plan,
               {.a = xh + first,
                .a_row = pitch,
                .a_k = 1,
                .b = weights + part * plan.strip_floats(wide, I + H),
                .b_pitch = 0,
                .b_rows = I + H,
                .b_first = first,
                .to = sums + part * wide,
                .to_pitch = gates,
                .bias = bias + part * wide,
                .add = false},
               rows, wide, end - first);
    }
    T* y = t[P::y].template as<T>() + (time * B + b0) * out + dir * H;
    for (int64_t i = 0; i < rows; ++i) {
      T* reserve = nullptr;
      if (!p.inference) reserve = t[P::reserve].template as<T>() + ((dir * p.T + time) * B + b0 + i) * P::K * H;
      step_of_row<P::kind>(sums + i * gates, H, wide, xh + i * pitch + I, c + i * wide, reserve, y + i * out);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    narrow_row(xh + i * pitch + I, H, t[P::hT].template as<T>() + state + i * H);
    if constexpr (P::has_c) narrow_row(c + i * wide, H, t[P::cT].template as<T>() + state + i * H);
  }
}

// What a step backward reads and writes, at the first row of a slice; rows are H (or as many as it says) apart.
template <class T>
struct BackStep {
  const T *reserve, *c, *h, *y, *dy;  // c, h: of the step before; y of rnn_tanh; y, dy rows `out` apart
  int64_t c_row, h_row, out;
  float *dh, *dc, *gates, *bias;  // gates: (rows, parts wide); bias: (parts wide), added to
};

template <Cell kCell, class T>
void gate_gradients(const BackStep<T>& s, int64_t rows, int64_t H, int64_t wide) {
  constexpr int64_t kParts = Parts<kCell>::kCount, K = kept_of(kCell);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < H; j += lanes) {
    const int64_t left = H - j;
    Vec total[kParts];
    for (int64_t part = 0; part < kParts; ++part) total[part] = at(s.bias + part * wide + j);
    for (int64_t i = 0; i < rows; ++i) {
      const auto kept = [&](int64_t part) HWY_ATTR { return read(d, s.reserve + i * K * H + part * H + j, left); };
      Vec da[kParts];
      float* dh = s.dh + i * wide + j;
      const auto dv = hn::Add(at(dh), read(d, s.dy + i * s.out + j, left));
      if constexpr (kCell == Cell::lstm) {
        const auto gi = kept(0), f = kept(1), g = kept(2), o = kept(3), tanh_c = tanh(kept(4));
        const auto c = read(d, s.c + i * s.c_row + j, left);
        float* dc = s.dc + i * wide + j;
        const auto do_ = hn::Mul(dv, o),
                   dtotal = hn::MulAdd(hn::NegMulAdd(tanh_c, tanh_c, hn::Set(d, 1.0f)), do_, at(dc));
        const auto di = hn::Mul(dtotal, gi), df = hn::Mul(dtotal, f);
        da[0] = hn::Mul(hn::Mul(di, g), one_minus(gi));
        da[1] = hn::Mul(hn::Mul(df, c), one_minus(f));
        da[2] = hn::Mul(di, hn::NegMulAdd(g, g, hn::Set(d, 1.0f)));
        da[3] = hn::Mul(hn::Mul(do_, tanh_c), one_minus(o));
        hn::StoreU(df, d, dc);
      } else if constexpr (kCell == Cell::gru) {
        const auto z = kept(0), r = kept(1), n = kept(2), m = kept(3);
        const auto h = read(d, s.h + i * s.h_row + j, left), one_z = one_minus(z);
        da[0] = hn::Mul(hn::Mul(dv, one_z), hn::NegMulAdd(n, n, hn::Set(d, 1.0f)));
        da[1] = hn::Mul(hn::Mul(dv, hn::Sub(h, n)), hn::Mul(z, one_z));
        da[3] = hn::Mul(da[0], r);
        da[2] = hn::Mul(hn::Mul(da[3], m), one_minus(r));
        hn::StoreU(hn::Mul(dv, z), d, dh);
      } else {
        const auto v = read(d, s.y + i * s.out + j, left);
        da[0] = hn::Mul(dv, hn::NegMulAdd(v, v, hn::Set(d, 1.0f)));
      }
      for (int64_t part = 0; part < kParts; ++part) {
        hn::StoreU(da[part], d, s.gates + (i * kParts + part) * wide + j);
        total[part] = hn::Add(total[part], da[part]);
      }
    }
    for (int64_t part = 0; part < kParts; ++part) hn::StoreU(total[part], d, s.bias + part * wide + j);
  }
}

template <class P, class T>
void backward_slice(const P& p, const recurrent::Plan& plan, Args t, int64_t dir, int64_t slice, const float* weights,
                    const WeightSums& to, float* scratch) {
  using Of = Parts<P::kind>;
  const int64_t I = p.I, H = p.H, B = p.B, b0 = plan.row(slice), rows = plan.row(slice + 1) - b0;
  const int64_t gates = plan.gates(), wide = plan.wide_h, wide_i = plan.wide_i, out = p.directions() * H;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float *dh = scratch, *dc = dh + rows * wide, *dx = dc + rows * wide;
  float *ring = dx + rows * wide_i, *ring_x = ring + plan.ring * rows * gates,
        *ring_h = ring_x + plan.ring * rows * wide_i;
  const float* to_x = weights;
  const float* to_h = to_x + plan.strip_floats(wide_i, plan.x_parts * wide);
  const int64_t state = (dir * B + b0) * H;
  const T *y = t[P::y].template as<const T>(), *reserve = t[P::reserve].template as<const T>();
  const T* h0 = t[P::h0].template as<const T>() + state;
  for (int64_t i = 0; i < rows; ++i) {
    widen_row(t[P::dhT].template as<const T>() + state + i * H, H, wide, dh + i * wide);
    if constexpr (P::has_c) widen_row(t[P::dcT].template as<const T>() + state + i * H, H, wide, dc + i * wide);
  }
  std::fill_n(to.bias, gates, 0.0f);
  if (plan.sums_in_slice) std::fill_n(to.x, gates * wide_i, 0.0f), std::fill_n(to.h, gates * wide, 0.0f);

  int64_t waiting = 0;  // steps in the ring
  for (int64_t step = p.T - 1; step >= 0; --step) {
    const int64_t time = dir == 0 ? step : p.T - 1 - step, earlier = dir == 0 ? time - 1 : time + 1;
    const int64_t at_row = time * B + b0;  // of x, y and what is kept of all slices
    float* da = plan.sums_in_slice ? ring + waiting * rows * gates : to.gates + at_row * gates;
    float* x_rows = plan.sums_in_slice ? ring_x + waiting * rows * wide_i : to.x_rows + at_row * wide_i;
    float* h_rows = plan.sums_in_slice ? ring_h + waiting * rows * wide : to.h_rows + at_row * wide;
    BackStep<T> s{};
    s.reserve = reserve + ((dir * p.T + time) * B + b0) * P::K * H;
    s.y = y + at_row * out + dir * H, s.dy = t[P::dy].template as<const T>() + at_row * out + dir * H, s.out = out;
    s.h = step > 0 ? y + (earlier * B + b0) * out + dir * H : h0, s.h_row = step > 0 ? out : H;
    if constexpr (P::has_c) {
      s.c = step > 0 ? reserve + ((dir * p.T + earlier) * B + b0) * P::K * H + 4 * H
                     : t[P::c0].template as<const T>() + state;
      s.c_row = step > 0 ? P::K * H : H;
    }
    s.dh = dh, s.dc = dc, s.gates = da, s.bias = to.bias;
    gate_gradients<P::kind>(s, rows, H, wide);
    multiply(plan,
             {.a = da + Of::kH * wide,
              .a_row = gates,
              .a_k = 1,
              .b = to_h,
              .b_pitch = 0,
              .b_rows = plan.h_parts * wide,
              .b_first = 0,
              .to = dh,
              .to_pitch = wide,
              .bias = nullptr,
              .add = P::kind == Cell::gru},
             rows, wide, plan.h_parts * wide);

    // The second direction adds to what the first left in dx.
    T* dx_rows = t[P::dx].template as<T>() + at_row * I;
    const bool in_place = std::is_same_v<T, float> && I == wide_i;
    multiply(plan,
             {.a = da + Of::kX * wide,
              .a_row = gates,
              .a_k = 1,
              .b = to_x,
              .b_pitch = 0,
              .b_rows = plan.x_parts * wide,
              .b_first = 0,
              .to = in_place ? reinterpret_cast<float*>(dx_rows) : dx,
              .to_pitch = wide_i,
              .bias = nullptr,
              .add = in_place && dir == 1},
             rows, wide_i, plan.x_parts * wide);
    for (int64_t i = 0; !in_place && i < rows; ++i)
      for (int64_t j = 0; j < I; j += lanes) {
        auto v = at(dx + i * wide_i + j);
        if (dir == 1) v = hn::Add(v, read(d, dx_rows + i * I + j, I - j));
        write(d, v, dx_rows + i * I + j, I - j);
      }

    for (int64_t i = 0; i < rows; ++i) {
      widen_row(t[P::x].template as<const T>() + (at_row + i) * I, I, wide_i, x_rows + i * wide_i);
      widen_row(s.h + i * s.h_row, H, wide, h_rows + i * wide);
    }
    if (!plan.sums_in_slice || (++waiting < plan.ring && step > 0)) continue;
    const int64_t k = std::exchange(waiting, 0) * rows;
    multiply(plan,
             {.a = ring + Of::kX * wide,
              .a_row = 1,
              .a_k = gates,
              .b = ring_x,
              .b_pitch = wide_i,
              .b_rows = 0,
              .b_first = 0,
              .to = to.x + Of::kX * wide * wide_i,
              .to_pitch = wide_i,
              .bias = nullptr,
              .add = true},
             plan.x_parts * wide, wide_i, k);
    multiply(plan,
             {.a = ring + Of::kH * wide,
              .a_row = 1,
              .a_k = gates,
              .b = ring_h,
              .b_pitch = wide,
              .b_rows = 0,
              .b_first = 0,
              .to = to.h + Of::kH * wide * wide,
              .to_pitch = wide,
              .bias = nullptr,
              .add = true},
             plan.h_parts * wide, wide, k);
  }
  for (int64_t i = 0; i < rows; ++i) {
    narrow_row(dh + i * wide, H, t[P::dh0].template as<T>() + state + i * H);
    if constexpr (P::has_c) narrow_row(dc + i * wide, H, t[P::dc0].template as<T>() + state + i * H);
  }
}

// to[i] = the sum over `count` runs `pitch` apart.
template <class T>
void add_runs(const float* from, int64_t count, int64_t pitch, int64_t n, T* to) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) {
    auto sum = hn::Zero(d);
    for (int64_t s = 0; s < count; ++s) sum = hn::Add(sum, load(d, from + s * pitch + i, n - i, 0.0f));
    write(d, sum, to + i, n - i);
  }
}

#define DUET_RECURRENT_CELL(Forward, Backward, name)                                                                   \
  void forward_##name(const Forward& p, const recurrent::Plan& plan, Args t, int64_t dir, int64_t slice,               \
                      const float* weights, const float* bias, float* scratch) {                                       \
    for_float(p.dtype, [&]<class T>() { forward_slice<Forward, T>(p, plan, t, dir, slice, weights, bias, scratch); }); \
  }                                                                                                                    \
  void backward_##name(const Backward& p, const recurrent::Plan& plan, Args t, int64_t dir, int64_t slice,             \
                       const float* weights, const WeightSums* to, float* scratch) {                                   \
    for_float(p.dtype,                                                                                                 \
              [&]<class T>() { backward_slice<Backward, T>(p, plan, t, dir, slice, weights, *to, scratch); });         \
  }
DUET_RECURRENT_CELL(RnnTanh, RnnTanhBackward, rnn_tanh)
DUET_RECURRENT_CELL(Gru, GruBackward, gru)
DUET_RECURRENT_CELL(Lstm, LstmBackward, lstm)

void add_runs_any(DType dtype, const float* from, int64_t count, int64_t pitch, int64_t n, void* to, int64_t first) {
  for_float(dtype, [&]<class T>() { add_runs(from, count, pitch, n, static_cast<T*>(to) + first); });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(forward_rnn_tanh);
HWY_EXPORT(forward_gru);
HWY_EXPORT(forward_lstm);
HWY_EXPORT(backward_rnn_tanh);
HWY_EXPORT(backward_gru);
HWY_EXPORT(backward_lstm);
HWY_EXPORT(add_runs_any);
using recurrent::Parts, recurrent::WeightSums, engine::Matrix;

const char* element(const void* data, DType dtype, int64_t index) {
  return static_cast<const char*>(data) + index * size_of(dtype);
}

std::string describe(const recurrent::Plan& plan) {
  return std::to_string(plan.slices) + " slices of " + std::to_string(plan.rows) + " sequences or fewer";
}

// run_slice(p, plan, t, dir, slice, weights, bias, scratch)
template <class P>
Plan forward(const P& p, CpuContext& cpu, auto run_slice) {
  using Of = Parts<P::kind>;
  if (!has_vectors(p.dtype)) return Unsupported{kNoVectors};
  const recurrent::Plan plan(p, cpu.threads(), p.directions());
  const int64_t of_part = plan.strip_floats(plan.wide_h, p.I + p.H), of_direction = Of::kCount * of_part;
  Buffer weights(cpu, p.directions() * of_direction * int64_t{sizeof(float)});
  Buffer bias(cpu, p.directions() * plan.gates() * int64_t{sizeof(float)});
  cpu.fill_bytes(bias.data(), 0, bias.bytes());
  Scratch scratch(cpu, plan.forward_scratch());
  const int64_t workspace = weights.bytes() + bias.bytes();
  auto run = [=, weights = std::move(weights), bias = std::move(bias), scratch = std::move(scratch),
              &cpu](Args t) mutable {
    cpu.parallel_for(p.directions() * Of::kCount, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t dir = i / Of::kCount, part = i % Of::kCount, row = (dir * P::G + Of::gate(part)) * p.H;
        float *to = weights.as<float>() + i * of_part, *to_bias = bias.as<float>() + i * plan.wide_h;
        if (Of::x_enters(part))
          pack(plan, Matrix(element(t[P::w].data, p.dtype, row * p.I), p.dtype, p.I, 1), p.H, plan.wide_h, p.I,
               p.I + p.H, 0, to);
        if (Of::h_enters(part))
          pack(plan, Matrix(element(t[P::r].data, p.dtype, row * p.H), p.dtype, p.H, 1), p.H, plan.wide_h, p.H,
               p.I + p.H, p.I, to);
        constexpr int64_t kBiases = biases_of(P::kind);  // the second enters with h
        for (int64_t j = 0; j < p.H; ++j) {
          const int64_t at = (dir * kBiases * P::G + Of::gate(part)) * p.H + j;
          double sum = Of::x_enters(part) ? load_as_double(t[P::bias].data, p.dtype, at) : 0;
          if (kBiases == 2 && Of::h_enters(part)) sum += load_as_double(t[P::bias].data, p.dtype, at + P::G * p.H);
          to_bias[j] = static_cast<float>(sum);
        }
      }
    });
    cpu.parallel_for(p.directions() * plan.slices, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t dir = i / plan.slices;
        run_slice(p, plan, t, dir, i % plan.slices, weights.as<float>() + dir * of_direction,
                  bias.as<float>() + dir * plan.gates(), scratch.mine());
      }
    });
  };
  return Plan(std::move(run)).with(describe(plan), workspace);
}

// run_slice(p, plan, t, dir, slice, weights, sums, scratch)
template <class P>
Plan backward(const P& p, CpuContext& cpu, auto run_slice) {
  using Of = Parts<P::kind>;
  if (!has_vectors(p.dtype)) return Unsupported{kNoVectors};
  constexpr int64_t kFloat = sizeof(float);
  const recurrent::Plan plan(p, cpu.threads(), 1);
  const int64_t D = p.directions(), gates = plan.gates(), rows = p.T * p.B;
  Buffer weights(cpu, D * plan.backward_weights() * kFloat);
  cpu.fill_bytes(weights.data(), 0, weights.bytes());  // rows between H and whole vectors stay 0
  // Of each slice and direction; or the gate gradients, x and h of every step.
  const int64_t own = (plan.sums_in_slice ? plan.sums_floats() : 0) + gates;
  Buffer sums(cpu, plan.slices * D * own * kFloat);
  Buffer kept(cpu, plan.sums_in_slice ? 0 : D * rows * plan.step_floats() * kFloat);
  engine::Engine product_x(cpu, {.m = p.H, .n = p.I, .k = rows, .result = p.dtype}, 1);
  engine::Engine product_h(cpu, {.m = p.H, .n = p.H, .k = rows, .result = p.dtype}, 1);
  Scratch scratch(cpu, plan.backward_scratch());
  const int64_t workspace =
      weights.bytes() + sums.bytes() + kept.bytes() + product_x.workspace_bytes() + product_h.workspace_bytes();
  auto run = [=, weights = std::move(weights), sums = std::move(sums), kept = std::move(kept),
              product_x = std::move(product_x), product_h = std::move(product_h), scratch = std::move(scratch),
              &cpu](Args t) mutable {
    cpu.parallel_for(D * Of::kCount, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t dir = i / Of::kCount, part = i % Of::kCount, row = (dir * P::G + Of::gate(part)) * p.H;
        float* to_x = weights.as<float>() + dir * plan.backward_weights();
        float* to_h = to_x + plan.strip_floats(plan.wide_i, plan.x_parts * plan.wide_h);
        if (Of::x_enters(part))
          pack(plan, Matrix(element(t[P::w].data, p.dtype, row * p.I), p.dtype, 1, p.I), p.I, plan.wide_i, p.H,
               plan.x_parts * plan.wide_h, (part - Of::kX) * plan.wide_h, to_x);
        if (Of::h_enters(part))
          pack(plan, Matrix(element(t[P::r].data, p.dtype, row * p.H), p.dtype, 1, p.H), p.H, plan.wide_h, p.H,
               plan.h_parts * plan.wide_h, (part - Of::kH) * plan.wide_h, to_h);
      }
    });

    const auto sums_of = [&](int64_t slice, int64_t dir) {
      float* at = sums.as<float>() + (slice * D + dir) * own;
      if (plan.sums_in_slice)
        return WeightSums{at, at + gates * plan.wide_i, at + plan.sums_floats(), nullptr, nullptr, nullptr};
      float* steps = kept.as<float>() + dir * rows * plan.step_floats();
      return WeightSums{nullptr, nullptr, at, steps, steps + rows * gates, steps + rows * (gates + plan.wide_i)};
    };
    cpu.parallel_for(plan.slices, 1, [&](int64_t first, int64_t last) {
      for (int64_t slice = first; slice < last; ++slice)
        for (int64_t dir = 0; dir < D; ++dir) {
          const WeightSums to = sums_of(slice, dir);
          run_slice(p, plan, t, dir, slice, weights.as<float>() + dir * plan.backward_weights(), &to, scratch.mine());
        }
    });

    const auto add_runs = [&](const float* from, int64_t n, Slot to, int64_t at) {
      HWY_DYNAMIC_DISPATCH(add_runs_any)(p.dtype, from, plan.slices, D * own, n, t[to].data, at);
    };
    const auto each_part = [&](auto&& use) {  // use(part, gate's first row of dw or dr in this direction, sums)
      for (int64_t dir = 0; dir < D; ++dir)
        for (int64_t part = 0; part < Of::kCount; ++part)
          use(dir, part, (dir * P::G + Of::gate(part)) * p.H, sums_of(0, dir));
    };
    each_part([&](int64_t dir, int64_t part, int64_t, const WeightSums& from) {
      constexpr int64_t kBiases = biases_of(P::kind);
      const int64_t at = (dir * kBiases * P::G + Of::gate(part)) * p.H;
      if (Of::x_enters(part)) add_runs(from.bias + part * plan.wide_h, p.H, P::dbias, at);
      if (kBiases == 2 && Of::h_enters(part)) add_runs(from.bias + part * plan.wide_h, p.H, P::dbias, at + P::G * p.H);
    });
    if (plan.sums_in_slice) {
      each_part([&](int64_t, int64_t part, int64_t row, const WeightSums& from) {
        cpu.parallel_for(p.H, 64, [&](int64_t first, int64_t last) {
          for (int64_t j = first; j < last; ++j) {
            const int64_t mine = part * plan.wide_h + j;
            if (Of::x_enters(part)) add_runs(from.x + mine * plan.wide_i, p.I, P::dw, (row + j) * p.I);
            if (Of::h_enters(part)) add_runs(from.h + mine * plan.wide_h, p.H, P::dr, (row + j) * p.H);
          }
        });
      });
      return;
    }
    each_part([&](int64_t, int64_t part, int64_t row, const WeightSums& from) {
      const Matrix da(from.gates + part * plan.wide_h, DType::f32, 1, gates);
      const auto product = [&](const engine::Engine& engine, const float* other, int64_t pitch, int64_t n, Slot to) {
        const Matrix b(other, DType::f32, 1, pitch);
        void* c = static_cast<char*>(t[to].data) + row * n * size_of(p.dtype);
        engine.each([&](int64_t, float* lane) { engine.multiply(da, b, {.c = c, .dtype = p.dtype, .step = n}, lane); });
      };
      if (Of::x_enters(part)) product(product_x, from.x_rows, plan.wide_i, p.I, P::dw);
      if (Of::h_enters(part)) product(product_h, from.h_rows, plan.wide_h, p.H, P::dr);
    });
  };
  return Plan(std::move(run)).with(describe(plan), workspace);
}

#define DUET_RECURRENT_PLANS(Forward, Backward, name)                                                \
  Plan name##_tuned(const Forward& p, CpuContext& cpu) {                                             \
    return forward(p, cpu, [](auto&&... args) { HWY_DYNAMIC_DISPATCH(forward_##name)(args...); });   \
  }                                                                                                  \
  Plan name##_backward_tuned(const Backward& p, CpuContext& cpu) {                                   \
    return backward(p, cpu, [](auto&&... args) { HWY_DYNAMIC_DISPATCH(backward_##name)(args...); }); \
  }
DUET_RECURRENT_PLANS(RnnTanh, RnnTanhBackward, rnn_tanh)
DUET_RECURRENT_PLANS(Gru, GruBackward, gru)
DUET_RECURRENT_PLANS(Lstm, LstmBackward, lstm)
DUET_REGISTER(rnn_tanh_tuned);  // cpu.tuned, as all of these
DUET_REGISTER(rnn_tanh_backward_tuned);
DUET_REGISTER(gru_tuned);
DUET_REGISTER(gru_backward_tuned);
DUET_REGISTER(lstm_tuned);
DUET_REGISTER(lstm_backward_tuned);

}  // namespace
}  // namespace duet
#endif
