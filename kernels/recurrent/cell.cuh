// SPDX-License-Identifier: Apache-2.0
// Shared by the kernels of rnn_tanh, gru and lstm: the index maps, and the arithmetic of one unit of one cell. Start
// reading at forward_unit and backward_unit.
#pragma once
#include "kernels/activation.cuh"
#include "ops/recurrent/compose_training.h"
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

// D: directions. A unit is (direction, sequence, feature); there are D B H of them, numbered in this order.
struct Layer {
  int64_t T, B, I, H, D;
  const int32_t* lengths = nullptr;  // (B), in a run of a layer that has them
  explicit Layer(const RecurrentShape& p) : T(p.T), B(p.B), I(p.I), H(p.H), D(p.directions()) {}
  int64_t units() const { return D * B * H; }
  template <class P>
  Layer in_run(const P& p, const Args& t) const {
    Layer layer = *this;
    if (p.padded) layer.lengths = t[P::lengths].template as<const int32_t>();
    return layer;
  }
  // Steps of a sequence.
  __device__ int64_t steps_of(int64_t b) const {
    if (!lengths) return T;
    const int64_t steps = lengths[b] < 1 ? 1 : lengths[b];
    return steps < T ? steps : T;  // T may be 0
  }
  // Where rows begin, for sequence b at time t.
  __device__ int64_t y_row(int64_t dir, int64_t b, int64_t t) const { return (t * B + b) * D * H + dir * H; }
  __device__ int64_t kept_row(int64_t dir, int64_t b, int64_t t, int64_t K) const {
    return ((dir * T + t) * B + b) * K * H;
  }
};
struct Unit {
  int64_t dir, b, j, steps;  // steps: of its sequence
  __device__ Unit(const Layer& p, int64_t index)
      : dir(index / p.H / p.B), b(index / p.H % p.B), j(index % p.H), steps(p.T) {}
  __device__ Unit(int64_t direction, int64_t sequence, int64_t feature, int64_t count)
      : dir(direction), b(sequence), j(feature), steps(count) {}
  __device__ int64_t state(const Layer& p) const { return (dir * p.B + b) * p.H + j; }
  // The time of a step: the second direction runs from the sequence's last time to the first.
  __device__ int64_t time(int64_t step) const { return dir == 0 ? step : steps - 1 - step; }
  __device__ int64_t y_row(const Layer& p, int64_t step) const { return p.y_row(dir, b, time(step)); }
  __device__ int64_t kept_row(const Layer& p, int64_t step, int64_t K) const {
    return p.kept_row(dir, b, time(step), K);
  }
};

// Sums that a unit computes, each of which has a gradient: one per gate, and for gru also m, the part of n that comes
// from h.
template <Cell kCell>
inline constexpr int kSums = kCell == Cell::rnn_tanh ? 1 : 4;
template <Cell kCell>
inline constexpr int kKept =
    kCell == Cell::rnn_tanh
        ? 1
        : static_cast<int>(kept_of(kCell));  // values in the reserve; at least 1, since arrays are not empty

// One step of a unit. a: the sums, in the order of gates, then m for gru. c: in and out. kept: values for the reserve.
// Returns the new h.
template <Cell kCell>
__device__ __forceinline__ float forward_unit(const float (&a)[kSums<kCell>], float h, float& c,
                                              float (&kept)[kKept<kCell>]) {
  if constexpr (kCell == Cell::lstm) {
    const float i = sigmoid(a[0]), f = sigmoid(a[1]), g = tanhf(a[2]), o = sigmoid(a[3]);
    c = f * c + i * g;
    kept[0] = i;
    kept[1] = f;
    kept[2] = g;
    kept[3] = o;
    kept[4] = c;
    return o * tanhf(c);
  } else if constexpr (kCell == Cell::gru) {
    const float z = sigmoid(a[0]), r = sigmoid(a[1]), n = tanhf(a[2] + r * a[3]);
    kept[0] = z;
    kept[1] = r;
    kept[2] = n;
    kept[3] = a[3];
    return (1 - z) * n + z * h;
  } else {
    return tanhf(a[0]);
  }
}

