// SPDX-License-Identifier: Apache-2.0
#include "models/predictor.h"

#include <algorithm>
#include <cmath>

namespace duet {

Model trained_model(const Checkpoint& checkpoint, const Model& model) {
  const auto words = checkpoint.metadata.find("case"), of = checkpoint.metadata.find("model");
  const bool own = of != checkpoint.metadata.end() && of->second == model.name();
  return own && words != checkpoint.metadata.end() ? find_model(model.name()).with_words(words->second) : model;
}

Model served_model(const Checkpoint& checkpoint, const Model& model) {
  const Model served = trained_model(checkpoint, model).with("batch", "1");
  const std::vector<Attribute> attributes = served.attributes();
  const bool folds =
      std::any_of(attributes.begin(), attributes.end(), [](const Attribute& a) { return a.name == kFolded; });
  return folds ? served.with(kFolded, "1") : served;
}

namespace {

void load(const Checkpoint& checkpoint, Tape& tape, const std::vector<std::pair<std::string, Var>>& tensors) {
  require_alike(checkpoint, tape, tensors);
  upload_tensors(checkpoint, tape, tensors);
}

// Of the embedding that reads the tokens; 0 where there is none.
int64_t vocabulary_of(const Tape& tape) {
  for (const Tape::Node& node : tape.nodes())
    if (node.problem.name() == "embedding" && node.slots[0].id == tape.find("x").id)
      return tape.shape(node.slots[1])[0];
  return 0;
}

void require_tokens(std::span<const int32_t> tokens, int64_t vocabulary) {
  for (const int32_t t : tokens)
    if (t < 0 || (vocabulary > 0 && t >= vocabulary))
      throw Error("token {}; the model takes 0 to {}", t, vocabulary - 1);
}

}  // namespace

Predictor::Predictor(const Model& model, Context& context, const Tape::Preferences& preferences, Checkpoint checkpoint)
    : context_(&context),
      tape_(context, preferences),
      form_(sample_form(trained_model(checkpoint, model).with("batch", "1"), context)) {
  require_made_by(checkpoint, model);
  model.adapt(checkpoint);
  model.evaluate(tape_);
  tape_.plan();
  std::vector<std::pair<std::string, Var>> tensors = tape_.named_parameters();
  tensors.insert(tensors.end(), tape_.states().begin(), tape_.states().end());
  load(checkpoint, tape_, tensors);
  vocabulary_ = vocabulary_of(tape_);
}

std::vector<double> Predictor::logits(const std::vector<float>& x, const std::vector<int32_t>& token,
                                      const std::vector<int32_t>& target) {
  const auto given = static_cast<int64_t>(form_.tokens ? token.size() : x.size());
  if (given != form_.features)
    throw Error("{} {} are given, the model takes {}", given, form_.tokens ? "tokens" : "numbers", form_.features);
  require_tokens(token, vocabulary_);
  require_tokens(target, vocabulary_);
  upload_samples(tape_, tape_.find("x"), x, token);
  if (form_.pairs) tape_.upload(tape_.find("target"), std::span<const int32_t>(target));
  context_->enter([&] { tape_.run(); });
  return tape_.download(tape_.find("logits"));
}

ItemPredictor::ItemPredictor(const Model& model, Context& context, const Tape::Preferences& preferences,
                             Checkpoint checkpoint)
    : context_(&context), tape_(context, preferences) {
  require_made_by(checkpoint, model);
  model.adapt(checkpoint);
  model.evaluate(tape_);
  tape_.plan();
  load(checkpoint, tape_, tape_.named_parameters());
  users_ = tape_.shape(tape_.find("user.bias")).at(0);
}

std::vector<ItemPredictor::Item> ItemPredictor::of(int32_t user) {
  if (user < 0 || user >= users_) throw Error("user {}; the model has users 0 to {}", user, users_ - 1);
  tape_.upload(tape_.find("x"), std::span<const int32_t>(&user, 1));
  context_->enter([&] { tape_.run(); });
  const std::vector<double> rating = tape_.download(tape_.find("logits")), item = tape_.download(tape_.find("items"));
  std::vector<Item> all;
  for (size_t i = 0; i < rating.size(); ++i) all.push_back({static_cast<int32_t>(item[i]), rating[i]});
  return all;
}

TextPredictor::TextPredictor(const Model& model, Context& context, const Tape::Preferences& preferences,
                             const Checkpoint& checkpoint)
    : model_(model), context_(&context), preferences_(preferences), prefill_(context, preferences) {
  require_made_by(checkpoint, model);
  model.with("phase", "prefill").evaluate(prefill_);
  prefill_.plan();
  load(checkpoint, prefill_, prefill_.named_parameters());  // its states are caches
  vocabulary_ = vocabulary_of(prefill_);
  window_ = prefill_.shape(prefill_.find("x"))[1];
}

std::vector<double> TextPredictor::next(const std::vector<int32_t>& text) {
  if (text.empty()) throw Error("a text of one token or more is needed");
  require_tokens(text, vocabulary_);
  const bool goes_on = static_cast<int64_t>(text.size()) <= window_ && text.size() == text_.size() + 1 &&
                       std::equal(text_.begin(), text_.end(), text.begin());
  if (goes_on && !text_.empty())
    append(text.back());
  else
    read(text);
  text_ = text;
  const Tape& tape = decoding_ ? *decode_ : prefill_;
  return tape.download(tape.find("logits"));
}

void TextPredictor::read(std::span<const int32_t> text) {
  const size_t window = static_cast<size_t>(window_), length = std::min(text.size(), window);
  std::vector<int32_t> token(text.end() - static_cast<int64_t>(length), text.end());
  token.resize(window, 0);  // what follows the last token: attention is causal and does not look there
  const auto last = static_cast<int32_t>(length - 1);
  prefill_.upload(prefill_.find("x"), std::span<const int32_t>(token));
  prefill_.upload(prefill_.find("last"), std::span<const int32_t>(&last, 1));
  context_->enter([&] { prefill_.run(); });
  decoding_ = false;
}

void TextPredictor::append(int32_t token) {
  if (!decode_) {
    decode_.emplace(*context_, preferences_);
    model_.with({{"phase", "decode"}, {"tokens", "1"}}).evaluate(*decode_);
    decode_->plan();
  }
  if (!decoding_) decode_->copy_state_from(prefill_);
  const auto position = static_cast<int32_t>(text_.size()), length = position + 1;
  decode_->upload(decode_->find("x"), std::span<const int32_t>(&token, 1));
  decode_->upload(decode_->find("position"), std::span<const int32_t>(&position, 1));
  decode_->upload(decode_->find("lengths"), std::span<const int32_t>(&length, 1));
  context_->enter([&] { decode_->run(); });
  decoding_ = true;
}

std::vector<double> softmax_of(std::vector<double> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double& v : logits) {
    v = std::exp(v - max);
    sum += v;
  }
  for (double& v : logits) v /= sum;
  return logits;
}

}  // namespace duet
