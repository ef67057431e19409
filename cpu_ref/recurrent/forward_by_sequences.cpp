// SPDX-License-Identifier: Apache-2.0
// Forward of the recurrent layers where weights are small. A thread takes a slice of the sequences (by_sequences.h)
// through all steps, so no step waits for other threads. The state and the gates of the slice stay in L1, the packed
// weights in L1 or L2. x and h lie side by side, so that a step is one product of the matrix engine's register tiles:
// of f32, or of pairs of bf16 where the CPU multiplies those faster.
// Multiplying x for all steps at once would only move its result through memory. Called by recurrent_tuned.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/recurrent/forward_by_sequences.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <cstring>

#include "cpu_ref/recurrent/by_sequences.h"
#include "cpu_ref/recurrent/cell-inl.h"
#include "cpu_ref/recurrent/lengths.h"
#include "cpu_ref/scratch.h"

#ifndef DUET_CPU_REF_RECURRENT_FORWARD_BY_SEQUENCES_ONCE_
#define DUET_CPU_REF_RECURRENT_FORWARD_BY_SEQUENCES_ONCE_
namespace duet::recurrent {

// The packed weights of a direction, and their biases (parts, units.columns()).
struct ForwardWeights {
  Strips units;  // of one part: rows for x, then rows for h, `h_first` from the first
  int64_t h_first;
  const float *packed, *bias;
  int64_t pitch() const {
    return ceil_div(units.k, units.kernel.lanes) * units.kernel.lanes;
  }  // floats, or pairs, of a row of x and h
};

}  // namespace duet::recurrent
#endif

HWY_BEFORE_NAMESPACE();
namespace duet::recurrent::HWY_NAMESPACE {

// The first `rows` of the sequences, in one direction, all steps. scratch: x and h side by side, sums, c, and with
// pairs h in f32; a row of each per sequence.
template <Cell kCell, class T>
void forward_of(const Layer& p, const ForwardTensors& t, const ForwardWeights& w, int64_t dir, const Rows& sequences,
                int64_t rows, float* scratch) {
  constexpr Parts kParts = parts_of(kCell);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t I = p.I, H = p.H, pitch = w.pitch(), wide = w.units.columns(), sums_row = kParts.count * wide;
  float *xh = scratch, *sums = xh + rows * pitch, *c = sums + rows * sums_row;
  const bool pairs = w.units.pairs;
  float* const h_rows = pairs ? c + rows * wide : xh + I;
  const int64_t h_pitch = pairs ? wide : pitch;
  if (pairs) std::fill_n(xh, rows * pitch, 0.0f);  // the second half of the last pair of x or h
  // The state before the first step.
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t state = p.state_at(dir, sequences[i].b);
    const T* h0 = static_cast<const T*>(t.h0) + state;
    for (int64_t j = 0; j < H; ++j) h_rows[i * h_pitch + j] = static_cast<float>(h0[j]);
    if (t.c0) widen_row(static_cast<const T*>(t.c0) + state, H, wide, c + i * wide);
  }
  const int64_t steps = sequences.max_steps(rows);
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t now = sequences.with_step(step, rows);
    // x of the step, beside h.
    for (int64_t i = 0; i < now; ++i) {
      const T* x = static_cast<const T*>(t.x) + p.x_at(dir, step, sequences[i]);
      if (pairs) {
        std::copy_n(x, I, reinterpret_cast<T*>(xh + i * pitch));
        narrow_row(h_rows + i * h_pitch, H, reinterpret_cast<T*>(xh + i * pitch + w.h_first));
        continue;
      }
      for (int64_t j = 0; j < I; j += lanes) store(d, load_as_f32(d, x + j, I - j), xh + i * pitch + j, I - j);
    }
    // Sums of all parts.
    for (int64_t part = 0; part < kParts.count; ++part) {
      const int64_t first = kParts.x_enters(part) ? 0 : w.h_first, end = kParts.h_enters(part) ? w.units.k : w.h_first;
      for (int64_t s = 0; s < w.units.count(); ++s)
        multiply(w.units.kernel,
                 {.a = xh + first,
                  .a_row = pitch,
                  .a_k = 1,
                  .b = w.packed + part * w.units.floats() + s * w.units.strip_floats() + first * w.units.step(s),
                  .b_k = w.units.step(s),
                  .width = w.units.width(s),
                  .to = sums + part * wide + s * w.units.kernel.columns,
                  .to_pitch = sums_row,
                  .bias = w.bias + part * wide + s * w.units.kernel.columns,
                  .pairs = pairs},
                 now, end - first);
    }
    // Gates and new states.
    for (int64_t i = 0; i < now; ++i) {
      float* h = h_rows + i * h_pitch;
      const Sequence sequence = sequences[i];
      forward_row<kCell, false, T>(
          {.sums = sums + i * sums_row,
           .sums_step = wide,
           .H = H,
           .from_x = nullptr,
           .h_before = h,
           .h = h,
           .c = c + i * wide,
           .reserve = p.inference ? nullptr : static_cast<T*>(t.reserve) + p.kept_at(dir, step, sequence),
           .y = static_cast<T*>(t.y) + p.y_at(dir, step, sequence)},
          H);
    }
  }
  // The state after the last step.
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t state = p.state_at(dir, sequences[i].b);
    narrow_row(h_rows + i * h_pitch, H, static_cast<T*>(t.hT) + state);
    if (t.cT) narrow_row(c + i * wide, H, static_cast<T*>(t.cT) + state);
  }
}

