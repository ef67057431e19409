// SPDX-License-Identifier: Apache-2.0
// rnn_tanh, gru and lstm by oneDNN's layers, without a backward pass behind them, or with it as one problem. Its
// backward passes read a workspace that its forward pass wrote in a format of its own; the contract of a pass by itself
// has the gates in a reserve, which it neither writes nor reads. Weights are packed in every run, or before.
#include <fmt/format.h>

#include <cstring>

#include "core/registration.h"
#include "cpu_ref/onednn.h"
#include "ops/recurrent/recurrent_training.h"

namespace duet {
namespace {
using dnnl::prop_kind, dnnl::rnn_direction;
using onednn::Desc, onednn::Dims, onednn::Packing, onednn::Value;

// Layers that are all as wide as the first. p: that one.
template <Cell kCell>
struct Layers {
  using P = Recurrent<kCell>;
  static constexpr int64_t kBiases = kCell == Cell::gru ? 4 : P::G;
  P p;
  int64_t L = 1, D = p.directions();
  Desc x = onednn::dense(p.dtype, {p.T, p.B, p.I}), state = onednn::dense(p.dtype, {L, D, p.B, p.H});
  Desc y = onednn::dense(p.dtype, {p.T, p.B, D* p.H});
  Desc w = weights(p.I), r = weights(p.H);
  Desc any_w = onednn::any(p.dtype, w.get_dims()), any_r = onednn::any(p.dtype, r.get_dims());
  Desc bias = onednn::dense(DType::f32, {L, D, kBiases, p.H});
  rnn_direction direction =
      p.bidirectional ? rnn_direction::bidirectional_concat : rnn_direction::unidirectional_left2right;

