// SPDX-License-Identifier: Apache-2.0
// Trains a model on a data set: it runs the training tape over the samples, and the evaluation tape to test. `duet
// train` uses it. A model with integer labels classifies by the largest logit; one with floating labels decides between
// 0 and 1 by the sign of its only logit.
#pragma once
#include <vector>

#include "models/checkpoint.h"
#include "models/data/dataset.h"
#include "models/model.h"
#include "models/tape.h"

namespace duet {

// What a sample of a model is.
struct SampleForm {
  int64_t batch = 0;                  // samples of a step
  int64_t features = 0, targets = 1;  // of a sample: numbers or tokens, and labels
  int64_t classes = 0;
  bool tokens = false;                // otherwise numbers
  bool binary = false;                // one label, 0 or 1, and one logit
  bool label_for_each_token = false;  // a language model
};
// Cheap: it plans nothing and allocates no tensor. Throws Error for a model that takes more than samples and labels.
SampleForm sample_form(const Model& model, Context& context);

class Trainer {
 public:
  // Throws NotServed where no preferred implementation supports an op.
  Trainer(const Model& model, Context& context, const Tape::Preferences& preferences, uint64_t seed);

  void learning_rate(double lr);
  // One pass over the samples in shuffled order, without the last incomplete batch; returns the mean loss. Throws Error
  // for samples of another size than the model's, for labels and tokens that it does not have, and for fewer samples
  // than a batch. Throws Error when the loss is not finite, with the step and the first tensor that is not finite;
  // parameters and optimiser are then still those of the step before. It also throws when parameters or state are not
  // finite at the end, so that no checkpoint holds such values. With a scaled loss a step whose gradients overflow is
  // left out (models/layers.h), and the epoch throws when the scale has fallen to 0.
  double epoch(const Dataset& data);
  double accuracy(const Dataset& data);  // share of labels that are predicted correctly
  const SampleForm& form() const { return form_; }
  int64_t steps() const { return steps_; }
  int64_t epochs() const { return epochs_; }
  const Tape& tape() const { return train_; }

  // Parameters, the optimiser's state, and the numbers of steps and epochs: with them restore() continues as if
  // training had not stopped, bit for bit where the implementations are deterministic.
  Checkpoint checkpoint() const;
  // Throws Error, naming model, seed or tensor, when the checkpoint is not of this model and seed; nothing has changed
  // then.
  void restore(const Checkpoint& checkpoint);

 private:
  void require_fitting(const Dataset& data) const;
  void require_loss_scale() const;
  void gather(const Dataset& data, const std::vector<int64_t>& samples);  // into x_, token_ and label_
  void upload_x(Tape& tape, Var var) const;
  void upload_labels();
  double step();
  std::string first_non_finite();
  std::vector<std::pair<std::string, Var>> persistent_tensors() const;

  Context* context_;
  Tape train_, evaluate_;
  std::string model_;
  uint64_t seed_;
  size_t loss_phase_ = 0;  // the phase that computes the loss
  SampleForm form_;
  int64_t steps_ = 0, epochs_ = 0;
  int64_t vocabulary_ = 0;  // of the embedding that reads the tokens; 0 where there is none
  Var x_of_, label_of_, loss_of_, evaluated_x_of_, logits_of_;
  std::vector<float> x_;
  std::vector<int32_t> token_, label_;
};

}  // namespace duet
