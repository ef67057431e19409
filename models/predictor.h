// SPDX-License-Identifier: Apache-2.0
// Serves a trained model: the evaluation tape with the parameters of a checkpoint, one sample at a time. `duet predict`
// uses it.
#pragma once
#include <cstdint>
#include <vector>

#include "models/checkpoint.h"
#include "models/model.h"
#include "models/trainer.h"

namespace duet {

// The model as it was trained: with the attributes that the checkpoint's metadata name. Without them, as in a file of
// an older program, `model`. served_model: the same with a batch of 1.
Model trained_model(const Checkpoint& checkpoint, const Model& model);
Model served_model(const Checkpoint& checkpoint, const Model& model);

class Predictor {
 public:
  // Throws Error, naming the difference, when the checkpoint is not of this model; NotServed where no preferred
  // implementation supports an op.
  Predictor(const Model& model, Context& context, const Tape::Preferences& preferences, const Checkpoint& checkpoint);

  const SampleForm& form() const { return form_; }
  // The logits of one sample, (labels of a sample, classes) row by row: its numbers or its tokens, and of a model with
  // a decoder what that reads. Throws Error for another number of them, and for tokens that the model does not have.
  std::vector<double> logits(const std::vector<float>& x, const std::vector<int32_t>& token,
                             const std::vector<int32_t>& target = {});
  int64_t vocabulary() const { return vocabulary_; }  // of tokens; 0 where they are not looked up

 private:
  Context* context_;
  Tape tape_;
  SampleForm form_;
  int64_t vocabulary_ = 0;
};

std::vector<double> softmax_of(std::vector<double> logits);

}  // namespace duet
