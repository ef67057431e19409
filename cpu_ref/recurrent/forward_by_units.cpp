// SPDX-License-Identifier: Apache-2.0
// Forward of the recurrent layers by units, mostly where weights are large. First x is multiplied for all steps at
// once, by one product for each direction, which leaves its sums where the step will write its gates (in y, for the
// cell that keeps none).
// Then all threads share each step: a task (by_units.h) multiplies h by its strip of r and goes on to the new states of
// its units. So each strip of r is read once a step, by one thread. Called by recurrent_tuned.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/recurrent/forward_by_units.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <cstring>

#include "cpu_ref/recurrent/by_units.h"
#include "cpu_ref/recurrent/cell-inl.h"
#include "cpu_ref/recurrent/lengths.h"
#include "cpu_ref/scratch.h"

#ifndef DUET_CPU_REF_RECURRENT_FORWARD_BY_UNITS_ONCE_
#define DUET_CPU_REF_RECURRENT_FORWARD_BY_UNITS_ONCE_
namespace duet::recurrent {

// What all tasks of a step share. packed: (D, strips, h parts) strips of r. bias: (D, h parts, units.columns()), read
// by gru only. h before and after the step, and c: (D, B) rows in the order of `sequences`, `pitch` floats apart.
// left: the left operand of this step's products. left_after: that of the next step's, written by this one. They are h
// itself in f32; with pairs, copies of h in bf16.
struct ForwardStep {
  const Tasks* tasks;
  Rows sequences;
  int64_t step, pitch;
  const float *packed, *bias, *before;
  float *after, *c;
  int64_t left_pitch;
  const float* left;
  float* left_after;
};

}  // namespace duet::recurrent
#endif

HWY_BEFORE_NAMESPACE();
namespace duet::recurrent::HWY_NAMESPACE {

// One task of one step. sums: scratch for (rows, h parts, columns).
template <Cell kCell, class T>
void forward_of(const Layer& p, const ForwardTensors& t, const ForwardStep& s, const Task& task, float* sums) {
  constexpr Parts kParts = parts_of(kCell);
  const Strips& units = s.tasks->units;
  const Rows sequences = s.sequences.from(task.b0);
  const int64_t columns = units.kernel.columns, row = task.dir * p.B + task.b0;
  const int64_t rows = sequences.with_step(s.step, task.rows);
  const float* strips = s.packed + (task.dir * units.count() + task.strip) * kParts.h_count * units.strip_floats();
  // h times the strip of r.
  for (int64_t part = 0; part < kParts.h_count; ++part)
    multiply(units.kernel,
             {.a = s.left + row * s.left_pitch,
              .a_row = s.left_pitch,
              .a_k = 1,
              .b = strips + part * units.strip_floats(),
              .b_k = units.step(task.strip),
              .width = units.width(task.strip),
              .to = sums + part * columns,
              .to_pitch = kParts.h_count * columns,
              .bias = s.bias ? s.bias + (task.dir * kParts.h_count + part) * units.columns() + task.unit : nullptr,
              .pairs = units.pairs},
             rows, units.k);
  // Gates and new states.
  for (int64_t i = 0; i < rows; ++i) {
    const Sequence sequence = sequences[i];
    T* kept = static_cast<T*>(t.reserve) + p.kept_at(task.dir, s.step, sequence) + task.unit;
    T* y = static_cast<T*>(t.y) + p.y_at(task.dir, s.step, sequence) + task.unit;
    const int64_t state = (row + i) * s.pitch + task.unit;
    forward_row<kCell, true, T>({.sums = sums + i * kParts.h_count * columns,
                                 .sums_step = columns,
                                 .H = p.H,
                                 .from_x = kCell == Cell::rnn_tanh ? y : kept,
                                 .h_before = s.before + state,
                                 .h = s.after + state,
                                 .c = s.c + state,
                                 .reserve = p.inference ? nullptr : kept,
                                 .y = y},
                                task.units);
    if (units.pairs)
      narrow_row(s.after + state, task.units,
                 reinterpret_cast<T*>(s.left_after + (row + i) * s.left_pitch) + task.unit);
  }
}

void forward_units(const Layer& p, const ForwardTensors& t, const ForwardStep& s, const Task& task, float* sums) {
  for_cell(p, [&]<Cell kCell, class T>() { forward_of<kCell, T>(p, t, s, task, sums); });
}

// States (D, B, H) to f32, in the order of the sequences, and back. `from`: those after an even number of steps, and
// those after an odd one.
void widen_states(const Layer& p, const void* from, const Rows& sequences, int64_t pitch, float* to) {
  for_float(p.dtype, [&]<class T>() {
    for (int64_t i = 0; i < p.D() * p.B; ++i)
      widen_row(static_cast<const T*>(from) + p.state_at(i / p.B, sequences[i % p.B].b), p.H, p.H, to + i * pitch);
  });
}
void narrow_states(const Layer& p, const float* const (&from)[2], const Rows& sequences, int64_t pitch, void* to) {
  for_float(p.dtype, [&]<class T>() {
    for (int64_t i = 0; i < p.D() * p.B; ++i) {
      const Sequence s = sequences[i % p.B];
      narrow_row(from[s.steps % 2] + i * pitch, p.H, static_cast<T*>(to) + p.state_at(i / p.B, s.b));
    }
  });
}

}  // namespace duet::recurrent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet::recurrent {
namespace {
HWY_EXPORT(forward_units);
HWY_EXPORT(widen_states);
HWY_EXPORT(narrow_states);
using engine::Matrix;
}  // namespace

