// Learning for real: a model's training tape over a data set, and its evaluation tape, where nothing is random.
#pragma once
#include <vector>

#include "models/data/dataset.h"
#include "models/model.h"
#include "models/tape.h"

namespace duet {

class Trainer {
 public:
  // Throws NotServed where a primitive has none of the preferred implementations.
  Trainer(const Model& model, Context& context, const Tape::Preferences& preferences, uint64_t seed);

  void learning_rate(double lr);
  // One pass in shuffled order, the last incomplete batch left out; returns the mean loss. Throws Error on samples
  // of another size than the model's, fewer samples than a batch, and a loss that is no longer finite, with its step.
  double epoch(const Dataset& data);
  double accuracy(const Dataset& data);  // share of samples whose largest logit is the label's
  int64_t batch() const { return batch_; }
  int64_t steps() const { return steps_; }
  const Tape& tape() const { return train_; }

 private:
  void expect(const Dataset& data) const;
  void gather(const Dataset& data, const std::vector<int64_t>& samples);  // into x_ and label_

  Context* context_;
  Tape train_, evaluate_;
  uint64_t seed_;
  int64_t batch_ = 0, features_ = 0, steps_ = 0, epochs_ = 0;
  Var x_of_, label_of_, loss_of_, evaluated_x_of_, logits_of_;
  std::vector<float> x_;
  std::vector<int32_t> label_;
};

}  // namespace duet
