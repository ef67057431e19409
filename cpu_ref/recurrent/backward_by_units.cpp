// SPDX-License-Identifier: Apache-2.0
// Backward of the recurrent layers by units, mostly where weights are large: all threads share each step, from the last
// to the first. A task (by_units.h) multiplies the gate gradients of the step after by its strip of r and goes on to
// the gate gradients of its own units, so that a step waits for the threads only once. dx and the gradients of the
// weights are products over all steps, at the end. Called by recurrent_tuned.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/recurrent/backward_by_units.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "cpu_ref/recurrent/by_units.h"
#include "cpu_ref/recurrent/cell-inl.h"
#include "cpu_ref/recurrent/lengths.h"

#ifndef DUET_CPU_REF_RECURRENT_BACKWARD_BY_UNITS_ONCE_
#define DUET_CPU_REF_RECURRENT_BACKWARD_BY_UNITS_ONCE_
namespace duet::recurrent {

// What all tasks of a step share. packed: (D, strips) of r, a row for each gate that h enters. gates: (D, T, B) rows of
// (parts, H), by time; with lengths by step, in the order of `sequences`, which is that of dh and dc: (D, B) rows.
// bias: (D, runs, parts, units.columns()).
struct BackwardStep {
  const Tasks* tasks;
  Rows sequences;
  int64_t step, pitch, gates_pitch;  // step -1: only the gradient of the state before the first step
  const float* packed;
  float *gates, *dh, *dc, *bias;
};

}  // namespace duet::recurrent
#endif

