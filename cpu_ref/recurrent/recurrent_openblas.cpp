// SPDX-License-Identifier: Apache-2.0
// Forward passes by OpenBLAS (by_openblas.h).
#include "core/registration.h"
#include "cpu_ref/recurrent/by_openblas.h"

namespace duet {
namespace recurrent::by_openblas {
namespace {

struct Forward {
  Layer p;
  CpuContext* cpu;
  Widening widening;
  Slices slices;
  Wide x, w, r, bias, y, hT, cT, reserve;
  WorkspacePiece<float> from_x, from_h;  // (B, G H): what x and h bring to a step
  WorkspacePiece<float> x_rows;          // (B, I): with lengths, x of a step

  Forward(const Layer& layer, CpuContext& context, WorkspaceLayout& workspace)
      : p(layer), cpu(&context), widening(layer, context), slices(layer, context, 0) {
    const int64_t gates = p.G() * p.H, states = p.D() * p.B * p.H;
    x = widening.add(p.T * p.B * p.I, workspace);
    w = widening.add(p.D() * gates * p.I, workspace);
    r = widening.add(p.D() * gates * p.H, workspace);
    bias = widening.add(p.D() * biases_of(p.cell) * gates, workspace);
    y = widening.add(p.T * p.B * p.D() * p.H, workspace);
    hT = widening.add(states, workspace);
    cT = widening.add(p.has_c() ? states : 0, workspace);
    reserve = widening.add(p.inference ? 0 : p.D() * p.T * p.B * p.K() * p.H, workspace);
    from_x = workspace.add<float>(p.B * gates);
    from_h = workspace.add<float>(p.B * gates);
    x_rows = workspace.add<float>(p.padded ? p.B * p.I : 0);
  }

  struct Step {
    const float *from_x, *from_h, *bias;  // rows of gates; bias: one set, or two of gru
    float *h, *c, *y, *kept;              // states: of the direction; y: its first row; kept: null for inference
  };

  // Row b of a step: gates, the new state, what is kept.
  void row(const Step& s, int64_t b) const {
    const int64_t H = p.H, gates = p.G() * H;
    const float *in = s.from_x + b * gates, *back = s.from_h + b * gates;
    float *h = s.h + b * H, *c = s.c + b * H, *y_row = s.y + b * p.D() * H;
    const auto keep = [&](int64_t part, int64_t j, float v) {
      if (s.kept) s.kept[(b * p.K() + part) * H + j] = v;
    };
    for (int64_t j = 0; j < H; ++j) {
      const auto sum = [&](int64_t gate) { return in[gate * H + j] + s.bias[gate * H + j] + back[gate * H + j]; };
      switch (p.cell) {
        case Cell::rnn_tanh:
          h[j] = std::tanh(sum(0));
          break;
        case Cell::gru: {
          const float* second = s.bias + gates;
          const float z = logistic(sum(0) + second[j]), from = logistic(sum(1) + second[H + j]);
          const float m = back[2 * H + j] + second[2 * H + j];
          const float n = std::tanh(in[2 * H + j] + s.bias[2 * H + j] + from * m);
          h[j] = (1 - z) * n + z * h[j];
          keep(0, j, z);
          keep(1, j, from);
          keep(2, j, n);
          keep(3, j, m);
          break;
        }
        case Cell::lstm: {
          const float i = logistic(sum(0)), f = logistic(sum(1)), g = std::tanh(sum(2)), o = logistic(sum(3));
          c[j] = f * c[j] + i * g;
          h[j] = o * std::tanh(c[j]);
          keep(0, j, i);
          keep(1, j, f);
          keep(2, j, g);
          keep(3, j, o);
          keep(4, j, c[j]);
          break;
        }
      }
      y_row[j] = h[j];
    }
  }

