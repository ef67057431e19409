// SPDX-License-Identifier: Apache-2.0
// The two walks over the steps: weights that fit a thread's own caches stay there while it takes its sequences through all
// steps; larger ones are read once a step, by all threads together.
#include "cpu_ref/chunks.h"
#include "cpu_ref/recurrent/layer.h"

namespace duet {
namespace {
using recurrent::Layer, recurrent::ForwardTensors, recurrent::BackwardTensors;

constexpr int64_t kMostOwn = int64_t{128}
                             << 10;  // weights of a direction: half of a 1 MiB L2, or with their gradients all

bool by_sequences(const Layer& p) { return p.G() * p.H * (p.I + p.H) <= kMostOwn; }

template <class P>
Plan forward(const P& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const Layer layer(p);
  const auto walk = by_sequences(layer) ? recurrent::forward_by_sequences : recurrent::forward_by_units;
  return walk(layer, &ForwardTensors::of<P>, cpu);
}

template <class P>
Plan backward(const P& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const Layer layer(p);
  const auto walk = by_sequences(layer) ? recurrent::backward_by_sequences : recurrent::backward_by_units;
  return walk(layer, &BackwardTensors::of<P>, cpu);
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

}  // namespace
}  // namespace duet
