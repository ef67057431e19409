// SPDX-License-Identifier: Apache-2.0
#include "models/predictor.h"

#include <algorithm>
#include <cmath>

namespace duet {

Model trained_model(const Checkpoint& checkpoint, const Model& model) {
  const auto words = checkpoint.metadata.find("case"), of = checkpoint.metadata.find("model");
  const bool own = of != checkpoint.metadata.end() && of->second == model.name();
  return own && words != checkpoint.metadata.end() ? model.with_words(words->second) : model;
}

Model served_model(const Checkpoint& checkpoint, const Model& model) {
  return trained_model(checkpoint, model).with("batch", "1");
}

Predictor::Predictor(const Model& model, Context& context, const Tape::Preferences& preferences,
                     const Checkpoint& checkpoint)
    : context_(&context), tape_(context, preferences), form_(sample_form(model, context)) {
  require_made_by(checkpoint, model);
  model.evaluate(tape_);
  tape_.plan();
  std::vector<std::pair<std::string, Var>> tensors = tape_.named_parameters();
  tensors.insert(tensors.end(), tape_.states().begin(), tape_.states().end());
  require_alike(checkpoint, tape_, tensors);
  upload_tensors(checkpoint, tape_, tensors);
  for (const Tape::Node& node : tape_.nodes())
    if (node.problem.name() == "embedding" && node.slots[0].id == tape_.find("x").id)
      vocabulary_ = tape_.shape(node.slots[1])[0];
}

std::vector<double> Predictor::logits(const std::vector<float>& x, const std::vector<int32_t>& token,
                                      const std::vector<int32_t>& target) {
  const auto given = static_cast<int64_t>(form_.tokens ? token.size() : x.size());
  if (given != form_.features)
    throw Error("{} {} are given, the model takes {}", given, form_.tokens ? "tokens" : "numbers", form_.features);
  for (const std::vector<int32_t>* list : {&token, &target})
    for (const int32_t t : *list)
      if (t < 0 || (vocabulary_ > 0 && t >= vocabulary_))
        throw Error("token {}; the model takes 0 to {}", t, vocabulary_ - 1);
  upload_samples(tape_, tape_.find("x"), x, token);
  if (form_.pairs) tape_.upload(tape_.find("target"), std::span<const int32_t>(target));
  context_->enter([&] { tape_.run(); });
  return tape_.download(tape_.find("logits"));
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
