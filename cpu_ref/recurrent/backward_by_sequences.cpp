// SPDX-License-Identifier: Apache-2.0
// Backward of the recurrent layers where weights are small: divided as forward_by_sequences.cpp, from the last step to
// the first. Each slice adds up its own gradients of the weights, some steps at a time, and the sums of the slices are
// added in order at the end. Called by recurrent_tuned.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/recurrent/backward_by_sequences.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <utility>

#include "cpu_ref/recurrent/by_sequences.h"
#include "cpu_ref/recurrent/cell-inl.h"
#include "cpu_ref/recurrent/lengths.h"
#include "cpu_ref/scratch.h"

#ifndef DUET_CPU_REF_RECURRENT_BACKWARD_BY_SEQUENCES_ONCE_
#define DUET_CPU_REF_RECURRENT_BACKWARD_BY_SEQUENCES_ONCE_
namespace duet::recurrent {

// One slice in one direction.
struct BackwardSlice {
  Strips to_x, to_h;  // w and r: a row for each gate that x or h enters
  int64_t ring;       // steps whose gradients are gathered for one product
  Rows sequences{};
  int64_t dir = 0, rows = 0;
  const float *packed_x = nullptr, *packed_h = nullptr;
  float *sums_x = nullptr, *sums_h = nullptr, *bias = nullptr;  // (x parts, I), (h parts, H), (parts, H), padded

  int64_t sums_floats() const { return to_x.k * to_x.columns() + to_h.k * to_h.columns(); }
  int64_t scratch_floats(int64_t max_rows, int64_t gates) const {  // dh, dc, dx; the ring's gates, x and h
    const int64_t wide = to_h.columns(), wide_i = to_x.columns();
    return max_rows * (2 * wide + wide_i + ring * (gates + wide_i + wide)) + 64;
  }
};

}  // namespace duet::recurrent
#endif

HWY_BEFORE_NAMESPACE();
namespace duet::recurrent::HWY_NAMESPACE {

// All steps of a slice.
template <Cell kCell, class T>
void backward_of(const Layer& p, const BackwardTensors& t, const BackwardSlice& slice, float* scratch) {
  constexpr Parts kParts = parts_of(kCell);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Strips &to_x = slice.to_x, &to_h = slice.to_h;
  const Rows& sequences = slice.sequences;
  const int64_t I = p.I, H = p.H, rows = slice.rows, dir = slice.dir, gates = kParts.count * H;
  const int64_t wide = to_h.columns(), wide_i = to_x.columns();
  float *dh = scratch, *dc = dh + rows * wide, *dx = dc + rows * wide, *ring = dx + rows * wide_i;
  float *ring_x = ring + slice.ring * rows * gates, *ring_h = ring_x + slice.ring * rows * wide_i;
  const auto *y = static_cast<const T*>(t.y), *reserve = static_cast<const T*>(t.reserve);
  // The gradient of the last state; sums of 0.
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t state = p.state_at(dir, sequences[i].b);
    widen_row(static_cast<const T*>(t.dhT) + state, H, wide, dh + i * wide);
    if (t.dcT) widen_row(static_cast<const T*>(t.dcT) + state, H, wide, dc + i * wide);
  }
  std::fill_n(slice.bias, kParts.count * wide, 0.0f);
  std::fill_n(slice.sums_x, to_x.k * wide_i, 0.0f);
  std::fill_n(slice.sums_h, to_h.k * wide, 0.0f);

