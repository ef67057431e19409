// SPDX-License-Identifier: Apache-2.0
// Trains a model on a data set: it runs the training tape over the samples, and the evaluation tape to test. `duet
// train` uses it; models/predictor.h serves what it has trained. A model with integer labels classifies by the largest
// logit; one with floating labels decides between 0 and 1 by the sign of its only logit. Of a model that also takes
// "target", a decoder's input, each target is the labels moved by one place, behind kFirstToken. One that also takes
// "item" predicts ratings: its x are users, its labels numbers, and its evaluation has the mean square error as "loss".
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "models/checkpoint.h"
#include "models/data/augment.h"
#include "models/data/dataset.h"
#include "models/model.h"
#include "models/schedule.h"
#include "models/tape.h"

namespace duet {

class GradientWork;

constexpr int32_t kFirstToken = 0;  // what a decoder reads before the first label

// What a sample of a model is.
struct SampleForm {
  int64_t batch = 0;                  // samples of a step
  int64_t features = 0, targets = 1;  // of a sample: numbers or tokens, and labels
  int64_t classes = 0;
  int64_t channels = 0, side = 0;     // of images, channels first: features = channels side side; else 0
  bool tokens = false;                // otherwise numbers
  bool binary = false;                // one label, 0 or 1, and one logit
  bool label_for_each_token = false;  // a language model, or
  bool pairs = false;                 // an encoder and a decoder: the labels are another sequence
  int64_t steps = 0;                  // of a sequence of numbers: features = steps times what a step has; else 0
  int64_t users = 0, items = 0;       // of ratings: tokens are a user and an item, the label is a number; else 0
};
// Cheap: it plans nothing and allocates no tensor. Throws Error for a model that takes other inputs.
SampleForm sample_form(const Model& model, Context& context);
// As cheap. Throws NotServed, with the sizes, where training needs more memory than there is.
void require_memory_to_train(const Model& model, Context& context);

// What evaluating a model says of it. Those that are not the custom for its kind are missing. Labels that fill a pair's
// sequence up behind its end do not count.
struct Metrics {
  double accuracy = 0;                          // share of labels that are predicted correctly; of ratings 0
  double loss = 0;                              // mean cross-entropy of a label; of ratings the mean square error
  std::optional<double> precision, recall, f1;  // of a binary decision, for the label 1
  std::optional<double> perplexity;             // of sequences: exp(loss)
  std::optional<double> rmse;                   // of ratings: root of the mean square error
  // Larger is better: of ratings and of sequences by their error, of others by accuracy.
  double score() const { return rmse ? -*rmse : perplexity ? -loss : accuracy; }
};

struct TrainingOptions {
  int64_t accumulate = 1;  // batches whose mean gradient makes an update
  double max_norm = 0;     // norm to which gradients are clipped, without a scale of the loss; 0: as the model does
  std::optional<Augmentation> augmentation = {};  // of images; without a value, samples stay as they are
  Choice choice = Choice::order;
  Tape::Choices chosen = {};  // before, in a training that is resumed: see recorded_choices()
};

// Where an epoch is. Called after each batch; returns whether to go on.
struct Progress {
  int64_t batch, batches;  // done so far, of the epoch
  double loss;             // mean of the epoch so far
};
using OnBatch = std::function<bool(const Progress&)>;
struct TrainingStopped : Error {
  using Error::Error;
};

class Trainer {
 public:
  // Throws NotServed where no preferred implementation supports an op; Error for options that the model cannot have.
  Trainer(const Model& model, Context& context, const Tape::Preferences& preferences, uint64_t seed,
          const TrainingOptions& options = {});
  ~Trainer();

  void learning_rate(double lr);
  double learning_rate() const;
  void schedule(const Schedule& schedule) { schedule_ = schedule; }
  // One pass over the samples in shuffled order, without the last incomplete batch (or, with accumulation, the last
  // incomplete group of batches); returns the mean loss. Throws Error
  // for samples of another size than the model's, for labels and tokens that it does not have, and for fewer samples
  // than a batch. Throws Error when the loss is not finite, with the step and the first tensor that is not finite;
  // parameters and optimiser are then still those of the step before. It also throws when parameters or state are not
  // finite at the end, so that no checkpoint holds such values. With a scaled loss a step whose gradients overflow is
  // left out (models/layers.h), and the epoch throws when the scale has fallen to 0. Throws TrainingStopped where
  // on_batch says so; the epoch is then not complete, and only restore() makes the trainer good again.
  double epoch(const Dataset& data, const OnBatch& on_batch = {});
  Metrics evaluate(const Dataset& data);
  double accuracy(const Dataset& data) { return evaluate(data).accuracy; }
  const SampleForm& form() const { return form_; }
  int64_t steps() const { return steps_; }
  int64_t updates() const { return updates_; }
  int64_t updates_of_epoch(int64_t samples) const { return samples / (form_.batch * options_.accumulate); }
  int64_t epochs() const { return epochs_; }
  const Tape& tape() const { return train_; }

