// SPDX-License-Identifier: Apache-2.0
// The answers of duet predict in tokens: how a language model continues a text, and what a model of pairs answers to a
// sequence. Called by predict.cpp.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "cli/predict.h"
#include "cli/predict_inputs.h"
#include "models/predictor.h"

namespace duet {

// Throws Error unless there is one beginning to continue, and nothing else to predict.
void require_one_prompt(const PredictOptions& options);

// Prints what follows the prompt, or as JSON `document` with it. If the prompt is bytes, the answer is also a text.
// Throws Error for tokens that the model does not have.
int continue_text(const PredictOptions& options, TextPredictor& predictor, nlohmann::ordered_json document);

// The task of a model of pairs: as asked for, or as trained.
PairTask task_of(const PredictOptions& options, const Checkpoint& checkpoint);
nlohmann::ordered_json translate(Predictor& predictor, const Input& input, PairTask task);
void print_pair(const nlohmann::ordered_json& answer);

}  // namespace duet
