// SPDX-License-Identifier: Apache-2.0
// Ratings of items by users, in MovieLens' formats: ratings.dat ("1::1193::5::978300760" a line), ratings.csv
// ("userId,movieId,rating,timestamp", then numbers) and u.data (separated by tabs).
// Source: Harper and Konstan, The MovieLens datasets, ACM TiiS 5(4), 2015.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/data/dataset.h"

namespace duet {

struct Ratings {
  int64_t users = 0, items = 0;
  std::vector<int32_t> user, item;                  // 0 .. users - 1 and items - 1, in the order of the file's numbers
  std::vector<float> rating;                        // 0.5 to 5
  std::vector<int64_t> user_numbers, item_numbers;  // of the file, ascending; empty if drawn
  int64_t size() const { return static_cast<int64_t>(rating.size()); }
};

// A folder with one of these files, or the file. Throws Error, naming file, line, value and what is allowed, when the
// file cannot be read, a line has another form, or a rating is outside of 0.5 to 5.
Ratings read_ratings(const std::string& path);

// Made-up ratings: each user and item has a mood and a few traits; their agreement, rounded to halves with noise, is
// the rating. The k-th most popular item is rated about 1 / k as often as the first. They depend on the seed alone.
Ratings draw_ratings(int64_t users, int64_t items, int64_t count, uint64_t seed);

// The ratings as samples of two tokens, user and item, with a number to predict.
Dataset samples_of(const Ratings& ratings);

}  // namespace duet
