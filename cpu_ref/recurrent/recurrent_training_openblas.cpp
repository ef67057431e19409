// SPDX-License-Identifier: Apache-2.0
// Both passes of several layers by the single ones of cpu.openblas, with dropout between them by plain loops: that of
// cpu.tuned would make an error there common to both.
#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "ops/recurrent/compose_training.h"

namespace duet {
namespace {
Plan dropped(const Dropout& p, CpuContext& cpu) {
  return [p, &cpu](Args t) {
    const int32_t offset = *t[Dropout::offset].as<const int32_t>();
    const void* x = t[Dropout::x].data;
    void* y = t[Dropout::y].data;
    auto* mask = t[Dropout::mask].as<uint8_t>();
    const auto seed = static_cast<uint64_t>(p.seed), threshold = dropout_threshold(p.p);
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        mask[i] = dropout_keeps(dropout_index(offset, i), seed, threshold);
        store_double(y, p.dtype, i, mask[i] ? load_as_double(x, p.dtype, i) * dropout_scale(p.p) : 0);
      }
    });
  };
}
Plan dropped(const DropoutBackward& p, CpuContext& cpu) {
  return [p, &cpu](Args t) {
    const void* dy = t[DropoutBackward::dy].data;
    void* dx = t[DropoutBackward::dx].data;
    const auto* mask = t[DropoutBackward::mask].as<const uint8_t>();
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        store_double(dx, p.dtype, i, mask[i] ? load_as_double(dy, p.dtype, i) * dropout_scale(p.p) : 0);
    });
  };
}

template <class P>
Plan training(const P& p, CpuContext& cpu) {
  const auto single = [&](const auto& pass) { return registered_plan(pass, "openblas", cpu); };
  return compose(p, single, single, [&](const auto& op) { return dropped(op, cpu); });
}

Plan rnn_tanh_training_openblas(const RnnTanhTraining& p, CpuContext& cpu) { return training(p, cpu); }
Plan gru_training_openblas(const GruTraining& p, CpuContext& cpu) { return training(p, cpu); }
Plan lstm_training_openblas(const LstmTraining& p, CpuContext& cpu) { return training(p, cpu); }
DUET_REGISTER(rnn_tanh_training_openblas);  // cpu.openblas, as all of these
DUET_REGISTER(gru_training_openblas);
DUET_REGISTER(lstm_training_openblas);

}  // namespace
}  // namespace duet
