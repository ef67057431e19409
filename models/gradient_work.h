// SPDX-License-Identifier: Apache-2.0
// What a training does with gradients between the backward passes of its batches and the optimiser: it adds up those of
// several batches, and clips them. These are ops on the arena of gradients of a tape that is planned.
// Gradients of a scaled loss are clipped after the node of the tape that divides them by the scale. In a step that
// overflows, clipped gradients are not finite: that node has set `bad`, so that the optimiser leaves the step out.
#pragma once
#include <optional>
#include <string>

#include "core/context.h"
#include "core/nvtx.h"
#include "core/plan.h"
#include "models/tape.h"

namespace duet {

class GradientWork {
 public:
  // accumulate: batches whose mean gradient makes an update. max_norm: the norm to which it is clipped; 0: it is not.
  // Throws Error where the model updates its parameters without gradients.
  GradientWork(Tape& tape, const std::string& model, const Tape::Preferences& preferences, int64_t accumulate,
               double max_norm);

  // Inside context.enter():
  void begin();                     // before the first batch of an update
  void add();                       // after each batch's backward pass
  void update(size_t first_phase);  // runs the phases of the tape from this one on, the optimiser's, with clipping

 private:
  void clip();

  Tape& tape_;
  Context& context_;
  int64_t count_, bytes_ = 0;
  Tensor gradients_{}, clipped_{};
  std::optional<size_t> unscale_node_;  // of the tape, where it divides the gradients by a scale
  NvtxName optimiser_{kOptimiser};
  DType norm_dtype_ = DType::f32;
  Plan add_ = Unsupported{""}, norm_ = Unsupported{""}, clip_ = Unsupported{""};
  Buffer sum_, norm_value_, workspace_;
};

}  // namespace duet