  void run(const ForwardTensors& tensors, Args t) const {
    const int64_t B = p.B, I = p.I, H = p.H, gates = p.G() * H, states = p.D() * B * H;
    const float *x_all = widening.read(x, tensors.x, t), *w_all = widening.read(w, tensors.w, t),
                *r_all = widening.read(r, tensors.r, t), *bias_all = widening.read(bias, tensors.bias, t);
    float *y_all = widening.target(y, tensors.y, t), *h_all = widening.target(hT, tensors.hT, t),
          *c_all = widening.target(cT, tensors.cT, t), *kept_all = widening.target(reserve, tensors.reserve, t);
    float *in = t.workspace(from_x), *back = t.workspace(from_h), *x_now = t.workspace(x_rows);
    // The states before the first step: they become hT and cT.
    for (int64_t i = 0; i < states; ++i) {
      h_all[i] = static_cast<float>(load_as_double(tensors.h0, p.dtype, i));
      if (p.has_c()) c_all[i] = static_cast<float>(load_as_double(tensors.c0, p.dtype, i));
    }
    slices.run(*cpu, [&](int64_t, int64_t first, int64_t last) {
      const int64_t rows = last - first;
      for (int64_t dir = 0; dir < p.D(); ++dir) {
        float* h = h_all + p.state_at(dir, 0);
        const float *w_dir = w_all + dir * gates * I, *r_dir = r_all + dir * gates * H;
        const bool keeps = !p.inference && p.K() > 0;
        for (int64_t step = 0; step < p.T; ++step) {
          const float* x_step = x_all + p.x_at(dir, step, {first, p.T});
          if (p.padded) {
            for (int64_t b = first; b < last; ++b) {
              const int64_t steps = steps_of(p, tensors.lengths, b);
              copy_row(step < steps ? x_all + p.x_at(dir, step, {b, steps}) : nullptr, I, x_now + b * I);
            }
            x_step = x_now + first * I;
          }
          multiply(rows, gates, I, {x_step, I}, {w_dir, I, true}, in + first * gates, gates);
          multiply(rows, gates, H, {h + first * H, H}, {r_dir, H, true}, back + first * gates, gates);
          for (int64_t b = first; b < last; ++b) {
            const int64_t steps = steps_of(p, tensors.lengths, b);
            if (step >= steps) {  // behind the last step of b: this time, in both directions
              std::fill_n(y_all + p.y_row(dir, step, b), H, 0.0f);
              if (keeps) std::fill_n(kept_all + p.kept_row(dir, step, b), p.K() * H, 0.0f);
              continue;
            }
            row({.from_x = in,
                 .from_h = back,
                 .bias = bias_all + dir * biases_of(p.cell) * gates,
                 .h = h,
                 .c = p.has_c() ? c_all + p.state_at(dir, 0) : h,
                 .y = y_all + p.y_at(dir, step, {0, steps}),
                 .kept = keeps ? kept_all + p.kept_at(dir, step, {0, steps}) : nullptr},
                b);
          }
        }
      }
    });
    widening.write(y, y_all, tensors.y);
    widening.write(hT, h_all, tensors.hT);
    if (p.has_c()) widening.write(cT, c_all, tensors.cT);
    widening.write(reserve, kept_all, tensors.reserve);
  }
};

}  // namespace
}  // namespace recurrent::by_openblas

namespace {
template <class P>
Plan forward(const P& p, CpuContext& cpu) {
  using namespace recurrent;
  return by_openblas::plan_of<by_openblas::Forward, ForwardTensors>(p, cpu, "sgemm of x and of h for each step");
}

Plan rnn_tanh_openblas(const RnnTanh& p, CpuContext& cpu) { return forward(p, cpu); }
Plan gru_openblas(const Gru& p, CpuContext& cpu) { return forward(p, cpu); }
Plan lstm_openblas(const Lstm& p, CpuContext& cpu) { return forward(p, cpu); }
DUET_REGISTER(rnn_tanh_openblas);  // cpu.openblas, as all of these
DUET_REGISTER(gru_openblas);
DUET_REGISTER(lstm_openblas);
}  // namespace
}  // namespace duet
