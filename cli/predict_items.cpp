// SPDX-License-Identifier: Apache-2.0
#include "cli/predict_items.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/text_output.h"
#include "cli/training_plan.h"
#include "cli/training_setup.h"

namespace duet {
using Json = nlohmann::ordered_json;

Numbering::Numbering(const SampleForm& form, const std::string& file, const Checkpoint& checkpoint)
    : form_(form), file_(file) {
  if (file.empty()) return;
  const auto trained = checkpoint.metadata.find(kDataKey);
  if (trained == checkpoint.metadata.end())
    throw Error("--data {}: the checkpoint was trained on drawn ratings, not on a file", file);
  ratings_ = ratings_for(form, file);
  if (trained->second != std::filesystem::absolute(file).string())
    fmt::print(stderr, "duet predict: the checkpoint was trained on {}; users and items are numbered as in {}\n",
               trained->second, file);
}

AskedUser Numbering::user(int64_t number) const {
  if (file_.empty()) {
    if (number < form_.users) return {number, static_cast<int32_t>(number), {}};
    throw Error("--user {}: the model has users 0 to {}", number, form_.users - 1);
  }
  const auto& numbers = ratings_.user_numbers;
  const auto at = std::lower_bound(numbers.begin(), numbers.end(), number);
  if (at == numbers.end() || *at != number)
    throw Error("--user {}: {} has no rating of that user; its users are {} to {}", number, file_, numbers.front(),
                numbers.back());
  AskedUser user{number, static_cast<int32_t>(at - numbers.begin()), {}};
  for (size_t i = 0; i < ratings_.rating.size(); ++i)
    if (ratings_.user[i] == user.row) user.withheld.insert(ratings_.item[i]);
  for (int64_t i = ratings_.items; i < form_.items; ++i) user.withheld.insert(static_cast<int32_t>(i));
  return user;
}

int recommend(const PredictOptions& options, const std::vector<AskedUser>& users, const Numbering& numbering,
              ItemPredictor& predictor, Json document) {
  for (const AskedUser& user : users) {
    Json answer{{"user", user.number}, {"top", Json::array()}};
    for (const auto& [item, rating] : predictor.of(user.row)) {
      if (static_cast<int64_t>(answer["top"].size()) == options.top) break;
      if (!user.withheld.contains(item)) answer["top"].push_back({{"item", numbering.item(item)}, {"rating", rating}});
    }
    document["predictions"].push_back(answer);
    if (options.json) continue;
    fmt::print("user {}:\n", user.number);
    for (const Json& entry : answer["top"])
      fmt::print("  {:.2f}  item {}\n", entry["rating"].get<double>(), entry["item"].get<int64_t>());
  }
  if (options.json) print_json(document);
  return 0;
}

}  // namespace duet
