// SPDX-License-Identifier: Apache-2.0
// rnn_tanh, gru, lstm and their backward passes: the choice between two ways to walk over the steps. Small weights fit
// the caches of one core and stay there while its thread takes some sequences through all steps (*_by_sequences.cpp).
// Large ones are read once a step by all threads together, which also share the products over all steps
// (*_by_units.cpp). A layer that would be one task by sequences goes by units as well, unless its weights are very
// small: its steps are too short to be shared, but the products over all steps are not. Start reading at layer.h, then
// cell-inl.h.
#include "cpu_ref/chunks.h"
#include "cpu_ref/recurrent/layer.h"

namespace duet {
namespace {
using recurrent::Layer, recurrent::ForwardTensors, recurrent::BackwardTensors;

// Weights of a direction: in f32 they take half of an L2 of 1 MiB, and with their gradients all of it.
constexpr int64_t kMaxOwnWeights = int64_t{128} << 10;

// Weights up to which a layer of one task is not worth sharing.
constexpr int64_t kMaxWeightsOfOneTask = int64_t{32} << 10;

// tasks: at most so many threads have work by sequences.
bool by_sequences(const Layer& p, int64_t tasks) {
  return p.G() * p.H * (p.I + p.H) <= (tasks == 1 ? kMaxWeightsOfOneTask : kMaxOwnWeights);
}

template <class P>
Plan forward(const P& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const Layer layer(p);
  const auto walk =
      by_sequences(layer, layer.B * layer.D()) ? recurrent::forward_by_sequences : recurrent::forward_by_units;
  return walk(layer, &ForwardTensors::of<P>, cpu);
}

template <class P>
Plan backward(const P& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const Layer layer(p);
  const auto walk = by_sequences(layer, layer.B) ? recurrent::backward_by_sequences : recurrent::backward_by_units;
  return walk(layer, &BackwardTensors::of<P>, cpu);
}

template <class P>
Plan training(const P& p, CpuContext& cpu) {
  return compose(
      p, [&](const auto& pass) { return forward(pass, cpu); }, [&](const auto& pass) { return backward(pass, cpu); },
      [&](const auto& op) { return registered_plan(op, "tuned", cpu); });
}

Plan rnn_tanh_tuned(const RnnTanh& p, CpuContext& cpu) { return forward(p, cpu); }
Plan rnn_tanh_backward_tuned(const RnnTanhBackward& p, CpuContext& cpu) { return backward(p, cpu); }
Plan gru_tuned(const Gru& p, CpuContext& cpu) { return forward(p, cpu); }
Plan gru_backward_tuned(const GruBackward& p, CpuContext& cpu) { return backward(p, cpu); }
Plan lstm_tuned(const Lstm& p, CpuContext& cpu) { return forward(p, cpu); }
Plan lstm_backward_tuned(const LstmBackward& p, CpuContext& cpu) { return backward(p, cpu); }
DUET_REGISTER(rnn_tanh_tuned);  // cpu.tuned, as all of these
DUET_REGISTER(rnn_tanh_backward_tuned);
DUET_REGISTER(gru_tuned);
DUET_REGISTER(gru_backward_tuned);
DUET_REGISTER(lstm_tuned);
DUET_REGISTER(lstm_backward_tuned);

Plan rnn_tanh_training_tuned(const RnnTanhTraining& p, CpuContext& cpu) { return training(p, cpu); }
Plan gru_training_tuned(const GruTraining& p, CpuContext& cpu) { return training(p, cpu); }
Plan lstm_training_tuned(const LstmTraining& p, CpuContext& cpu) { return training(p, cpu); }
DUET_REGISTER(rnn_tanh_training_tuned);
DUET_REGISTER(gru_training_tuned);
DUET_REGISTER(lstm_training_tuned);

}  // namespace
}  // namespace duet