void forward_slice(const Layer& p, const ForwardTensors& t, const ForwardWeights& w, int64_t dir, const Rows& sequences,
                   int64_t rows, float* scratch) {
  for_cell(p, [&]<Cell kCell, class T>() { forward_of<kCell, T>(p, t, w, dir, sequences, rows, scratch); });
  clear_padding(p, t, dir, sequences, rows);
}

}  // namespace duet::recurrent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet::recurrent {
namespace {
HWY_EXPORT(forward_slice);
using engine::Matrix;

// Packs the weights of one part of one direction, and adds its biases.
void pack(const Layer& p, const ForwardTensors& t, const Strips& units, int64_t dir, int64_t part, float* packed,
          float* bias) {
  const Parts parts = parts_of(p.cell);
  const int64_t row = (dir * p.G() + parts.gate(part)) * p.H;
  for (int64_t s = 0; s < units.count(); ++s) {
    float* strip = packed + s * units.strip_floats();
    if (parts.x_enters(part)) units.pack(Matrix(element(t.w, p.dtype, row * p.I), p.dtype, p.I, 1), s, 0, p.I, strip);
    if (parts.h_enters(part))
      units.pack(Matrix(element(t.r, p.dtype, row * p.H), p.dtype, p.H, 1), s, units.depth(p.I), p.H, strip);
  }
  for (int64_t j = 0; j < p.H; ++j) {
    double sum = 0;
    for_biases(p, dir, part, [&](int64_t first) { sum += load_as_double(t.bias, p.dtype, first + j); });
    bias[j] = static_cast<float>(sum);
  }
}
}  // namespace

Plan forward_by_sequences(const Layer& p, ForwardTensors (*tensors)(const Layer&, Args), CpuContext& cpu) {
  const Parts parts = parts_of(p.cell);
  const Slices slices(p, cpu.threads(), p.D());
  ForwardWeights of{.units = {.lines = p.H, .k = 0, .pairs = multiplies_pairs(p.dtype)},
                    .h_first = 0,
                    .packed = nullptr,
                    .bias = nullptr};
  of.h_first = of.units.depth(p.I);
  of.units.k = of.h_first + of.units.depth(p.H);
  const int64_t wide = of.units.columns();
  WorkspaceLayout workspace;
  const auto packed_piece = workspace.add<float>(p.D() * parts.count * of.units.floats());
  const auto bias_piece = workspace.add<float>(p.D() * parts.count * wide);
  const Sorted sorted(p, workspace);
  const Scratch scratch(cpu, workspace, slices.rows * (of.pitch() + (parts.count + 2) * wide) + 64);
  auto run = [=, &cpu](Args args) {
    float *const packed = args.workspace(packed_piece), *const bias = args.workspace(bias_piece);
    const ForwardTensors t = tensors(p, args);
    const Rows sequences = sorted.rows(args, t.lengths);
    std::fill_n(bias, bias_piece.count, 0.0f);  // between the units and a whole strip
    cpu.parallel_for(p.D() * parts.count, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        pack(p, t, of.units, i / parts.count, i % parts.count, packed + i * of.units.floats(), bias + i * wide);
    });
    cpu.parallel_for(p.D() * slices.count, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t dir = i / slices.count, b0 = slices.row(i % slices.count);
        ForwardWeights w = of;
        w.packed = packed + dir * parts.count * of.units.floats();
        w.bias = bias + dir * parts.count * wide;
        HWY_DYNAMIC_DISPATCH(forward_slice)
        (p, t, w, dir, sequences.from(b0), slices.row(i % slices.count + 1) - b0, scratch.of_this_thread(args));
      }
    });
  };
  return Plan(std::move(run))
      .with(slices.describe() + (of.units.pairs ? ", products of pairs of bf16" : ""), std::move(workspace));
}

}  // namespace duet::recurrent
#endif
