// SPDX-License-Identifier: Apache-2.0
// A recurrent layer with its cell as a value (RnnTanh, Gru and Lstm of ops/ have it as a type), so that the plans of
// this folder are written once for all cells. Included by all files of the folder. recurrent_tuned.cpp chooses between
// the two ways to walk over the steps, which are declared at the end.
#pragma once
#include <algorithm>
#include <string>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "ops/recurrent/compose_training.h"

namespace duet::recurrent {

// A sequence and its number of steps.
struct Sequence {
  int64_t b, steps;
};

struct Layer : RecurrentShape {
  Cell cell;
  bool last_only = false, inference = false;

  template <class P>
  explicit Layer(const P& p) : RecurrentShape(p), cell(P::kind) {
    if constexpr (requires { p.last_only; }) last_only = p.last_only;
    if constexpr (requires { p.inference; }) inference = p.inference;
  }
  bool has_c() const { return cell == Cell::lstm; }
  int64_t D() const { return directions(); }
  int64_t G() const { return gates_of(cell); }
  int64_t K() const { return kept_of(cell); }

  // Where rows begin in the tensors. Step 0 is the first one of its direction, at time(dir, 0, ...).
  static int64_t time(int64_t dir, int64_t step, int64_t steps) { return dir == 0 ? step : steps - 1 - step; }
  int64_t x_at(int64_t dir, int64_t step, Sequence s) const { return (time(dir, step, s.steps) * B + s.b) * I; }
  int64_t state_at(int64_t dir, int64_t b) const { return (dir * B + b) * H; }
  int64_t y_at(int64_t dir, int64_t step, Sequence s) const { return y_row(dir, time(dir, step, s.steps), s.b); }
  int64_t kept_at(int64_t dir, int64_t step, Sequence s) const { return kept_row(dir, time(dir, step, s.steps), s.b); }
  int64_t y_row(int64_t dir, int64_t t, int64_t b) const { return (t * B + b) * D() * H + dir * H; }
  int64_t kept_row(int64_t dir, int64_t t, int64_t b) const { return ((dir * T + t) * B + b) * K() * H; }
};

// Some of the sequences: those from b0 on, or with lengths those that `sorted` points to, the longest first, so that at
// each step those that have it come first.
struct Rows {
  int64_t T, b0;
  const Sequence* sorted = nullptr;  // with lengths

  Sequence operator[](int64_t i) const { return sorted ? sorted[i] : Sequence{b0 + i, T}; }
  Rows from(int64_t i) const { return {T, b0 + i, sorted ? sorted + i : nullptr}; }
  // How many of the first `rows` have this step.
  int64_t with_step(int64_t step, int64_t rows) const {
    if (!sorted) return step < T ? rows : 0;
    return std::partition_point(sorted, sorted + rows, [&](const Sequence& s) { return s.steps > step; }) - sorted;
  }
  int64_t max_steps(int64_t rows) const { return rows == 0 ? 0 : (*this)[0].steps; }
};

// The sums that a step forms, H of them for each part. Parts that h enters come first, parts that x enters last. gru
// has four: m, z, r, n, where m is the part of h in n.
struct Parts {
  int64_t count, h_count, x_first;
  int64_t x_count() const { return count - x_first; }
  constexpr bool x_enters(int64_t part) const { return part >= x_first; }
  constexpr bool h_enters(int64_t part) const { return part < h_count; }
  int64_t gate(int64_t part) const { return x_first == 0 ? part : (part + 2) % 3; }  // which gate of w, r and bias
};
constexpr Parts parts_of(Cell c) { return c == Cell::gru ? Parts{4, 3, 1} : Parts{gates_of(c), gates_of(c), 0}; }

template <class P>
const int32_t* lengths_of(const Layer& p, Args t) {
  return p.padded ? t[P::lengths].template as<const int32_t>() : nullptr;
}

// The tensors of a call. c0, cT, dcT and dc0 are null except for lstm; lengths is null for layers without.
struct ForwardTensors {
  const void *x, *w, *r, *bias, *h0, *c0;
  void *y, *hT, *cT, *reserve;
  const int32_t* lengths;
  template <class P>
  static ForwardTensors of(const Layer& p, Args t) {
    ForwardTensors f{t[P::x].data, t[P::w].data,  t[P::r].data, t[P::bias].data,    t[P::h0].data,      nullptr,
                     t[P::y].data, t[P::hT].data, nullptr,      t[P::reserve].data, lengths_of<P>(p, t)};
    if constexpr (P::has_c) {
      f.c0 = t[P::c0].data;
      f.cT = t[P::cT].data;
    }
    return f;
  }
};
struct BackwardTensors {
  const void *x, *w, *r, *h0, *c0, *y, *reserve, *dy, *dhT, *dcT;
  void *dx, *dw, *dr, *dbias, *dh0, *dc0;
  const int32_t* lengths;
  template <class P>
  static BackwardTensors of(const Layer& p, Args t) {
    BackwardTensors f{t[P::x].data,  t[P::w].data,       t[P::r].data,  t[P::h0].data,    nullptr,
                      t[P::y].data,  t[P::reserve].data, t[P::dy].data, t[P::dhT].data,   nullptr,
                      t[P::dx].data, t[P::dw].data,      t[P::dr].data, t[P::dbias].data, t[P::dh0].data,
                      nullptr,       lengths_of<P>(p, t)};
    if constexpr (P::has_c) {
      f.c0 = t[P::c0].data;
      f.dcT = t[P::dcT].data;
      f.dc0 = t[P::dc0].data;
    }
    return f;
  }
};

// Calls use(index) for each run of H biases that enter a part. Where a cell has two sets of biases, the second enters
// with h.
void for_biases(const Layer& p, int64_t dir, int64_t part, auto&& use) {
  const Parts parts = parts_of(p.cell);
  const int64_t biases = biases_of(p.cell), first = (dir * biases * p.G() + parts.gate(part)) * p.H;
  if (parts.x_enters(part)) use(first);
  if (biases == 2 && parts.h_enters(part)) use(first + p.G() * p.H);
}

inline const void* element(const void* data, DType dtype, int64_t index) {
  return static_cast<const char*>(data) + index * size_of(dtype);
}
inline void* element(void* data, DType dtype, int64_t index) {
  return static_cast<char*>(data) + index * size_of(dtype);
}

// Each thread takes a slice of the sequences through all steps.
Plan forward_by_sequences(const Layer& p, ForwardTensors (*tensors)(const Layer&, Args), CpuContext& cpu);
Plan backward_by_sequences(const Layer& p, BackwardTensors (*tensors)(const Layer&, Args), CpuContext& cpu);
// All threads share each step.
Plan forward_by_units(const Layer& p, ForwardTensors (*tensors)(const Layer&, Args), CpuContext& cpu);
Plan backward_by_units(const Layer& p, BackwardTensors (*tensors)(const Layer&, Args), CpuContext& cpu);

}  // namespace duet::recurrent