// One step of a unit, backward. dh: in, the gradient of h after the step, from y and from the next step; out, the part
// of the gradient of h before the step that does not pass through the weights: only gru has one, otherwise 0. h, c:
// before the step; y: after it. dc: in and out. da: gradients of the sums, in the order of forward_unit.
template <Cell kCell>
__device__ __forceinline__ void backward_unit(const float (&kept)[kKept<kCell>], float h, float c, float y, float& dh,
                                              float& dc, float (&da)[kSums<kCell>]) {
  if constexpr (kCell == Cell::lstm) {
    const float i = kept[0], f = kept[1], g = kept[2], o = kept[3], tanh_c = tanhf(kept[4]);
    const float total = dc + dh * o * (1 - tanh_c * tanh_c);
    da[0] = total * g * i * (1 - i);
    da[1] = total * c * f * (1 - f);
    da[2] = total * i * (1 - g * g);
    da[3] = dh * tanh_c * o * (1 - o);
    dc = total * f;
    dh = 0;
  } else if constexpr (kCell == Cell::gru) {
    const float z = kept[0], r = kept[1], n = kept[2], m = kept[3], dn = dh * (1 - z) * (1 - n * n);
    da[0] = dh * (h - n) * z * (1 - z);
    da[1] = dn * m * r * (1 - r);
    da[2] = dn;
    da[3] = dn * r;
    dh = dh * z;
  } else {
    da[0] = dh * (1 - y * y);
    dh = 0;
  }
}

template <class T>
struct ForwardTensors {
  const T *x, *w, *r, *bias, *h0, *c0;  // c0, cT: null unless lstm
  T *y, *hT, *cT, *reserve;             // reserve: null for inference
  template <class P>
  static ForwardTensors of(const P& p, Args t) {
    ForwardTensors f{t[P::x].template as<const T>(),
                     t[P::w].template as<const T>(),
                     t[P::r].template as<const T>(),
                     t[P::bias].template as<const T>(),
                     t[P::h0].template as<const T>(),
                     nullptr,
                     t[P::y].template as<T>(),
                     t[P::hT].template as<T>(),
                     nullptr,
                     p.inference ? nullptr : t[P::reserve].template as<T>()};
    if constexpr (P::has_c) {
      f.c0 = t[P::c0].template as<const T>();
      f.cT = t[P::cT].template as<T>();
    }
    return f;
  }
};
template <class T>
struct BackwardTensors {
  const T *x, *w, *r, *h0, *c0, *y, *reserve, *dy, *dhT, *dcT;  // dy: null where only the last states have gradients
  T *dx, *dw, *dr, *dbias, *dh0, *dc0;
  template <class P>
  static BackwardTensors of(const P& p, Args t) {
    BackwardTensors f{t[P::x].template as<const T>(),
                      t[P::w].template as<const T>(),
                      t[P::r].template as<const T>(),
                      t[P::h0].template as<const T>(),
                      nullptr,
                      t[P::y].template as<const T>(),
                      t[P::reserve].template as<const T>(),
                      p.last_only ? nullptr : t[P::dy].template as<const T>(),
                      t[P::dhT].template as<const T>(),
                      nullptr,
                      t[P::dx].template as<T>(),
                      t[P::dw].template as<T>(),
                      t[P::dr].template as<T>(),
                      t[P::dbias].template as<T>(),
                      t[P::dh0].template as<T>(),
                      nullptr};
    if constexpr (P::has_c) {
      f.c0 = t[P::c0].template as<const T>();
      f.dcT = t[P::dcT].template as<const T>();
      f.dc0 = t[P::dc0].template as<T>();
    }
    return f;
  }
};

// A unit's state before a step, from memory.
template <class T>
__device__ __forceinline__ float h_before(const Layer& p, const Unit& u, int64_t step, const T* y, const T* h0) {
  return float(step > 0 ? y[u.y_row(p, step - 1) + u.j] : h0[u.state(p)]);
}
template <class T>
__device__ __forceinline__ float c_before(const Layer& p, const Unit& u, int64_t step, const T* reserve, const T* c0) {
  constexpr int64_t K = kept_of(Cell::lstm);
  return float(step > 0 ? reserve[u.kept_row(p, step - 1, K) + (K - 1) * p.H + u.j] : c0[u.state(p)]);
}
// c passes from step to step in the reserve; for inference, in cT.
template <class T>
__device__ __forceinline__ float c_before(const Layer& p, const Unit& u, int64_t step, const ForwardTensors<T>& t) {
  return step > 0 && !t.reserve ? float(t.cT[u.state(p)]) : c_before(p, u, step, t.reserve, t.c0);
}

