// SPDX-License-Identifier: Apache-2.0
// Serves a trained model: the evaluation tape with the parameters of a checkpoint, one sample at a time; the items that
// a user would rate highest; and texts, token by token. `duet predict` uses it.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/checkpoint.h"
#include "models/model.h"
#include "models/trainer.h"

namespace duet {

// The model as it was trained: with the attributes that the checkpoint's metadata name. Without them, as in a file of
// an older program, `model`. served_model: the same with a batch of 1 and its batch normalisation folded, if any.
Model trained_model(const Checkpoint& checkpoint, const Model& model);
Model served_model(const Checkpoint& checkpoint, const Model& model);

class Predictor {
 public:
  // Throws Error, naming the difference, when the checkpoint is not of this model; NotServed where no preferred
  // implementation supports an op.
  Predictor(const Model& model, Context& context, const Tape::Preferences& preferences, Checkpoint checkpoint);

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

// Finds the items that a user of a model of ratings would rate highest: a model with the attribute `top` set.
class ItemPredictor {
 public:
  struct Item {
    int32_t item;
    double rating;
  };
  // Throws as Predictor.
  ItemPredictor(const Model& model, Context& context, const Tape::Preferences& preferences, Checkpoint checkpoint);
  std::vector<Item> of(int32_t user);  // the best first; throws Error for a user that the model does not have

 private:
  Context* context_;
  Tape tape_;
  int64_t users_ = 0;
};

// Continues texts with a language model. A prompt is read at once, and then each token by itself, against the keys and
// values of those before it.
class TextPredictor {
 public:
  // Throws as Predictor.
  TextPredictor(const Model& model, Context& context, const Tape::Preferences& preferences,
                const Checkpoint& checkpoint);

  // The logits of the token that follows a text of one token or more, of which the model reads the last window(). Where
  // the text is that of the last call and one token more, only this token is computed; but a text longer than the
  // window moves through it, so that every token has another position, and all of the window is computed.
  std::vector<double> next(const std::vector<int32_t>& text);
  int64_t window() const { return window_; }
  int64_t vocabulary() const { return vocabulary_; }

 private:
  void read(std::span<const int32_t> text);  // by the prefill
  void append(int32_t token);                // by the decoding; text_ is what was read before

  Model model_;
  Context* context_;
  Tape::Preferences preferences_;
  Tape prefill_;
  std::optional<Tape> decode_;  // from the first token on that it computes
  bool decoding_ = false;       // whether the caches of decode_ hold text_; otherwise those of prefill_ do
  std::vector<int32_t> text_;
  int64_t window_, vocabulary_;
};

std::vector<double> softmax_of(std::vector<double> logits);

}  // namespace duet
