// SPDX-License-Identifier: Apache-2.0
// Backward passes by OpenBLAS (by_openblas.h).
#include "core/registration.h"
#include "cpu_ref/recurrent/by_openblas.h"

namespace duet {
namespace recurrent::by_openblas {
namespace {

struct Backward {
  Layer p;
  CpuContext* cpu;
  Widening widening;
  Slices slices;
  Wide x, w, r, h0, c0, y, reserve, dy, dx, dw, dr, dbias, dh0, dc0;
  // (B, G H): the gradients before the gates, and what reaches r h, which differs in gru. (B, H): the gradient of h
  // that gru passes on without a product. Then the sums of each slice.
  WorkspacePiece<float> to_x, to_h, passed, dw_parts, dr_parts;
  WorkspacePiece<double> dbias_parts;
  WorkspacePiece<float> x_rows, h_rows, dx_rows;  // (B, I), (B, H), (B, I): with lengths, x, h before and dx of a step

  Backward(const Layer& layer, CpuContext& context, WorkspaceLayout& workspace)
      : p(layer),
        cpu(&context),
        widening(layer, context),
        slices(layer, context, layer.D() * layer.G() * layer.H * (layer.I + layer.H)) {
    const int64_t gates = p.G() * p.H, states = p.D() * p.B * p.H, wide = p.T * p.B * p.D() * p.H;
    x = widening.add(p.T * p.B * p.I, workspace);
    w = widening.add(p.D() * gates * p.I, workspace);
    r = widening.add(p.D() * gates * p.H, workspace);
    h0 = widening.add(states, workspace);
    c0 = widening.add(p.has_c() ? states : 0, workspace);
    y = widening.add(wide, workspace);
    reserve = widening.add(p.D() * p.T * p.B * p.K() * p.H, workspace);
    dy = widening.add(p.last_only ? 0 : wide, workspace);
    dx = widening.add(x.count, workspace);
    dw = widening.add(w.count, workspace);
    dr = widening.add(r.count, workspace);
    dbias = widening.add(p.D() * biases_of(p.cell) * gates, workspace);
    dh0 = widening.add(states, workspace);
    dc0 = widening.add(c0.count, workspace);
    to_x = workspace.add<float>(p.B * gates);
    to_h = workspace.add<float>(p.cell == Cell::gru ? p.B * gates : 0);
    passed = workspace.add<float>(p.cell == Cell::gru ? p.B * p.H : 0);
    dw_parts = workspace.add<float>(slices.count * dw.count);
    dr_parts = workspace.add<float>(slices.count * dr.count);
    dbias_parts = workspace.add<double>(slices.count * dbias.count);
    x_rows = workspace.add<float>(p.padded ? p.B * p.I : 0);
    h_rows = workspace.add<float>(p.padded ? p.B * p.H : 0);
    dx_rows = workspace.add<float>(p.padded ? p.B * p.I : 0);
  }

  struct Step {
    const float *kept, *y, *h_before, *c_before, *dy;  // first rows; dy: null with last_only
    int64_t before_pitch, c_pitch;
    float *dh, *dc, *to_x, *to_h, *passed;
  };

  void row(const Step& s, int64_t b) const {
    const int64_t H = p.H, gates = p.G() * H, wide = p.D() * H;
    const auto kept = [&](int64_t part, int64_t j) { return s.kept[(b * p.K() + part) * H + j]; };
    float *da = s.to_x + b * gates, *recurrent = s.to_h + b * gates;
    for (int64_t j = 0; j < H; ++j) {
      const float d = s.dh[b * H + j] + (s.dy ? s.dy[b * wide + j] : 0);
      switch (p.cell) {
        case Cell::rnn_tanh: {
          const float v = s.y[b * wide + j];
          da[j] = d * (1 - v * v);
          break;
        }
        case Cell::gru: {
          const float z = kept(0, j), from = kept(1, j), n = kept(2, j), m = kept(3, j);
          const float dn = d * (1 - z) * (1 - n * n);
          da[j] = d * (s.h_before[b * s.before_pitch + j] - n) * z * (1 - z);
          da[H + j] = dn * m * from * (1 - from);
          da[2 * H + j] = dn;
          recurrent[j] = da[j];
          recurrent[H + j] = da[H + j];
          recurrent[2 * H + j] = dn * from;
          s.passed[b * H + j] = d * z;
          break;
        }
        case Cell::lstm: {
          const float i = kept(0, j), f = kept(1, j), g = kept(2, j), o = kept(3, j), tanh_c = std::tanh(kept(4, j));
          const float total = s.dc[b * H + j] + d * o * (1 - tanh_c * tanh_c);
          da[j] = total * g * i * (1 - i);
          da[H + j] = total * s.c_before[b * s.c_pitch + j] * f * (1 - f);
          da[2 * H + j] = total * i * (1 - g * g);
          da[3 * H + j] = d * tanh_c * o * (1 - o);
          s.dc[b * H + j] = total * f;
          break;
        }
      }
    }
  }