HWY_BEFORE_NAMESPACE();
namespace duet::recurrent::HWY_NAMESPACE {

// One task of one step.
template <Cell kCell, class T>
void backward_of(const Layer& p, const BackwardTensors& t, const BackwardStep& s, const Task& task) {
  constexpr Parts kParts = parts_of(kCell);
  const Strips& units = s.tasks->units;
  const Rows sequences = s.sequences.from(task.b0);
  const int64_t H = p.H, dir = task.dir, b0 = task.b0, step = s.step;
  const int64_t wide = units.columns(), at_state = (dir * p.B + b0) * s.pitch + task.unit;
  const auto gates_at = [&](int64_t at) {
    const int64_t t_or_step = p.padded ? at : p.time(dir, at, p.T);
    return s.gates + ((dir * p.T + t_or_step) * p.B + b0) * s.gates_pitch;
  };
  const auto state_of = [&](int64_t i) { return p.state_at(dir, sequences[i].b) + task.unit; };
  float *dh = s.dh + at_state, *dc = s.dc + at_state;
  // dh: from the gates of the step after, or for the last step of a sequence from its state.
  const int64_t now = step < 0 ? task.rows : sequences.with_step(step, task.rows),
                after = sequences.with_step(step + 1, task.rows);
  if (after > 0)
    multiply(units.kernel,
             {.a = gates_at(step + 1),
              .a_row = s.gates_pitch,
              .a_k = 1,
              .b = s.packed + (dir * units.count() + task.strip) * units.strip_floats(),
              .b_k = units.step(task.strip),
              .width = units.width(task.strip),
              .to = dh,
              .to_pitch = s.pitch,
              .add = kCell == Cell::gru},
             after, units.k);
  for (int64_t i = after; i < now; ++i) {
    const int64_t width = units.width(task.strip);
    widen_row(static_cast<const T*>(t.dhT) + state_of(i), task.units, width, dh + i * s.pitch);
    if (t.dcT) widen_row(static_cast<const T*>(t.dcT) + state_of(i), task.units, width, dc + i * s.pitch);
  }
  if (step < 0) {
    for (int64_t i = 0; i < task.rows; ++i) {
      narrow_row(dh + i * s.pitch, task.units, static_cast<T*>(t.dh0) + state_of(i));
      if (t.dc0) narrow_row(dc + i * s.pitch, task.units, static_cast<T*>(t.dc0) + state_of(i));
    }
    return;
  }
  const auto *y = static_cast<const T*>(t.y) + task.unit, *reserve = static_cast<const T*>(t.reserve) + task.unit;
  // Gradients before the gates. With lengths the rows of a step do not lie one after the other.
  const auto from_row = [&](int64_t i) {
    const Sequence sequence = sequences[i];
    BackwardRows<T> r{};
    r.H = H;
    r.reserve = reserve + p.kept_at(dir, step, sequence);
    r.y = y + p.y_at(dir, step, sequence);
    r.y_row = p.D() * H;
    r.dy = p.last_only ? nullptr : static_cast<const T*>(t.dy) + p.y_at(dir, step, sequence) + task.unit;
    r.h = step > 0 ? y + p.y_at(dir, step - 1, sequence) : static_cast<const T*>(t.h0) + state_of(i);
    r.h_row = step > 0 ? p.D() * H : H;
    if (t.c0) {
      r.c = step > 0 ? reserve + p.kept_at(dir, step - 1, sequence) + 4 * H : static_cast<const T*>(t.c0) + state_of(i);
      r.c_row = step > 0 ? p.K() * H : H;
    }
    r.dh = dh + i * s.pitch;
    r.dc = dc + i * s.pitch;
    r.state_row = s.pitch;
    r.gates = gates_at(step) + i * s.gates_pitch + task.unit;
    r.gates_row = s.gates_pitch;
    r.bias = s.bias + (dir * s.tasks->runs + task.run) * kParts.count * wide + task.unit;
    r.bias_step = wide;
    return r;
  };
  if (!p.padded) return backward_rows<kCell>(from_row(0), task.rows, task.units);
  for (int64_t i = 0; i < now; ++i) backward_rows<kCell>(from_row(i), 1, task.units);
}

void backward_units(const Layer& p, const BackwardTensors& t, const BackwardStep& s, const Task& task) {
  for_cell(p, [&]<Cell kCell, class T>() { backward_of<kCell, T>(p, t, s, task); });
}

}  // namespace duet::recurrent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet::recurrent {
namespace {
HWY_EXPORT(backward_units);
HWY_EXPORT(add_runs);
using engine::Engine, engine::Matrix, engine::Storage;

void multiply_by(const Engine& engine, const Args& args, const engine::Operand& a, const engine::Operand& b,
                 DType dtype, void* c, int64_t n) {
  engine.each(args,
              [&](int64_t, float* memory) { engine.multiply(a, b, {.c = c, .dtype = dtype, .step = n}, memory); });
}

// The products over all steps: dx in one product, dw in one for each direction, dr as well. dr of gru takes two for
// each direction, because in its n the gradient of m takes the place of the gate's.
class Products {
 public:
  Products(const Layer& p, int64_t pitch, CpuContext& cpu, WorkspaceLayout& workspace)
      : p_(p),
        parts_(parts_of(p.cell)),
        rows_(p.T * p.B),
        pitch_(pitch),
        x_(cpu, workspace,
           {.m = rows_,
            .n = p.I,
            .k = p.D() * p.G() * p.H,
            .result = p.dtype,
            .a = {.along_k = true, .indexed = p.bidirectional || p.padded},
            .b = {.dtype = p.dtype}}),
        w_(cpu, workspace,
           {.m = p.G() * p.H, .n = p.I, .k = rows_, .result = p.dtype, .b = {.dtype = p.dtype, .indexed = p.padded}}),
        r_(cpu, workspace, of_r(p, p.G() - apart())),
        m_(cpu, workspace, of_r(p, apart())) {}

  std::string describe() const { return "dx " + x_.describe() + "; dw " + w_.describe() + "; dr " + r_.describe(); }

