// SPDX-License-Identifier: Apache-2.0
// The training tape of a model, planned and with drawn inputs: what the tests of whole steps run.
#pragma once
#include <memory>

#include "core/context.h"
#include "models/model.h"
#include "models/step.h"
#include "models/tape.h"

namespace duet {

constexpr uint64_t kSeed = 3;

inline std::unique_ptr<Tape> tape_of(const Model& model, Context& context, const Tape::Preferences& preferences) {
  auto tape = std::make_unique<Tape>(context, preferences, kSeed);
  model.train(*tape);
  tape->plan();
  tape->fill_inputs(kSeed);
  return tape;
}

// As bench_all does: whole steps, then each phase and each node by itself.
inline void run_in_every_way(Step& step, Context& context) {
  context.enter([&] {
    for (int i = 0; i < 3; ++i) step.run();
    for (size_t p = 0; p < step.phases().size(); ++p) step.run_phase(p);
    for (size_t p = 0; p < step.nodes().size(); ++p) step.run_node(p);
  });
}

}  // namespace duet