  // to[i] = the sum of all slices' values i, which lie `count` apart.
  void add_slices(const auto* parts, int64_t count, float* to) const {
    parallel_chunks(*cpu, count, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        double sum = 0;
        for (int64_t slice = 0; slice < slices.count; ++slice) sum += static_cast<double>(parts[slice * count + i]);
        to[i] = static_cast<float>(sum);
      }
    });
  }

  void run(const BackwardTensors& tensors, Args t) const {
    const int64_t T = p.T, B = p.B, I = p.I, H = p.H, gates = p.G() * H, wide = p.D() * H, states = p.D() * B * H;
    const bool gru = p.cell == Cell::gru;
    const float *x_all = widening.read(x, tensors.x, t), *w_all = widening.read(w, tensors.w, t),
                *r_all = widening.read(r, tensors.r, t), *h0_all = widening.read(h0, tensors.h0, t),
                *c0_all = widening.read(c0, tensors.c0, t), *y_all = widening.read(y, tensors.y, t),
                *kept_all = widening.read(reserve, tensors.reserve, t),
                *dy_all = p.last_only ? nullptr : widening.read(dy, tensors.dy, t);
    float *dx_all = widening.target(dx, tensors.dx, t), *dw_all = widening.target(dw, tensors.dw, t),
          *dr_all = widening.target(dr, tensors.dr, t), *dbias_all = widening.target(dbias, tensors.dbias, t),
          *dh_all = widening.target(dh0, tensors.dh0, t), *dc_all = widening.target(dc0, tensors.dc0, t);
    float *da = t.workspace(to_x), *recurrent = gru ? t.workspace(to_h) : da, *on = t.workspace(passed);
    // The gradients of the last states: they become those of the first.
    for (int64_t i = 0; i < states; ++i) {
      dh_all[i] = static_cast<float>(load_as_double(tensors.dhT, p.dtype, i));
      if (p.has_c()) dc_all[i] = static_cast<float>(load_as_double(tensors.dcT, p.dtype, i));
    }
    float *dw_sums = t.workspace(dw_parts), *dr_sums = t.workspace(dr_parts);
    double* dbias_sums = t.workspace(dbias_parts);
    float *x_now = t.workspace(x_rows), *h_now = t.workspace(h_rows), *dx_now = t.workspace(dx_rows);
    slices.run(*cpu, [&](int64_t slice, int64_t first, int64_t last) {
      const int64_t rows = last - first;
      float *dw_slice = dw_sums + slice * dw.count, *dr_slice = dr_sums + slice * dr.count;
      double* dbias_slice = dbias_sums + slice * dbias.count;
      std::fill_n(dw_slice, dw.count, 0.0f);
      std::fill_n(dr_slice, dr.count, 0.0f);
      std::fill_n(dbias_slice, dbias.count, 0.0);
      const auto add_rows = [&](const float* from, double* to) {
        for (int64_t b = first; b < last; ++b)
          for (int64_t c = 0; c < gates; ++c) to[c] += static_cast<double>(from[b * gates + c]);
      };
      for (int64_t step = 0; p.padded && step < T; ++step) std::fill_n(dx_all + (step * B + first) * I, rows * I, 0.0f);
      for (int64_t dir = 0; dir < p.D(); ++dir) {
        const int64_t state = p.state_at(dir, 0);
        const float *w_dir = w_all + dir * gates * I, *r_dir = r_all + dir * gates * H;
        float* dh = dh_all + state;
        for (int64_t step = T - 1; step >= 0; --step) {
          const bool is_first = step == 0;
          const auto with_steps = [&](int64_t steps) {
            return Step{.kept = p.K() > 0 ? kept_all + p.kept_at(dir, step, {0, steps}) : nullptr,
                        .y = y_all + p.y_at(dir, step, {0, steps}),
                        .h_before = is_first ? h0_all + state : y_all + p.y_at(dir, step - 1, {0, steps}),
                        .c_before = !p.has_c() ? nullptr
                                    : is_first ? c0_all + state
                                               : kept_all + p.kept_at(dir, step - 1, {0, steps}) + 4 * H,
                        .dy = p.last_only ? nullptr : dy_all + p.y_at(dir, step, {0, steps}),
                        .before_pitch = is_first ? H : wide,
                        .c_pitch = is_first ? H : p.K() * H,
                        .dh = dh,
                        .dc = p.has_c() ? dc_all + state : nullptr,
                        .to_x = da,
                        .to_h = recurrent,
                        .passed = on};
          };
          // The gradients of x, of the state before, of the weights and of the biases.
          const float *da_rows = da + first * gates, *recurrent_rows = recurrent + first * gates;
          Matrix x_step{x_all + p.x_at(dir, step, {first, T}), I}, h_step{};
          if (!p.padded) {
            const Step s = with_steps(T);
            for (int64_t b = first; b < last; ++b) row(s, b);
            multiply(rows, I, gates, {da_rows, gates}, {w_dir, I}, dx_all + p.x_at(dir, step, {first, T}), I, dir > 0);
            if (gru) std::copy_n(on + first * H, rows * H, dh + first * H);
            multiply(rows, H, gates, {recurrent_rows, gates}, {r_dir, H}, dh + first * H, H, gru);
            h_step = {s.h_before + first * s.before_pitch, s.before_pitch};
          } else {
            // Rows without the step have zeros in every product, and keep their dh.
            for (int64_t b = first; b < last; ++b) {
              const int64_t steps = steps_of(p, tensors.lengths, b);
              const bool has_step = step < steps;
              copy_row(has_step ? x_all + p.x_at(dir, step, {b, steps}) : nullptr, I, x_now + b * I);
              if (has_step) {
                const Step s = with_steps(steps);
                row(s, b);
                copy_row(s.h_before + b * s.before_pitch, H, h_now + b * H);
                copy_row(gru ? on + b * H : nullptr, H, dh + b * H);
              } else {
                copy_row(nullptr, H, h_now + b * H);
                copy_row(nullptr, gates, da + b * gates);
                copy_row(nullptr, gates, recurrent + b * gates);
              }
            }
            multiply(rows, H, gates, {recurrent_rows, gates}, {r_dir, H}, dh + first * H, H, true);
            multiply(rows, I, gates, {da_rows, gates}, {w_dir, I}, dx_now + first * I, I);
            for (int64_t b = first; b < last; ++b) {
              const int64_t steps = steps_of(p, tensors.lengths, b);
              if (step >= steps) continue;
              float* dx_row = dx_all + p.x_at(dir, step, {b, steps});
              for (int64_t i = 0; i < I; ++i) dx_row[i] += dx_now[b * I + i];
            }
            x_step = {x_now + first * I, I};
            h_step = {h_now + first * H, H};
          }
          multiply(gates, I, rows, {da_rows, gates, true}, x_step, dw_slice + dir * gates * I, I, true);
          multiply(gates, H, rows, {recurrent_rows, gates, true}, h_step, dr_slice + dir * gates * H, H, true);
          double* dbias_dir = dbias_slice + dir * biases_of(p.cell) * gates;
          add_rows(da, dbias_dir);
          if (gru) add_rows(recurrent, dbias_dir + gates);
        }
      }
    });
    add_slices(dw_sums, dw.count, dw_all);
    add_slices(dr_sums, dr.count, dr_all);
    add_slices(dbias_sums, dbias.count, dbias_all);
    widening.write(dx, dx_all, tensors.dx);
    widening.write(dw, dw_all, tensors.dw);
    widening.write(dr, dr_all, tensors.dr);
    widening.write(dbias, dbias_all, tensors.dbias);
    widening.write(dh0, dh_all, tensors.dh0);
    if (p.has_c()) widening.write(dc0, dc_all, tensors.dc0);
  }
};

}  // namespace
}  // namespace recurrent::by_openblas

namespace {
template <class P>
Plan backward(const P& p, CpuContext& cpu) {
  using namespace recurrent;
  return by_openblas::plan_of<by_openblas::Backward, BackwardTensors>(p, cpu,
                                                                      "sgemm of dx, dh, dw and dr for each step");
}

Plan rnn_tanh_backward_openblas(const RnnTanhBackward& p, CpuContext& cpu) { return backward(p, cpu); }
Plan gru_backward_openblas(const GruBackward& p, CpuContext& cpu) { return backward(p, cpu); }
Plan lstm_backward_openblas(const LstmBackward& p, CpuContext& cpu) { return backward(p, cpu); }
DUET_REGISTER(rnn_tanh_backward_openblas);  // cpu.openblas, as all of these
DUET_REGISTER(gru_backward_openblas);
DUET_REGISTER(lstm_backward_openblas);
}  // namespace
}  // namespace duet
