// SPDX-License-Identifier: Apache-2.0
#include "models/data/pairs.h"

#include <algorithm>

#include "core/error.h"
#include "models/data/dice.h"

namespace duet {
namespace {

constexpr int64_t kLetters = 26;
constexpr int32_t kDigit = 1, kPlus = 11;  // the token of digit d is kDigit + d
constexpr int64_t kMinSum = 3;             // "1+2"
constexpr int64_t kMaxDigits = 6;          // of a number

// The digits of a number as tokens, the most significant first.
std::vector<int32_t> digits(int64_t number) {
  std::vector<int32_t> all;
  for (const char c : std::to_string(number)) all.push_back(kDigit + (c - '0'));
  return all;
}

void append(std::vector<int32_t>& to, const std::vector<int32_t>& tokens, int64_t length) {
  to.insert(to.end(), tokens.begin(), tokens.end());
  to.resize(to.size() + static_cast<size_t>(length) - tokens.size(), 0);
}

}  // namespace

PairTask parse_pair_task(std::string_view name) {
  if (name == "reverse") return PairTask::reverse;
  if (name == "add") return PairTask::add;
  throw Error("task '{}'; reverse and add are known", name);
}

std::vector<int32_t> tokens_of(PairTask task, const std::string& text) {
  std::vector<int32_t> tokens;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9', letter = c >= 'a' && c <= 'z';
    if (task == PairTask::add ? !digit && c != '+' : !letter)
      throw Error("'{}' in '{}': {} are allowed", c, text, task == PairTask::add ? "digits and +" : "letters a to z");
    tokens.push_back(letter ? c - 'a' + 1 : digit ? kDigit + c - '0' : kPlus);
  }
  return tokens;
}

std::string text_of(PairTask task, const std::vector<int32_t>& tokens) {
  std::string text;
  for (const int32_t t : tokens) {
    if (t <= 0) continue;
    if (task == PairTask::reverse)
      text += t <= kLetters ? static_cast<char>('a' + t - 1) : '?';
    else
      text += t == kPlus ? '+' : t < kPlus ? static_cast<char>('0' + t - kDigit) : '?';
  }
  return text;
}

Dataset draw_pairs(PairTask task, int64_t count, int64_t length, int64_t vocabulary, uint64_t seed) {
  const bool add = task == PairTask::add;
  if (add && (length < kMinSum || vocabulary <= kPlus))
    throw Error("sums need {} tokens of {} different ones; the model has {} of {}", kMinSum, kPlus + 1, length,
                vocabulary);
  if (length < 1 || vocabulary < 3)
    throw Error("sequences to reverse need 1 token of 3 different ones; the model has {} of {}", length, vocabulary);
  Dataset data{.features = length,
               .classes = static_cast<int>(vocabulary),
               .x = {},
               .token = {},
               .label = {},
               .targets = length};
  const int64_t symbols = std::min(vocabulary - 1, kLetters);
  const int64_t most = std::min(kMaxDigits, (length - 1) / 2);  // digits of each number
  for (int64_t i = 0; i < count; ++i) {
    Dice dice(seed, i);
    if (add) {
      const double end = std::pow(10., static_cast<double>(most));
      const auto a = static_cast<int64_t>(dice.uniform(0, end)), b = static_cast<int64_t>(dice.uniform(0, end));
      std::vector<int32_t> source = digits(a);
      source.push_back(kPlus);
      for (const int32_t t : digits(b)) source.push_back(t);
      append(data.token, source, length);
      append(data.label, digits(a + b), length);
      continue;
    }
    std::vector<int32_t> source;
    for (int64_t t = 0; t < length; ++t)
      source.push_back(1 + static_cast<int32_t>(dice.below(static_cast<size_t>(symbols))));
    append(data.token, source, length);
    std::reverse(source.begin(), source.end());
    append(data.label, source, length);
  }
  return data;
}

}  // namespace duet