  void run(const Args& args, const BackwardTensors& t, const float* gates) const {
    const int64_t H = p_.H, of_direction = rows_ * pitch_;
    const Matrix w(t.w, p_.dtype, 1, p_.I), x(t.x, p_.dtype, 1, p_.I);
    const Matrix first(gates + parts_.x_first * H, DType::f32, pitch_, 1);
    if (p_.bidirectional) {
      const Matrix second(gates + of_direction + parts_.x_first * H, DType::f32, pitch_, 1);
      multiply_by(x_, args, Spliced(first, second, p_.G() * H), w, p_.dtype, t.dx, p_.I);
    } else {
      multiply_by(x_, args, first, w, p_.dtype, t.dx, p_.I);
    }
    for (int64_t dir = 0; dir < p_.D(); ++dir) {
      // h before each step: the y of the step before, or h0.
      const Matrix h0(element(t.h0, p_.dtype, dir * p_.B * H), p_.dtype, 1, H);
      const Matrix y(element(t.y, p_.dtype, (dir == 0 ? 0 : p_.B * p_.D() * H) + dir * H), p_.dtype, 1, p_.D() * H);
      const Spliced before = dir == 0 ? Spliced(h0, y, p_.B) : Spliced(y, h0, rows_ - p_.B);
      weights(args, t, dir, gates + dir * of_direction, x, before);
    }
  }

  // With lengths, where the gates' rows are those of the steps, in the order of the sequences. ranks: where each
  // sequence stands in this order. zeros: a row of gates.
  void run(const Args& args, const BackwardTensors& t, const float* gates, const Rows& sequences, const int64_t* ranks,
           const float* zeros) const {
    const int64_t of_direction = rows_ * pitch_;
    const GatheredLines lines(
        [&](int64_t line, int64_t dir) {
          const int64_t time = line / p_.B, rank = ranks[line % p_.B], steps = sequences[rank].steps;
          if (time >= steps) return zeros;
          return gates + dir * of_direction + (p_.time(dir, time, steps) * p_.B + rank) * pitch_ +
                 parts_.x_first * p_.H;
        },
        p_.G() * p_.H);
    multiply_by(x_, args, lines, Matrix(t.w, p_.dtype, 1, p_.I), p_.dtype, t.dx, p_.I);
    for (int64_t dir = 0; dir < p_.D(); ++dir) {
      const auto rows_of = [&](const auto& place) {
        return GatheredRows(
            [this, &sequences, place](int64_t row) -> const void* {
              const int64_t step = row / p_.B;
              const Sequence s = sequences[row % p_.B];
              return step < s.steps ? place(step, s) : nullptr;
            },
            p_.dtype);
      };
      const auto x = [&](int64_t step, Sequence s) -> const void* {
        return element(t.x, p_.dtype, p_.x_at(dir, step, s));
      };
      const auto before = [&](int64_t step, Sequence s) -> const void* {
        return step > 0 ? element(t.y, p_.dtype, p_.y_at(dir, step - 1, s))
                        : element(t.h0, p_.dtype, p_.state_at(dir, s.b));
      };
      weights(args, t, dir, gates + dir * of_direction, rows_of(x), rows_of(before));
    }
  }

 private:
  // dw and dr of a direction. gates, x, before: a row for each step of each sequence, in the same order.
  void weights(const Args& args, const BackwardTensors& t, int64_t dir, const float* gates, const engine::Operand& x,
               const engine::Operand& before) const {
    const int64_t H = p_.H, row = dir * p_.G() * H;
    const auto lines = [&](int64_t part) { return Matrix(gates + part * H, DType::f32, 1, pitch_); };
    multiply_by(w_, args, lines(parts_.x_first), x, p_.dtype, element(t.dw, p_.dtype, row * p_.I), p_.I);
    multiply_by(r_, args, lines(apart()), before, p_.dtype, element(t.dr, p_.dtype, row * H), H);
    if (apart()) multiply_by(m_, args, lines(0), before, p_.dtype, element(t.dr, p_.dtype, (row + 2 * H) * H), H);
  }
  int64_t apart() const {
    return p_.cell == Cell::gru ? 1 : 0;
  }  // parts that precede those in the order of gates: m of gru
  static engine::Shape of_r(const Layer& p, int64_t gates) {
    return {.m = gates * p.H, .n = p.H, .k = p.T * p.B, .result = p.dtype, .b = {.dtype = p.dtype, .indexed = true}};
  }

