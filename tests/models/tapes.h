// SPDX-License-Identifier: Apache-2.0
// The training tape of a model, planned and with drawn inputs: what the tests of whole steps run.
#pragma once
#include <memory>

#include "models/model.h"
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

}  // namespace duet
