// SPDX-License-Identifier: Apache-2.0
#include "models/data/ratings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <string_view>

#include "core/error.h"
#include "core/regular_file.h"
#include "models/data/dice.h"

namespace duet {
namespace {
namespace fs = std::filesystem;

constexpr int64_t kMaxBytes = int64_t{1} << 33;
constexpr double kMinRating = .5, kMaxRating = 5;
constexpr size_t kTraits = 4;

std::string file_of(const std::string& path) {
  std::error_code unreadable;
  if (!fs::is_directory(path, unreadable)) return path;
  for (const char* name : {"ratings.dat", "ratings.csv", "u.data"})
    if (fs::exists(fs::path(path) / name, unreadable)) return (fs::path(path) / name).string();
  throw Error("data folder '{}' has no ratings.dat, ratings.csv or u.data", path);
}

// The fields of a line; false where it has too few, or one is no number.
bool parse(std::string_view line, std::string_view separator, int64_t& user, int64_t& item, double& rating) {
  std::array<std::string_view, 3> fields;
  for (std::string_view& field : fields) {
    const size_t end = line.find(separator);
    field = line.substr(0, end);
    line.remove_prefix(end == line.npos ? line.size() : end + separator.size());
  }
  const auto number = [](std::string_view text, auto& value) {
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    return read.ec == std::errc() && read.ptr == text.data() + text.size();
  };
  return number(fields[0], user) && number(fields[1], item) && number(fields[2], rating);
}

// Numbers as places in the order of the numbers. Returns each number once, in that order.
std::vector<int64_t> renumber(const std::vector<int64_t>& numbers, std::vector<int32_t>& places) {
  std::map<int64_t, int32_t> place;
  for (const int64_t n : numbers) place.emplace(n, 0);
  std::vector<int64_t> distinct;
  for (auto& [number, at] : place) {
    at = static_cast<int32_t>(distinct.size());
    distinct.push_back(number);
  }
  for (const int64_t n : numbers) places.push_back(place.at(n));
  return distinct;
}

struct Character {
  double mood;
  std::array<double, kTraits> traits;
};
Character character(uint64_t seed, int64_t number) {
  Dice dice(seed, number);
  Character c{.mood = .5 * dice.normal(), .traits = {}};
  for (double& t : c.traits) t = .5 * dice.normal();
  return c;
}

}  // namespace

Ratings read_ratings(const std::string& path) {
  const std::string name = file_of(path);
  RegularFile file(name, kMaxBytes);
  std::vector<int64_t> users, items;
  Ratings ratings;
  std::string_view separator;
  int64_t number = 0;
  for (std::string line; std::getline(file.stream, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (number == 1) {
      separator = line.find("::") != line.npos ? "::" : line.find('\t') != line.npos ? "\t" : ",";
      if (line.starts_with("userId,movieId,rating")) continue;
    }
    if (line.empty()) continue;
    int64_t user = 0, item = 0;
    double rating = 0;
    if (!parse(line, separator, user, item, rating))
      throw Error("{}:{}: '{}' does not read user{}item{}rating", name, number, line.substr(0, 80), separator,
                  separator);
    if (user < 0 || item < 0) throw Error("{}:{}: user {} and item {}; 0 or more is allowed", name, number, user, item);
    if (!(rating >= kMinRating && rating <= kMaxRating))
      throw Error("{}:{}: rating {}; {} to {} are allowed", name, number, rating, kMinRating, kMaxRating);
    users.push_back(user);
    items.push_back(item);
    ratings.rating.push_back(static_cast<float>(rating));
  }
  if (ratings.rating.empty()) throw Error("{}: 0 ratings; at least 1 is needed", name);
  ratings.user_numbers = renumber(users, ratings.user);
  ratings.item_numbers = renumber(items, ratings.item);
  ratings.users = static_cast<int64_t>(ratings.user_numbers.size());
  ratings.items = static_cast<int64_t>(ratings.item_numbers.size());
  return ratings;
}

Ratings draw_ratings(int64_t users, int64_t items, int64_t count, uint64_t seed) {
  Ratings ratings;
  ratings.users = users;
  ratings.items = items;
  std::vector<Character> of_user, of_item;
  for (int64_t u = 0; u < users; ++u) of_user.push_back(character(seed ^ uint64_t{1} << 40, u));
  for (int64_t i = 0; i < items; ++i) of_item.push_back(character(seed ^ uint64_t{2} << 40, i));
  for (int64_t r = 0; r < count; ++r) {
    Dice dice(seed, r);
    const size_t user = dice.below(static_cast<size_t>(users));
    const double rank = std::exp(dice.uniform(0, std::log(static_cast<double>(items) + 1)));
    const size_t item = std::min(static_cast<size_t>(items) - 1, static_cast<size_t>(rank) - 1);
    double value = 3.5 + of_user[user].mood + of_item[item].mood + .3 * dice.normal();
    for (size_t t = 0; t < kTraits; ++t) value += of_user[user].traits[t] * of_item[item].traits[t];
    ratings.user.push_back(static_cast<int32_t>(user));
    ratings.item.push_back(static_cast<int32_t>(item));
    ratings.rating.push_back(static_cast<float>(std::clamp(std::round(2 * value) / 2, kMinRating, kMaxRating)));
  }
  return ratings;
}

Dataset samples_of(const Ratings& ratings) {
  Dataset data{.features = 2, .classes = 0, .x = {}, .token = {}, .label = {}};
  for (size_t i = 0; i < ratings.rating.size(); ++i) {
    data.token.push_back(ratings.user[i]);
    data.token.push_back(ratings.item[i]);
  }
  data.value = ratings.rating;
  return data;
}

}  // namespace duet