Plan forward_by_units(const Layer& p, ForwardTensors (*tensors)(const Layer&, Args), CpuContext& cpu) {
  const Parts parts = parts_of(p.cell);
  const bool pairs = multiplies_pairs(p.dtype);
  const Tasks tasks(p, p.H, cpu.threads(), pairs);
  const Strips units = tasks.units;
  const int64_t D = p.D(), wide = units.columns(), pitch = tasks.pitch(p.H), states = D * p.B * pitch;
  const int64_t left_pitch = pairs ? tasks.pitch(units.k) : pitch, lefts = pairs ? D * p.B * left_pitch : 0;
  const int64_t of_strip = parts.h_count * units.strip_floats(),
                biases = p.cell == Cell::gru ? D * parts.h_count * wide : 0;
  const engine::Storage along_k{.dtype = p.dtype, .along_k = true};
  WorkspaceLayout workspace;
  engine::Engine from_x(cpu, workspace,
                        {.m = p.T * p.B, .n = p.G() * p.H, .k = p.I, .result = p.dtype, .a = along_k, .b = along_k});
  const auto packed_piece = workspace.add<float>(D * units.count() * of_strip);
  const auto bias_piece = workspace.add<float>(biases);
  const auto h_piece = workspace.add<float>(2 * states), c_piece = workspace.add<float>(p.has_c() ? states : 0);
  const auto left_piece = workspace.add<float>(2 * lefts);
  // For inference: where the sums of x lie, in place of the reserve.
  const auto ahead = workspace.add_bytes(p.inference ? D * p.T * p.B * p.K() * p.H * size_of(p.dtype) : 0);
  const Sorted sorted(p, workspace);
  const Scratch scratch(cpu, workspace, tasks.max_rows() * parts.h_count * units.kernel.columns);
  const std::string algorithm =
      "x ahead: " + from_x.describe() + "; " + tasks.describe() + (pairs ? ", of pairs of bf16" : "");
  auto run = [=, from_x = std::move(from_x), &cpu](Args args) {
    ForwardTensors t = tensors(p, args);
    const Rows sequences = sorted.rows(args, t.lengths);
    float *const packed = args.workspace(packed_piece), *const bias = args.workspace(bias_piece);
    float *const h = args.workspace(h_piece), *const c = args.workspace(c_piece);
    std::fill_n(bias, biases, 0.0f);  // also those between H and a whole strip
    if (p.inference) t.reserve = args.workspace(ahead);
    // x, multiplied for all steps.
    for (int64_t dir = 0; dir < D; ++dir) {
      const int64_t row = dir * p.G() * p.H;
      const bool in_y = p.cell == Cell::rnn_tanh;
      const engine::Result to{
          .c = in_y ? element(t.y, p.dtype, dir * p.H) : element(t.reserve, p.dtype, dir * p.T * p.B * p.K() * p.H),
          .dtype = p.dtype,
          .step = in_y ? D * p.H : p.K() * p.H,
          .bias = element(t.bias, p.dtype, row * biases_of(p.cell))};
      from_x.each(args, [&](int64_t, float* memory) {
        from_x.multiply(Matrix(t.x, p.dtype, p.I, 1), Matrix(element(t.w, p.dtype, row * p.I), p.dtype, p.I, 1), to,
                        memory);
      });
    }
    cpu.parallel_for(p.padded ? D * p.B : 0, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) clear_padding(p, t, i / p.B, sequences.from(i % p.B), 1);
    });

    // Pack r, and for gru the biases that enter with h.
    cpu.parallel_for(D * units.count() * parts.h_count, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t part = i % parts.h_count, s = i / parts.h_count % units.count(),
                      dir = i / parts.h_count / units.count();
        const int64_t row = (dir * p.G() + parts.gate(part)) * p.H;
        units.pack(Matrix(element(t.r, p.dtype, row * p.H), p.dtype, p.H, 1), s, 0, p.H,
                   packed + i * units.strip_floats());
      }
    });
    for (int64_t i = 0; biases > 0 && i < D * parts.h_count; ++i) {
      const int64_t dir = i / parts.h_count, gate = parts.gate(i % parts.h_count);
      for (int64_t j = 0; j < p.H; ++j)
        bias[i * wide + j] =
            static_cast<float>(load_as_double(t.bias, p.dtype, ((2 * dir + 1) * p.G() + gate) * p.H + j));
    }

    // All steps; h alternates between two places.
    float* const state[] = {h, h + states};
    float* const halves = args.workspace(left_piece);
    float* const left[] = {pairs ? halves : h, pairs ? halves + lefts : h + states};
    std::fill_n(halves, 2 * lefts, 0.0f);  // the second half of a last pair
    for (int64_t i = 0; pairs && i < D * p.B; ++i)
      std::copy_n(static_cast<const bf16*>(t.h0) + p.state_at(i / p.B, sequences[i % p.B].b), p.H,
                  reinterpret_cast<bf16*>(halves + i * left_pitch));
    HWY_DYNAMIC_DISPATCH(widen_states)(p, t.h0, sequences, pitch, state[0]);
    if (t.c0) HWY_DYNAMIC_DISPATCH(widen_states)(p, t.c0, sequences, pitch, c);
    const int64_t steps = sequences.max_steps(p.B);
    for (int64_t step = 0; step < steps; ++step) {
      const ForwardStep s{.tasks = &tasks,
                          .sequences = sequences,
                          .step = step,
                          .pitch = pitch,
                          .packed = packed,
                          .bias = bias,
                          .before = state[step % 2],
                          .after = state[(step + 1) % 2],
                          .c = c,
                          .left_pitch = left_pitch,
                          .left = left[step % 2],
                          .left_after = left[(step + 1) % 2]};
      cpu.parallel_for(tasks.count, tasks.grain, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i)
          HWY_DYNAMIC_DISPATCH(forward_units)(p, t, s, tasks.task(i), scratch.of_this_thread(args));
      });
    }
    HWY_DYNAMIC_DISPATCH(narrow_states)(p, {state[0], state[1]}, sequences, pitch, t.hT);
    if (t.cT) HWY_DYNAMIC_DISPATCH(narrow_states)(p, {c, c}, sequences, pitch, t.cT);
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}

}  // namespace duet::recurrent
#endif