  int64_t waiting = 0;  // rows gathered in the ring
  for (int64_t step = sequences.max_steps(rows) - 1; step >= 0; --step) {
    const int64_t now = sequences.with_step(step, rows);
    float *da = ring + waiting * gates, *x_rows = ring_x + waiting * wide_i, *h_rows = ring_h + waiting * wide;
    // Gradients before the gates. With lengths the rows of a step do not lie one after the other.
    const auto from_row = [&](int64_t i) {
      const Sequence sequence = sequences[i];
      const int64_t state = p.state_at(dir, sequence.b);
      BackwardRows<T> s{};
      s.H = H;
      s.reserve = reserve + p.kept_at(dir, step, sequence);
      s.y = y + p.y_at(dir, step, sequence);
      s.y_row = p.D() * H;
      s.dy = p.last_only ? nullptr : static_cast<const T*>(t.dy) + p.y_at(dir, step, sequence);
      s.h = step > 0 ? y + p.y_at(dir, step - 1, sequence) : static_cast<const T*>(t.h0) + state;
      s.h_row = step > 0 ? p.D() * H : H;
      if (t.c0) {
        s.c = step > 0 ? reserve + p.kept_at(dir, step - 1, sequence) + 4 * H : static_cast<const T*>(t.c0) + state;
        s.c_row = step > 0 ? p.K() * H : H;
      }
      s.dh = dh + i * wide;
      s.dc = dc + i * wide;
      s.state_row = wide;
      s.gates = da + i * gates;
      s.gates_row = gates;
      s.bias = slice.bias;
      s.bias_step = wide;
      return s;
    };
    if (!p.padded) backward_rows<kCell>(from_row(0), rows, H);
    for (int64_t i = 0; p.padded && i < now; ++i) backward_rows<kCell>(from_row(i), 1, H);
    // dh of the step before.
    for (int64_t i = 0; i < to_h.count(); ++i)
      multiply(to_h.kernel,
               {.a = da,
                .a_row = gates,
                .a_k = 1,
                .b = slice.packed_h + i * to_h.strip_floats(),
                .b_k = to_h.step(i),
                .width = to_h.width(i),
                .to = dh + i * to_h.kernel.columns,
                .to_pitch = wide,
                .add = kCell == Cell::gru},
               now, to_h.k);

    // dx. The second direction adds to what the first one left there.
    T* dx_rows = static_cast<T*>(t.dx) + p.x_at(dir, step, sequences[0]);
    const bool in_place = std::is_same_v<T, float> && I == wide_i && !p.padded;
    for (int64_t i = 0; i < to_x.count(); ++i)
      multiply(to_x.kernel,
               {.a = da + kParts.x_first * H,
                .a_row = gates,
                .a_k = 1,
                .b = slice.packed_x + i * to_x.strip_floats(),
                .b_k = to_x.step(i),
                .width = to_x.width(i),
                .to = (in_place ? reinterpret_cast<float*>(dx_rows) : dx) + i * to_x.kernel.columns,
                .to_pitch = wide_i,
                .add = in_place && dir == 1},
               now, to_x.k);
    for (int64_t i = 0; !in_place && i < now; ++i) {
      T* dx_row = static_cast<T*>(t.dx) + p.x_at(dir, step, sequences[i]);
      for (int64_t j = 0; j < I; j += lanes) {
        auto v = at(dx + i * wide_i + j);
        if (dir == 1) v = hn::Add(v, load_as_f32(d, dx_row + j, I - j));
        store_f32_as(d, v, dx_row + j, I - j);
      }
    }

    // Gather x and h for the products with the gradients.
    for (int64_t i = 0; i < now; ++i) {
      widen_row(static_cast<const T*>(t.x) + p.x_at(dir, step, sequences[i]), I, wide_i, x_rows + i * wide_i);
      widen_row(from_row(i).h, H, wide, h_rows + i * wide);
    }
    waiting += now;
    if (waiting + rows <= slice.ring * rows && step > 0) continue;
    // Gradients of the weights, once the ring is full or the steps are done.
    const int64_t k = std::exchange(waiting, 0);
    const auto add_product = [&](const Strips& of, const float* lines, const float* other, float* to) {
      for (int64_t i = 0; i < of.count(); ++i)
        multiply(of.kernel,
                 {.a = lines,
                  .a_row = 1,
                  .a_k = gates,
                  .b = other + i * of.kernel.columns,
                  .b_k = of.columns(),
                  .width = of.width(i),
                  .to = to + i * of.kernel.columns,
                  .to_pitch = of.columns(),
                  .add = true},
                 of.k, k);
    };
    add_product(to_x, ring + kParts.x_first * H, ring_x, slice.sums_x);
    add_product(to_h, ring, ring_h, slice.sums_h);
  }
  // The gradient of the first state.
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t state = p.state_at(dir, sequences[i].b);
    narrow_row(dh + i * wide, H, static_cast<T*>(t.dh0) + state);
    if (t.dc0) narrow_row(dc + i * wide, H, static_cast<T*>(t.dc0) + state);
  }
}

