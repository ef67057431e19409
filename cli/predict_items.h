// SPDX-License-Identifier: Apache-2.0
// The answers of duet predict for users of a model of ratings: the items that they would rate highest. Called by
// predict.cpp.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "cli/predict.h"
#include "models/checkpoint.h"
#include "models/data/ratings.h"
#include "models/predictor.h"
#include "models/trainer.h"

namespace duet {

// A user who is asked for, and the items that are not to be offered: those that the user has rated, and those of the
// model that the file does not have.
struct AskedUser {
  int64_t number;
  int32_t row;  // of the model
  std::set<int32_t> withheld;
};

// How users and items of a model of ratings are numbered: from 0, or as in the file of its training.
class Numbering {
 public:
  // file: of ratings, or empty. Throws Error where the model was not trained on a file.
  Numbering(const SampleForm& form, const std::string& file, const Checkpoint& checkpoint);
  AskedUser user(int64_t number) const;  // throws Error where there is no such user
  int64_t item(int32_t item) const { return file_.empty() ? item : ratings_.item_numbers[static_cast<size_t>(item)]; }

 private:
  const SampleForm& form_;
  const std::string& file_;
  Ratings ratings_;
};

// Prints the items that each user would rate highest, of those that are not withheld, or as JSON `document` with them.
int recommend(const PredictOptions& options, const std::vector<AskedUser>& users, const Numbering& numbering,
              ItemPredictor& predictor, nlohmann::ordered_json document);

}  // namespace duet
