// SPDX-License-Identifier: Apache-2.0
#include "cli/predict_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "cli/text_output.h"
#include "cli/training_plan.h"
#include "core/command_line.h"
#include "models/data/dice.h"
#include "models/data/text.h"

namespace duet {
namespace {
using Json = nlohmann::ordered_json;

// The most likely token, or with a temperature one drawn by its probability.
int32_t next_token(std::span<const double> logits, double temperature, Dice& dice) {
  if (temperature == 0) return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::vector<double> scaled(logits.begin(), logits.end());
  const double max = *std::max_element(scaled.begin(), scaled.end());
  for (double& v : scaled) v = (v - max) / temperature;  // a small temperature would make infinities of them
  const std::vector<double> p = softmax_of(std::move(scaled));
  double left = dice.uniform(0, 1);
  for (size_t i = 0; i < p.size(); ++i)
    if ((left -= p[i]) < 0) return static_cast<int32_t>(i);
  return static_cast<int32_t>(p.size()) - 1;
}

// The beginning of a text that a language model continues: bytes, or the tokens of a file.
struct Prompt {
  std::vector<int32_t> tokens;
  bool bytes;
};

Prompt prompt_of(const PredictOptions& options, const TextPredictor& predictor) {
  if (!options.prompt) {
    const std::string& file = options.inputs[0];
    Prompt prompt{read_tokens(file, predictor.vocabulary()), false};
    auto& tokens = prompt.tokens;
    if (tokens.empty()) throw Error("{}: 1 token or more is allowed", file);
    // The model reads no more than its window; a file may be that of a training.
    tokens.erase(tokens.begin(), tokens.end() - std::min(std::ssize(tokens), predictor.window()));
    return prompt;
  }
  Prompt prompt{{}, true};
  for (const char c : *options.prompt) {
    prompt.tokens.push_back(static_cast<unsigned char>(c));
    if (prompt.tokens.back() >= predictor.vocabulary())
      throw Error("--prompt: byte {} is not below the model's vocabulary of {}; a file of 16-bit tokens is allowed",
                  prompt.tokens.back(), predictor.vocabulary());
  }
  if (prompt.tokens.empty()) throw Error("--prompt '': a text of 1 byte or more is allowed");
  return prompt;
}

// Tokens that follow the prompt.
std::vector<int32_t> continuation(TextPredictor& predictor, const Prompt& prompt, const PredictOptions& options) {
  std::vector<int32_t> tokens = prompt.tokens;
  Dice dice(options.seed, 0);
  for (int64_t i = 0; i < options.tokens; ++i) {
    tokens.push_back(next_token(predictor.next(tokens), options.temperature, dice));
    if (prompt.bytes && tokens.back() > 255)
      throw Error(
          "the model answers with token {}: its tokens are no bytes; a file of 16-bit tokens (.bin) can be continued",
          tokens.back());
  }
  return {tokens.begin() + std::ssize(prompt.tokens), tokens.end()};
}

// The decoder reads what it has answered so far, and answers one more token.
std::vector<int32_t> decoded(Predictor& predictor, const std::vector<int32_t>& source) {
  const auto length = static_cast<size_t>(predictor.form().targets),
             classes = static_cast<size_t>(predictor.form().classes);
  std::vector<int32_t> target(length, 0), answer;
  target[0] = kFirstToken;
  Dice dice(0, 0);
  for (size_t t = 0; t < length; ++t) {
    const std::vector<double> logits = predictor.logits({}, source, target);
    answer.push_back(next_token(std::span(logits).subspan(t * classes, classes), 0, dice));
    if (t + 1 < length) target[t + 1] = answer.back();
  }
  return answer;
}

}  // namespace

void require_one_prompt(const PredictOptions& options) {
  if (!options.indices.empty() || options.inputs.size() + (options.prompt ? 1 : 0) != 1)
    throw Error(
        "model {} continues a text: give its beginning by either --prompt or one file of 16-bit tokens (.bin), and no "
        "other input",
        options.model);
  if (!options.prompt && !options.inputs[0].ends_with(".bin"))
    throw Error("{}: for model {} a file of 16-bit tokens (.bin) is allowed; a text is given by --prompt",
                options.inputs[0], options.model);
}

int continue_text(const PredictOptions& options, TextPredictor& predictor, Json document) {
  const Prompt prompt = prompt_of(options, predictor);
  const std::vector<int32_t> tokens = continuation(predictor, prompt, options);
  const std::string text = prompt.bytes ? std::string(tokens.begin(), tokens.end()) : std::string();
  if (prompt.bytes) {
    document["prompt"] = *options.prompt;
    document["text"] = text;
  } else {
    document["input"] = options.inputs[0];
  }
  document["tokens"] = tokens;
  if (options.json)
    print_json(document);
  else if (prompt.bytes)
    fmt::print("{}{}\n", *options.prompt, text);
  else
    fmt::print("{}\n", fmt::join(tokens, " "));
  return 0;
}

PairTask task_of(const PredictOptions& options, const Checkpoint& checkpoint) {
  const auto found = checkpoint.metadata.find(kTaskKey);
  return parse_pair_task(options.task.value_or(found == checkpoint.metadata.end() ? "reverse" : found->second));
}

Json translate(Predictor& predictor, const Input& input, PairTask task) {
  const std::vector<int32_t> tokens = decoded(predictor, input.token);
  Json answer{{"input", input.name},
              {"source", text_of(task, input.token)},
              {"text", text_of(task, tokens)},
              {"tokens", tokens}};
  if (!input.label.empty()) answer["label"] = text_of(task, input.label);
  return answer;
}

void print_pair(const Json& answer) {
  fmt::print("{}: {} -> {}", one_line(answer["input"].get<std::string>()), answer["source"].get<std::string>(),
             answer["text"].get<std::string>());
  if (answer.contains("label")) fmt::print("; expected {}", answer["label"].get<std::string>());
  fmt::print("\n");
}

}  // namespace duet