void backward_slice(const Layer& p, const BackwardTensors& t, const BackwardSlice& slice, float* scratch) {
  for_cell(p, [&]<Cell kCell, class T>() { backward_of<kCell, T>(p, t, slice, scratch); });
  clear_padding(p, t, slice.sequences, slice.rows);
}

}  // namespace duet::recurrent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet::recurrent {
namespace {
HWY_EXPORT(backward_slice);
HWY_EXPORT(add_runs);
using engine::Matrix;

// Packs the weights of one part of one direction.
void pack(const Layer& p, const BackwardTensors& t, const BackwardSlice& of, int64_t dir, int64_t part, float* packed_x,
          float* packed_h) {
  const Parts parts = parts_of(p.cell);
  const int64_t row = (dir * p.G() + parts.gate(part)) * p.H;
  const Matrix w(element(t.w, p.dtype, row * p.I), p.dtype, 1, p.I),
      r(element(t.r, p.dtype, row * p.H), p.dtype, 1, p.H);
  for (int64_t s = 0; parts.x_enters(part) && s < of.to_x.count(); ++s)
    of.to_x.pack(w, s, (part - parts.x_first) * p.H, p.H, packed_x + s * of.to_x.strip_floats());
  for (int64_t s = 0; parts.h_enters(part) && s < of.to_h.count(); ++s)
    of.to_h.pack(r, s, part * p.H, p.H, packed_h + s * of.to_h.strip_floats());
}
}  // namespace

Plan backward_by_sequences(const Layer& p, BackwardTensors (*tensors)(const Layer&, Args), CpuContext& cpu) {
  const Parts parts = parts_of(p.cell);
  const Slices slices(p, cpu.threads(), 1);
  const BackwardSlice of{.to_x = {.lines = p.I, .k = parts.x_count() * p.H},
                         .to_h = {.lines = p.H, .k = parts.h_count * p.H},
                         .ring = slices.ring};
  const int64_t weights = of.to_x.floats() + of.to_h.floats(), wide = of.to_h.columns(), wide_i = of.to_x.columns();
  const int64_t own = of.sums_floats() + parts.count * wide;  // floats of sums of one slice in one direction
  WorkspaceLayout workspace;
  const auto packed_piece = workspace.add<float>(p.D() * weights);
  const auto sums_piece = workspace.add<float>(slices.count * p.D() * own);
  const Sorted sorted(p, workspace);
  const Scratch scratch(cpu, workspace, of.scratch_floats(slices.rows, parts.count * p.H));
  auto run = [=, &cpu](Args args) {
    float *const packed = args.workspace(packed_piece), *const sums = args.workspace(sums_piece);
    const BackwardTensors t = tensors(p, args);
    const Rows sequences = sorted.rows(args, t.lengths);
    cpu.parallel_for(p.D() * parts.count, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        float* to = packed + i / parts.count * weights;
        pack(p, t, of, i / parts.count, i % parts.count, to, to + of.to_x.floats());
      }
    });

    cpu.parallel_for(slices.count, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        for (int64_t dir = 0; dir < p.D(); ++dir) {
          BackwardSlice slice = of;
          slice.dir = dir;
          slice.sequences = sequences.from(slices.row(i));
          slice.rows = slices.row(i + 1) - slices.row(i);
          slice.packed_x = packed + dir * weights;
          slice.packed_h = slice.packed_x + of.to_x.floats();
          slice.sums_x = sums + (i * p.D() + dir) * own;
          slice.sums_h = slice.sums_x + of.to_x.k * wide_i;
          slice.bias = slice.sums_x + of.sums_floats();
          HWY_DYNAMIC_DISPATCH(backward_slice)(p, t, slice, scratch.of_this_thread(args));
        }
    });

    // Add the sums of the slices: dw and dr a row at a time, then the biases.
    cpu.parallel_for(p.D() * parts.count * p.H, 64, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t j = i % p.H, part = i / p.H % parts.count, dir = i / p.H / parts.count;
        const int64_t row = (dir * p.G() + parts.gate(part)) * p.H + j;
        const float* from = sums + dir * own;
        const auto add = [&](const float* run, int64_t n, void* to) {
          HWY_DYNAMIC_DISPATCH(add_runs)(p.dtype, run, slices.count, p.D() * own, n, to, row * n);
        };
        if (parts.x_enters(part)) add(from + ((part - parts.x_first) * p.H + j) * wide_i, p.I, t.dw);
        if (parts.h_enters(part)) add(from + of.to_x.k * wide_i + (part * p.H + j) * wide, p.H, t.dr);
      }
    });
    for (int64_t i = 0; i < p.D() * parts.count; ++i) {
      const int64_t part = i % parts.count, dir = i / parts.count;
      for_biases(p, dir, part, [&](int64_t at) {
        HWY_DYNAMIC_DISPATCH(add_runs)
        (p.dtype, sums + dir * own + of.sums_floats() + part * wide, slices.count, p.D() * own, p.H, t.dbias, at);
      });
    }
  };
  return Plan(std::move(run)).with(slices.describe(), std::move(workspace));
}

}  // namespace duet::recurrent
#endif