  int64_t first_w_bytes() const { return D * P::G * p.H * p.I * size_of(p.dtype); }
  // (layers, directions, in, G, H), stored as (directions, G, H, in).
  Desc weights(int64_t in) const {
    const int64_t gate = p.H * in, all = P::G * gate;
    return {{L, D, in, P::G, p.H}, onednn::type_of(p.dtype), {D * all, all, 1, gate, in}};
  }
  auto chosen(prop_kind kind) const {
    const auto& cpu = onednn::engine();
    if constexpr (kCell == Cell::rnn_tanh)
      return dnnl::vanilla_rnn_forward::primitive_desc(cpu, kind, dnnl::algorithm::eltwise_tanh, direction, x, state,
                                                       any_w, any_r, bias, y, state, onednn::attributes());
    else if constexpr (kCell == Cell::gru)
      return dnnl::lbr_gru_forward::primitive_desc(cpu, kind, direction, x, state, any_w, any_r, bias, y, state,
                                                   onednn::attributes());
    else
      return dnnl::lstm_forward::primitive_desc(cpu, kind, direction, x, state, state, any_w, any_r, bias, y, state,
                                                state, onednn::attributes());
  }
  // Of the backward pass behind `forward`. All gradients are in f32.
  Desc dx = onednn::dense(DType::f32, {p.T, p.B, p.I}), dstate = onednn::dense(DType::f32, {L, D, p.B, p.H});
  Desc dy = onednn::dense(DType::f32, {p.T, p.B, D* p.H});
  Desc any_dw = onednn::any(DType::f32, w.get_dims()), any_dr = onednn::any(DType::f32, r.get_dims());
  auto chosen_backward(const auto& forward) const {
    const auto& cpu = onednn::engine();
    constexpr auto kKind = prop_kind::backward;
    if constexpr (kCell == Cell::rnn_tanh)
      return dnnl::vanilla_rnn_backward::primitive_desc(cpu, kKind, dnnl::algorithm::eltwise_tanh, direction, x, state,
                                                        any_w, any_r, bias, y, state, dx, dstate, any_dw, any_dr, bias,
                                                        dy, dstate, forward, onednn::attributes());
    else if constexpr (kCell == Cell::gru)
      return dnnl::lbr_gru_backward::primitive_desc(cpu, kKind, direction, x, state, any_w, any_r, bias, y, state, dx,
                                                    dstate, any_dw, any_dr, bias, dy, dstate, forward,
                                                    onednn::attributes());
    else
      return dnnl::lstm_backward::primitive_desc(cpu, kKind, direction, x, state, state, any_w, any_r, bias, y, state,
                                                 state, dx, dstate, dstate, any_dw, any_dr, bias, dy, dstate, dstate,
                                                 forward, onednn::attributes());
  }
  // In f32. Of gru four: the contract's two of z and of r are added up, those of n follow.
  Value biases(onednn::Program& run, Slot slot) const {
    if constexpr (kCell != Cell::gru) {
      return run.copied(run.tensor(slot, onednn::dense(p.dtype, bias.get_dims())), bias, "bias");
    } else {
      const Value all = run.temporary(bias);
      run.add([p = p, count = L * D, slot, piece = run.place_of(all)](const Args& t) {
        const void* from = t[slot].data;
        auto* to = static_cast<float*>(t.workspace(piece));
        for (int64_t i = 0; i < count * 4 * p.H; ++i) {
          const int64_t d = i / (4 * p.H), gate = i / p.H % 4, h = i % p.H, side = 3 * p.H;
          const int64_t of_w = (2 * d * 3 + std::min<int64_t>(gate, 2)) * p.H + h;
          const double w = gate < 3 ? load_as_double(from, p.dtype, of_w) : 0;
          const double r = gate != 2 ? load_as_double(from, p.dtype, of_w + side) : 0;
          to[i] = static_cast<float>(w + r);
        }
      });
      return all;
    }
  }
  // The gradients of the biases, from those of oneDNN's.
  void write_biases(onednn::Program& run, const Value& from, Slot slot) const {
    if constexpr (kCell != Cell::gru) {
      run.unstage(from, run.tensor(slot, onednn::dense(p.dtype, bias.get_dims())), slot.name);
    } else {
      run.add([p = p, count = L * D, slot, piece = run.place_of(from)](const Args& t) {
        const auto* sums = static_cast<const float*>(t.workspace(piece));
        for (int64_t i = 0; i < count * 6 * p.H; ++i) {
          const int64_t d = i / (6 * p.H), of_state = i / (3 * p.H) % 2, gate = i / p.H % 3, h = i % p.H;
          const int64_t mine = gate < 2 ? gate : 2 + of_state;
          store_double(t[slot].data, p.dtype, i, sums[(d * 4 + mine) * p.H + h]);
        }
      });
    }
  }
};

template <Cell kCell, class Primitive>
Plan plan(const Recurrent<kCell>& p, Packing packing = Packing::in_each_run) {
  using P = Recurrent<kCell>;
  if (p.padded) return Unsupported{"oneDNN has no lengths: all sequences of a layer have T steps"};
  if (!p.inference && P::K > 0) return Unsupported{"oneDNN keeps the gates in a format of its own: inference only"};
  return onednn::planned(packing, [&](onednn::Program& run) {
    const Layers<kCell> layer{p};
    const auto x = run.tensor(P::x, layer.x), h0 = run.tensor(P::h0, layer.state);
    const auto y = run.tensor(P::y, layer.y), hT = run.tensor(P::hT, layer.state);
    const auto chosen = layer.chosen(prop_kind::forward_inference);
    const auto bias = layer.biases(run, P::bias);
    const auto w = run.packed(P::w, run.tensor(P::w, layer.w), chosen.weights_layer_desc(), packing);
    const auto r = run.packed(P::r, run.tensor(P::r, layer.r), chosen.weights_iter_desc(), packing);
    onednn::Program::Arguments all{{DNNL_ARG_SRC_LAYER, x},    {DNNL_ARG_SRC_ITER, h0}, {DNNL_ARG_WEIGHTS_LAYER, w},
                                   {DNNL_ARG_WEIGHTS_ITER, r}, {DNNL_ARG_BIAS, bias},   {DNNL_ARG_DST_LAYER, y},
                                   {DNNL_ARG_DST_ITER, hT}};
    if constexpr (P::has_c) {
      all.emplace_back(DNNL_ARG_SRC_ITER_C, run.tensor(P::c0, layer.state));
      all.emplace_back(DNNL_ARG_DST_ITER_C, run.tensor(P::cT, layer.state));
    }
    run.add_composed<Primitive>(chosen, all);
  });
}

// oneDNN has w of all layers as one tensor, the contract that of the first by itself.
template <class P>
Value joined_w(onednn::Program& run, const Layers<P::kind>& layers) {
  const Value all = run.temporary(layers.w);
  run.add([piece = run.place_of(all), first = layers.first_w_bytes()](const Args& t) {
    auto* to = static_cast<char*>(t.workspace(piece));
    std::memcpy(to, t[P::w].data, static_cast<size_t>(first));
    std::memcpy(to + first, t[P::w_above].data, static_cast<size_t>(piece.bytes() - first));
  });
  return all;
}
template <class P>
void part_dw(onednn::Program& run, const Layers<P::kind>& layers, const Value& all) {
  run.add([piece = run.place_of(all), first = layers.first_w_bytes()](const Args& t) {
    const auto* from = static_cast<const char*>(t.workspace(piece));
    std::memcpy(t[P::dw].data, from, static_cast<size_t>(first));
    std::memcpy(t[P::dw_above].data, from + first, static_cast<size_t>(piece.bytes() - first));
  });
}

template <Cell kCell, class Forward, class Backward>
Plan plan_training(const RecurrentTraining<kCell>& p) {
  using P = RecurrentTraining<kCell>;
  if (p.padded) return Unsupported{"oneDNN has no lengths: all sequences of a layer have T steps"};
  if (p.dropout > 0) return Unsupported{"oneDNN has no dropout between layers"};
  if (p.layers > 1 && p.bidirectional)
    return Unsupported{"oneDNN takes each direction through all layers by itself: none reads y of both"};
  if (p.layers > 1 && p.I != p.H)
    return Unsupported{fmt::format("oneDNN's layers are all as wide as their input: I {}, H {}", p.I, p.H)};
  return onednn::planned([&](onednn::Program& run) {
    const Layers<kCell> layers{p.forward(0), p.layers};
    const auto x = run.tensor(P::x, layers.x), h0 = run.tensor(P::h0, layers.state);
    const auto y = run.tensor(P::y, layers.y), hT = run.tensor(P::hT, layers.state);
    const auto r = run.tensor(P::r, layers.r);
    const auto w = p.layers == 1 ? run.tensor(P::w, layers.w) : joined_w<P>(run, layers);
    const auto forward = layers.chosen(prop_kind::forward_training);
    const auto backward = layers.chosen_backward(forward);
    const auto bias = layers.biases(run, P::bias);
    const auto kept = run.temporary(forward.workspace_desc());

    // Forward.
    const auto forward_w = run.copied(w, forward.weights_layer_desc(), "w");
    const auto forward_r = run.copied(r, forward.weights_iter_desc(), "r");
    onednn::Program::Arguments all{{DNNL_ARG_SRC_LAYER, x}, {DNNL_ARG_SRC_ITER, h0}, {DNNL_ARG_BIAS, bias},
                                   {DNNL_ARG_DST_LAYER, y}, {DNNL_ARG_DST_ITER, hT}, {DNNL_ARG_WORKSPACE, kept}};
    if constexpr (P::has_c) {
      all.emplace_back(DNNL_ARG_SRC_ITER_C, run.tensor(P::c0, layers.state));
      all.emplace_back(DNNL_ARG_DST_ITER_C, run.tensor(P::cT, layers.state));
    }
    const auto with_weights = [&](const Value& of_input, const Value& of_state) {
      onednn::Program::Arguments with = all;
      with.emplace_back(DNNL_ARG_WEIGHTS_LAYER, of_input);
      with.emplace_back(DNNL_ARG_WEIGHTS_ITER, of_state);
      return with;
    };
    run.add_composed<Forward>(forward, with_weights(forward_w, forward_r));

    // Backward. oneDNN adds to the gradients of the weights.
    const auto weights_of_backward = [&](const Value& given, const Value& of_forward, const Desc& wanted,
                                         const char* name) {
      return wanted == of_forward.desc ? of_forward : run.copied(given, wanted, name);
    };
    const auto backward_w = weights_of_backward(w, forward_w, backward.weights_layer_desc(), "w of backward");
    const auto backward_r = weights_of_backward(r, forward_r, backward.weights_iter_desc(), "r of backward");
    const auto dy = run.copied(run.tensor(P::dy, layers.y), layers.dy, "dy");
    const auto dhT = run.copied(run.tensor(P::dhT, layers.state), layers.dstate, "dhT");
    const auto dx = run.tensor(P::dx, layers.x), dh0 = run.tensor(P::dh0, layers.state);
    const auto made_dx = run.staged(dx, layers.dx), made_dh0 = run.staged(dh0, layers.dstate);
    const auto dw = run.temporary(backward.diff_weights_layer_desc()),
               dr = run.temporary(backward.diff_weights_iter_desc()), dbias = run.temporary(backward.diff_bias_desc());
    for (const Value& sum : {dw, dr, dbias})
      run.add([piece = run.place_of(sum)](const Args& t) {
        std::memset(t.workspace(piece), 0, static_cast<size_t>(piece.bytes()));
      });
    onednn::Program::Arguments both = with_weights(backward_w, backward_r);
    const onednn::Program::Arguments gradients{{DNNL_ARG_DIFF_DST_LAYER, dy},      {DNNL_ARG_DIFF_DST_ITER, dhT},
                                               {DNNL_ARG_DIFF_SRC_LAYER, made_dx}, {DNNL_ARG_DIFF_SRC_ITER, made_dh0},
                                               {DNNL_ARG_DIFF_WEIGHTS_LAYER, dw},  {DNNL_ARG_DIFF_WEIGHTS_ITER, dr},
                                               {DNNL_ARG_DIFF_BIAS, dbias}};
    both.insert(both.end(), gradients.begin(), gradients.end());
    if constexpr (P::has_c) {
      const auto dc0 = run.tensor(P::dc0, layers.state), made_dc0 = run.staged(dc0, layers.dstate);
      both.emplace_back(DNNL_ARG_DIFF_DST_ITER_C, run.copied(run.tensor(P::dcT, layers.state), layers.dstate, "dcT"));
      both.emplace_back(DNNL_ARG_DIFF_SRC_ITER_C, made_dc0);
      run.add_composed<Backward>(backward, both);
      run.unstage(made_dc0, dc0, "dc0");
    } else {
      run.add_composed<Backward>(backward, both);
    }
    run.unstage(made_dx, dx, "dx");
    run.unstage(made_dh0, dh0, "dh0");
    if (p.layers == 1) {
      run.unstage(dw, run.tensor(P::dw, layers.w), "dw");
    } else {
      const auto all = run.temporary(layers.w);
      run.unstage(dw, all, "dw");
      part_dw<P>(run, layers, all);
    }
    run.unstage(dr, run.tensor(P::dr, layers.r), "dr");
    layers.write_biases(run, dbias, P::dbias);
  });
}

Plan rnn_tanh_training_onednn(const RnnTanhTraining& p, CpuContext&) {
  return plan_training<Cell::rnn_tanh, dnnl::vanilla_rnn_forward, dnnl::vanilla_rnn_backward>(p);
}
Plan gru_training_onednn(const GruTraining& p, CpuContext&) {
  return plan_training<Cell::gru, dnnl::lbr_gru_forward, dnnl::lbr_gru_backward>(p);
}
Plan lstm_training_onednn(const LstmTraining& p, CpuContext&) {
  return plan_training<Cell::lstm, dnnl::lstm_forward, dnnl::lstm_backward>(p);
}
DUET_REGISTER(rnn_tanh_training_onednn);  // cpu.onednn
DUET_REGISTER(gru_training_onednn);       // cpu.onednn
DUET_REGISTER(lstm_training_onednn);      // cpu.onednn

Plan rnn_tanh_onednn(const RnnTanh& p, CpuContext&) { return plan<Cell::rnn_tanh, dnnl::vanilla_rnn_forward>(p); }
Plan gru_onednn(const Gru& p, CpuContext&) { return plan<Cell::gru, dnnl::lbr_gru_forward>(p); }
Plan lstm_onednn(const Lstm& p, CpuContext&) { return plan<Cell::lstm, dnnl::lstm_forward>(p); }
DUET_REGISTER(rnn_tanh_onednn);  // cpu.onednn
DUET_REGISTER(gru_onednn);       // cpu.onednn
DUET_REGISTER(lstm_onednn);      // cpu.onednn

Plan rnn_tanh_onednn_packed(const RnnTanh& p, CpuContext&) {
  return plan<Cell::rnn_tanh, dnnl::vanilla_rnn_forward>(p, Packing::before);
}
Plan gru_onednn_packed(const Gru& p, CpuContext&) { return plan<Cell::gru, dnnl::lbr_gru_forward>(p, Packing::before); }
Plan lstm_onednn_packed(const Lstm& p, CpuContext&) { return plan<Cell::lstm, dnnl::lstm_forward>(p, Packing::before); }
DUET_REGISTER(rnn_tanh_onednn_packed);  // cpu.onednn_packed
DUET_REGISTER(gru_onednn_packed);       // cpu.onednn_packed
DUET_REGISTER(lstm_onednn_packed);      // cpu.onednn_packed

}  // namespace
}  // namespace duet
