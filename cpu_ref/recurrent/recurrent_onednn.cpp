// SPDX-License-Identifier: Apache-2.0
// rnn_tanh, gru and lstm without a backward pass behind them, by oneDNN's layers. Its backward passes read a workspace
// that its forward pass wrote in a format of its own; the contract has the gates in a reserve, which it neither writes
// nor reads. Weights are packed in every run, or before.
#include "core/registration.h"
#include "cpu_ref/onednn.h"
#include "ops/recurrent/recurrent.h"

namespace duet {
namespace {
using dnnl::prop_kind, dnnl::rnn_direction;
using onednn::Desc, onednn::Dims, onednn::Packing, onednn::Value;

template <Cell kCell>
struct Layer {
  using P = Recurrent<kCell>;
  static constexpr int64_t kBiases = kCell == Cell::gru ? 4 : P::G;
  P p;
  int64_t D = p.directions();
  Desc x = onednn::dense(p.dtype, {p.T, p.B, p.I}), state = onednn::dense(p.dtype, {1, D, p.B, p.H});
  Desc y = onednn::dense(p.dtype, {p.T, p.B, D* p.H});
  Desc w = weights(p.I), r = weights(p.H);
  Desc any_w = onednn::any(p.dtype, w.get_dims()), any_r = onednn::any(p.dtype, r.get_dims());
  Desc bias = onednn::dense(DType::f32, {1, D, kBiases, p.H});
  rnn_direction direction =
      p.bidirectional ? rnn_direction::bidirectional_concat : rnn_direction::unidirectional_left2right;

  // (layers, directions, in, G, H), stored as (directions, G, H, in).
  Desc weights(int64_t in) const {
    const int64_t gate = p.H * in, all = P::G * gate;
    return {{1, D, in, P::G, p.H}, onednn::type_of(p.dtype), {D * all, all, 1, gate, in}};
  }
  auto chosen() const {
    const auto& cpu = onednn::engine();
    constexpr auto kProp = prop_kind::forward_inference;
    if constexpr (kCell == Cell::rnn_tanh)
      return dnnl::vanilla_rnn_forward::primitive_desc(cpu, kProp, dnnl::algorithm::eltwise_tanh, direction, x, state,
                                                       any_w, any_r, bias, y, state, onednn::attributes());
    else if constexpr (kCell == Cell::gru)
      return dnnl::lbr_gru_forward::primitive_desc(cpu, kProp, direction, x, state, any_w, any_r, bias, y, state,
                                                   onednn::attributes());
    else
      return dnnl::lstm_forward::primitive_desc(cpu, kProp, direction, x, state, state, any_w, any_r, bias, y, state,
                                                state, onednn::attributes());
  }
  // In f32. Of gru four: the contract's two of z and of r are added up, those of n follow.
  Value biases(onednn::Program& run) const {
    if constexpr (kCell != Cell::gru) {
      return run.copied(run.tensor(P::bias, onednn::dense(p.dtype, bias.get_dims())), bias, "bias");
    } else {
      const Value all = run.temporary(bias);
      run.add([p = p, D = D, piece = run.place_of(all)](const Args& t) {
        const void* from = t[P::bias].data;
        auto* to = static_cast<float*>(t.workspace(piece));
        for (int64_t i = 0; i < D * 4 * p.H; ++i) {
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
};

template <Cell kCell, class Primitive>
Plan plan(const Recurrent<kCell>& p, Packing packing = Packing::in_each_run) {
  using P = Recurrent<kCell>;
  if (p.padded) return Unsupported{"oneDNN has no lengths: all sequences of a layer have T steps"};
  if (!p.inference && P::K > 0) return Unsupported{"oneDNN keeps the gates in a format of its own: inference only"};
  return onednn::planned(packing, [&](onednn::Program& run) {
    const Layer<kCell> layer{p};
    const auto x = run.tensor(P::x, layer.x), h0 = run.tensor(P::h0, layer.state);
    const auto y = run.tensor(P::y, layer.y), hT = run.tensor(P::hT, layer.state);
    const auto chosen = layer.chosen();
    const auto bias = layer.biases(run);
    const auto w = run.packed(P::w, run.tensor(P::w, layer.w), chosen.weights_layer_desc(), packing);
    const auto r = run.packed(P::r, run.tensor(P::r, layer.r), chosen.weights_iter_desc(), packing);
    if constexpr (P::has_c)
      run.add_composed<Primitive>(chosen, {{DNNL_ARG_SRC_LAYER, x},
                                           {DNNL_ARG_SRC_ITER, h0},
                                           {DNNL_ARG_SRC_ITER_C, run.tensor(P::c0, layer.state)},
                                           {DNNL_ARG_WEIGHTS_LAYER, w},
                                           {DNNL_ARG_WEIGHTS_ITER, r},
                                           {DNNL_ARG_BIAS, bias},
                                           {DNNL_ARG_DST_LAYER, y},
                                           {DNNL_ARG_DST_ITER, hT},
                                           {DNNL_ARG_DST_ITER_C, run.tensor(P::cT, layer.state)}});
    else
      run.add_composed<Primitive>(chosen, {{DNNL_ARG_SRC_LAYER, x},
                                           {DNNL_ARG_SRC_ITER, h0},
                                           {DNNL_ARG_WEIGHTS_LAYER, w},
                                           {DNNL_ARG_WEIGHTS_ITER, r},
                                           {DNNL_ARG_BIAS, bias},
                                           {DNNL_ARG_DST_LAYER, y},
                                           {DNNL_ARG_DST_ITER, hT}});
  });
}

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
