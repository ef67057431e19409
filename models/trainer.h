// SPDX-License-Identifier: Apache-2.0
// Learning for real: a model's training tape over a data set, and its evaluation tape, where nothing is random.
// A model with whole-number labels is a classifier by the largest logit; one with floating labels decides between 0 and 1
// by the sign of its only logit.
#pragma once
#include <vector>

#include "models/checkpoint.h"
#include "models/data/dataset.h"
#include "models/model.h"
#include "models/tape.h"

namespace duet {

class Trainer {
 public:
  // Throws NotServed where an op has none of the preferred implementations.
  Trainer(const Model& model, Context& context, const Tape::Preferences& preferences, uint64_t seed);

  void learning_rate(double lr);
  // One pass in shuffled order, the last incomplete batch left out; returns the mean loss. Throws Error on samples
  // of another size than the model's, labels and tokens it does not have, fewer samples than a batch; on a loss that is no
  // longer finite, with its step and the first tensor that is not: parameters and optimiser are then still those of the
  // step before; and where they are not finite at the end, so that no checkpoint holds such. With a scaled loss a step
  // whose gradients overflow is left out (models/layers.h), and an epoch that ends without any scale throws.
  double epoch(const Dataset& data);
  double accuracy(const Dataset& data);  // share of labels that are told right
  int64_t batch() const { return batch_; }
  int64_t features() const { return features_; }  // of a sample
  int64_t targets() const { return targets_; }    // labels of a sample
  int64_t classes() const { return evaluate_.shape(logits_of_).back(); }
  bool takes_tokens() const { return !token_.empty(); }                // else numbers
  bool label_for_each_token() const { return label_for_each_token_; }  // a language model
  int64_t steps() const { return steps_; }
  int64_t epochs() const { return epochs_; }
  const Tape& tape() const { return train_; }

  // Parameters, the optimiser's state, and how far the training is: what restore() needs to go on as if it had not
  // stopped, bit for bit where the implementations are deterministic.
  Checkpoint checkpoint() const;
  // Throws Error, naming model, seed or tensor, where the checkpoint is not one of this model or this seed; then nothing
  // has changed.
  void restore(const Checkpoint& checkpoint);

 private:
  void expect(const Dataset& data) const;
  void expect_scale() const;
  void gather(const Dataset& data, const std::vector<int64_t>& samples);  // into x_, token_ and label_
  void upload_x(Tape& tape, Var var) const;
  void upload_labels();
  double step();
  std::string first_non_finite();
  std::vector<std::pair<std::string, Var>> lasting() const;

  Context* context_;
  Tape train_, evaluate_;
  std::string model_;
  uint64_t seed_;
  size_t loss_phase_ = 0;  // the first after which the loss is there
  int64_t batch_ = 0, features_ = 0, targets_ = 1, steps_ = 0, epochs_ = 0;
  int64_t vocabulary_ = 0;  // of tokens that are embedded
  bool binary_ = false, label_for_each_token_ = false;
  Var x_of_, label_of_, loss_of_, evaluated_x_of_, logits_of_;
  std::vector<float> x_;
  std::vector<int32_t> token_, label_;
};

}  // namespace duet