  // Parameters, the optimiser's state, and the numbers of steps, updates and epochs: with them restore() continues as
  // if training had not stopped, bit for bit where the implementations are deterministic.
  Checkpoint checkpoint() const;
  // Throws Error, naming model, version, layout, seed or tensor, when the checkpoint is not of this model and seed;
  // nothing has changed then.
  void restore(const Checkpoint& checkpoint);
  // Begins with the parameters and the running statistics of a checkpoint of this model, and with its teacher if both
  // have one; the optimiser and all counts begin anew. Returns the names of tensors that keep their initial values:
  // those that head_only trains, where they have another shape in the checkpoint, as for other classes. Throws Error,
  // naming model, version, layout or tensor, for any other difference, and for a tensor that the model does not have;
  // nothing has changed then.
  std::vector<std::string> begin_with(const Checkpoint& checkpoint);
  // Gives the model's frozen teacher the parameters of a checkpoint; checkpoint() has them from then on. Throws as
  // require_teacher and require_alike do; nothing has changed then.
  void load_teacher(const Checkpoint& checkpoint);

 private:
  // Samples of a batch as the tape takes them.
  struct Batch {
    std::vector<float> x, value;
    std::vector<int32_t> token, label, target;
  };
  class Loader;
  void require_fitting(const Dataset& data) const;
  void require_loss_scale() const;
  void gather(const Dataset& data, std::span<const int64_t> samples, int64_t augmented_in, Batch& batch) const;
  void upload(const Batch& batch);
  void upload_ratings(Tape& tape, const Batch& batch) const;
  Metrics evaluate_ratings(const Dataset& data);
  bool is_filler(const Dataset& data, int64_t label) const;
  double forward_and_backward();
  void update();
  std::string first_non_finite();
  std::vector<std::pair<std::string, Var>> persistent_tensors() const;

  Context* context_;
  Tape train_, evaluate_;
  Model model_;
  uint64_t seed_;
  TrainingOptions options_;
  std::optional<Schedule> schedule_;
  std::unique_ptr<GradientWork> gradient_work_;
  size_t loss_phase_ = 0;              // the phase that computes the loss
  size_t optimiser_phase_ = SIZE_MAX;  // the first phase that updates parameters
  SampleForm form_;
  int64_t steps_ = 0, updates_ = 0, epochs_ = 0;
  int64_t vocabulary_ = 0;  // of the embedding that reads the tokens; 0 where there is none
  Var x_of_, label_of_, loss_of_, evaluated_x_of_, logits_of_, target_of_, evaluated_target_of_;
};

// What a training with Choice::measured has chosen, which its checkpoint keeps so that one that is resumed computes the
// same bits; else nothing. Throws Error where the metadata are no such list.
Tape::Choices recorded_choices(const Checkpoint& checkpoint);

// Parts that models/predictor.h needs as well.
std::vector<int32_t> shifted(std::span<const int32_t> labels,
                             int64_t length);  // a decoder's input, sequence by sequence
void upload_samples(Tape& tape, Var var, const std::vector<float>& x, const std::vector<int32_t>& token);
// Throw Error, naming the difference: another model, version or layout; a tensor that is missing or of another shape.
// same_layout: false where the model takes the checkpoint's attributes, its layout among them.
void require_made_by(const Checkpoint& checkpoint, const Model& model, bool same_layout = true);
// teacher: of the model, of the same name, that is its teacher; batch and mixed precision may differ. Also throws where
// the model has no teacher.
void require_teacher(const Checkpoint& checkpoint, const Model& model);
void require_alike(const Checkpoint& checkpoint, const Tape& tape,
                   std::span<const std::pair<std::string, Var>> tensors);
void upload_tensors(const Checkpoint& checkpoint, Tape& tape, std::span<const std::pair<std::string, Var>> tensors);

}  // namespace duet