  Layer p_;
  Parts parts_;
  int64_t rows_, pitch_;
  Engine x_, w_, r_, m_;
};
}  // namespace

Plan backward_by_units(const Layer& p, BackwardTensors (*tensors)(const Layer&, Args), CpuContext& cpu) {
  const Parts parts = parts_of(p.cell);
  const Tasks tasks(p, parts.h_count * p.H, cpu.threads());
  const Strips units = tasks.units;
  const int64_t D = p.D(), wide = units.columns(), pitch = tasks.pitch(p.H),
                gates_pitch = tasks.pitch(parts.count * p.H);
  WorkspaceLayout workspace;
  Products products(p, gates_pitch, cpu, workspace);
  const auto packed_piece = workspace.add<float>(D * units.floats());
  const auto gates_piece = workspace.add<float>(D * p.T * p.B * gates_pitch);
  const auto dh_piece = workspace.add<float>(D * p.B * pitch);
  const auto dc_piece = workspace.add<float>(p.has_c() ? D * p.B * pitch : 0);
  const auto bias_piece = workspace.add<float>(D * tasks.runs * parts.count * wide);
  const Sorted sorted(p, workspace);
  const auto ranks_piece = workspace.add<int64_t>(p.padded ? p.B : 0);
  const auto zeros_piece = workspace.add<float>(p.padded ? gates_pitch : 0);
  const std::string algorithm = tasks.describe() + "; " + products.describe();
  auto run = [=, products = std::move(products), &cpu](Args args) {
    const BackwardTensors t = tensors(p, args);
    const Rows sequences = sorted.rows(args, t.lengths);
    float *const packed = args.workspace(packed_piece), *const gates = args.workspace(gates_piece);
    float* const bias = args.workspace(bias_piece);
    cpu.parallel_for(D * units.count(), 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        for (int64_t part = 0; part < parts.h_count; ++part) {
          const int64_t row = (i / units.count() * p.G() + parts.gate(part)) * p.H;
          units.pack(Matrix(element(t.r, p.dtype, row * p.H), p.dtype, 1, p.H), i % units.count(), part * p.H, p.H,
                     packed + i * units.strip_floats());
        }
    });
    std::fill_n(bias, bias_piece.count, 0.0f);
    for (int64_t step = sequences.max_steps(p.B) - 1; step >= -1; --step) {
      const BackwardStep s{.tasks = &tasks,
                           .sequences = sequences,
                           .step = step,
                           .pitch = pitch,
                           .gates_pitch = gates_pitch,
                           .packed = packed,
                           .gates = gates,
                           .dh = args.workspace(dh_piece),
                           .dc = args.workspace(dc_piece),
                           .bias = bias};
      cpu.parallel_for(tasks.count, tasks.grain, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) HWY_DYNAMIC_DISPATCH(backward_units)(p, t, s, tasks.task(i));
      });
    }
    for (int64_t i = 0; i < D * parts.count; ++i) {
      const int64_t part = i % parts.count, dir = i / parts.count;
      for_biases(p, dir, part, [&](int64_t at) {
        HWY_DYNAMIC_DISPATCH(add_runs)
        (p.dtype, bias + (dir * tasks.runs * parts.count + part) * wide, tasks.runs, parts.count * wide, p.H, t.dbias,
         at);
      });
    }
    if (!p.padded) return products.run(args, t, gates);

    // Sequences without a step have no gradients there.
    cpu.parallel_for(D * p.T, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t now = sequences.with_step(i % p.T, p.B);
        std::fill_n(gates + (i * p.B + now) * gates_pitch, (p.B - now) * gates_pitch, 0.0f);
      }
    });
    int64_t* const ranks = args.workspace(ranks_piece);
    float* const zeros = args.workspace(zeros_piece);
    for (int64_t rank = 0; rank < p.B; ++rank) ranks[sequences[rank].b] = rank;
    std::fill_n(zeros, gates_pitch, 0.0f);
    products.run(args, t, gates, sequences, ranks, zeros);
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}

}  // namespace duet::recurrent
#endif