// Loads what backward_unit needs at a step and calls it. dh as there, before dy is added.
template <Cell kCell, class T>
__device__ __forceinline__ void backward_at(const Layer& p, const Unit& u, int64_t step, const BackwardTensors<T>& t,
                                            float h, float& dh, float& dc, float (&da)[kSums<kCell>]) {
  constexpr int64_t K = kept_of(kCell);
  const int64_t at = u.y_row(p, step) + u.j;
  float kept[kKept<kCell>] = {};
#pragma unroll
  for (int i = 0; i < static_cast<int>(K); ++i) kept[i] = float(t.reserve[u.kept_row(p, step, K) + i * p.H + u.j]);
  const float c = kCell == Cell::lstm ? c_before(p, u, step, t.reserve, t.c0) : 0;
  const float y = kCell == Cell::rnn_tanh ? float(t.y[at]) : 0;
  if (t.dy) dh += float(t.dy[at]);
  backward_unit<kCell>(kept, h, c, y, dh, dc, da);
}

// Writes y and, where it is kept, the reserve of a unit at a step.
template <Cell kCell, class T>
__device__ __forceinline__ void store_unit(const Layer& p, const Unit& u, int64_t step, const ForwardTensors<T>& t,
                                           float h, const float (&kept)[kKept<kCell>]) {
  constexpr int64_t K = kept_of(kCell);
  t.y[u.y_row(p, step) + u.j] = T(h);
  if (!t.reserve) return;
#pragma unroll
  for (int i = 0; i < static_cast<int>(K); ++i) t.reserve[u.kept_row(p, step, K) + i * p.H + u.j] = T(kept[i]);
}
// Zeros, at a time behind the last step of its sequence.
template <Cell kCell, class T>
__device__ __forceinline__ void store_no_unit(const Layer& p, const Unit& u, int64_t time, const ForwardTensors<T>& t) {
  constexpr int64_t K = kept_of(kCell);
  t.y[p.y_row(u.dir, u.b, time) + u.j] = T(0.0f);
  if (!t.reserve) return;
#pragma unroll
  for (int i = 0; i < static_cast<int>(K); ++i) t.reserve[p.kept_row(u.dir, u.b, time, K) + i * p.H + u.j] = T(0.0f);
}

// DUET_RECURRENT(naive) registers forward and backward of the three cells, each by itself and as one problem. Their
// plans are made by the file's plan(p, gpu) and plan_backward(p, gpu).
#define DUET_RECURRENT_CELL(Problem, op, variant)                                                             \
  Plan op##_##variant(const Problem& p, GpuContext& gpu) { return plan(p, gpu); }                             \
  DUET_REGISTER(op##_##variant);                                                                              \
  Plan op##_backward_##variant(const Problem##Backward& p, GpuContext& gpu) { return plan_backward(p, gpu); } \
  DUET_REGISTER(op##_backward_##variant);                                                                     \
  Plan op##_training_##variant(const Problem##Training& p, GpuContext& gpu) {                                 \
    return compose(                                                                                           \
        p, [&](const auto& pass) { return plan(pass, gpu); },                                                 \
        [&](const auto& pass) { return plan_backward(pass, gpu); },                                           \
        [&](const auto& drop) { return registered_plan(drop, #variant, gpu); });                              \
  }                                                                                                           \
  DUET_REGISTER(op##_training_##variant)
#define DUET_RECURRENT(variant)                    \
  DUET_RECURRENT_CELL(RnnTanh, rnn_tanh, variant); \
  DUET_RECURRENT_CELL(Gru, gru, variant);          \
  DUET_RECURRENT_CELL(Lstm, lstm, variant)

}  // namespace duet::DUET_DEVICE
