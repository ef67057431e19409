// SPDX-License-Identifier: Apache-2.0
#include "models/data/reviews.h"

#include <algorithm>

#include "core/error.h"
#include "models/data/dice.h"

namespace duet {
namespace {

constexpr int32_t kNot = 1, kPraise = 20, kBlame = 40, kOpinions = 10;  // words kPraise .. kPraise + 9 praise
constexpr double kShare = .15, kTurned = .2;  // of words that are opinions; of those, after NOT

int32_t neutral(Dice& dice) {  // a word that is no opinion, with a frequency of about 1 / rank
  const double rank = std::exp(dice.uniform(0, std::log(static_cast<double>(kReviewWords - 60))));
  return 60 + static_cast<int32_t>(std::min(rank - 1, static_cast<double>(kReviewWords - 61)));
}

}  // namespace

Dataset draw_reviews(int64_t count, int64_t length, uint64_t seed) {
  if (length < 1) throw Error("reviews of {} tokens; 1 or more are allowed", length);
  Dataset data{.features = length, .classes = 2, .x = {}, .token = {}, .label = {}};
  data.token.reserve(static_cast<size_t>(count * length));
  for (int64_t i = 0; i < count; ++i) {
    Dice dice(seed, i);
    const double mood = dice.uniform(0, 1) < .5 ? .2 : .8;  // the share of its opinions that praise
    int64_t balance = 0;
    for (int64_t t = 0; t < length; ++t) {
      if (dice.uniform(0, 1) >= kShare) {
        data.token.push_back(neutral(dice));
        continue;
      }
      const bool turned = t + 1 < length && dice.uniform(0, 1) < kTurned, praises = dice.uniform(0, 1) < mood;
      if (turned) {
        data.token.push_back(kNot);
        ++t;
      }
      data.token.push_back((praises != turned ? kPraise : kBlame) + static_cast<int32_t>(dice.below(kOpinions)));
      balance += praises ? 1 : -1;
    }
    data.label.push_back(balance > 0 || (balance == 0 && mood > .5));
  }
  return data;
}

}  // namespace duet
