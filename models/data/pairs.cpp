// SPDX-License-Identifier: Apache-2.0
#include "models/data/pairs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "models/data/dice.h"

namespace duet {
namespace {

constexpr int64_t kLetters = 26;
constexpr int32_t kDigit = 1, kPlus = 11;  // the token of digit d is kDigit + d
constexpr int64_t kMinSum = 3;             // "1+2"
constexpr int64_t kMaxDigits = 6;          // of a number

// The words of the grammar; the token of a word is 1 + its place. sentence: phrase verb phrase; phrase: article
// adjective... noun.
constexpr std::string_view kWords[]{"the", "a",   "old", "small", "red",  "blue",  "dog",   "cat",
                                    "fox", "man", "owl", "girl",  "sees", "hears", "likes", "finds"};
struct Kind {
  size_t first, count;  // of kWords
};
constexpr Kind kArticles{0, 2}, kAdjectives{2, 4}, kNouns{6, 6}, kVerbs{12, 4};
constexpr int64_t kMinSentence = 5;

int32_t word_of(const Kind& kind, Dice& dice) { return 1 + static_cast<int32_t>(kind.first + dice.below(kind.count)); }

// Of `length` tokens each at most.
struct Pair {
  std::vector<int32_t> source, target;
};

Pair draw_sentence(int64_t length, Dice& dice) {
  int64_t room = length - kMinSentence;  // for adjectives
  Pair s;
  const auto phrase = [&] {
    const int32_t article = word_of(kArticles, dice), noun = word_of(kNouns, dice);
    std::vector<int32_t> adjectives(dice.below(static_cast<size_t>(std::min<int64_t>(room, 2)) + 1));
    room -= static_cast<int64_t>(adjectives.size());
    for (int32_t& a : adjectives) a = word_of(kAdjectives, dice);
    s.source.push_back(article);
    s.source.insert(s.source.end(), adjectives.begin(), adjectives.end());
    s.source.push_back(noun);
    s.target.push_back(article);
    s.target.push_back(noun);
    s.target.insert(s.target.end(), adjectives.begin(), adjectives.end());
  };
  phrase();
  const int32_t verb = word_of(kVerbs, dice);
  s.source.push_back(verb);
  phrase();
  s.target.insert(s.target.begin(), verb);
  return s;
}

// The digits of a number as tokens, the most significant first.
std::vector<int32_t> digits(int64_t number) {
  std::vector<int32_t> all;
  for (const char c : std::to_string(number)) all.push_back(kDigit + (c - '0'));
  return all;
}

Pair draw_sum(int64_t length, Dice& dice) {
  const int64_t most = std::min(kMaxDigits, (length - 1) / 2);  // digits of each number
  const double end = std::pow(10., static_cast<double>(most));
  const auto a = static_cast<int64_t>(dice.uniform(0, end)), b = static_cast<int64_t>(dice.uniform(0, end));
  Pair sum{digits(a), digits(a + b)};
  sum.source.push_back(kPlus);
  for (const int32_t t : digits(b)) sum.source.push_back(t);
  return sum;
}

Pair draw_reversal(int64_t length, int64_t symbols, Dice& dice) {
  std::vector<int32_t> source;
  for (int64_t t = 0; t < length; ++t)
    source.push_back(1 + static_cast<int32_t>(dice.below(static_cast<size_t>(symbols))));
  return {source, {source.rbegin(), source.rend()}};
}

std::vector<int32_t> tokens_of_words(const std::string& text) {
  std::vector<int32_t> tokens;
  for (size_t begin = text.find_first_not_of(' '); begin != text.npos;) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = std::string_view(text).substr(begin, end - begin);
    const auto* const found = std::ranges::find(kWords, word);
    if (found == std::end(kWords)) throw Error("'{}' in '{}': known are {}", word, text, fmt::join(kWords, " "));
    tokens.push_back(1 + static_cast<int32_t>(found - std::begin(kWords)));
    begin = text.find_first_not_of(' ', end);
  }
  return tokens;
}

std::string text_of_words(const std::vector<int32_t>& tokens) {
  std::string text;
  for (const int32_t t : tokens) {
    if (t <= 0) continue;
    if (!text.empty()) text += ' ';
    text += t <= static_cast<int32_t>(std::size(kWords)) ? kWords[t - 1] : "?";
  }
  return text;
}

void append(std::vector<int32_t>& to, const std::vector<int32_t>& tokens, int64_t length) {
  to.insert(to.end(), tokens.begin(), tokens.end());
  to.resize(to.size() + static_cast<size_t>(length) - tokens.size(), 0);
}

}  // namespace

PairTask parse_pair_task(std::string_view name) {
  const auto* const found = std::ranges::find(kPairTasks, name);
  if (found == std::end(kPairTasks)) throw Error("task '{}'; known are {}", name, fmt::join(kPairTasks, ", "));
  return static_cast<PairTask>(found - std::begin(kPairTasks));
}

std::vector<int32_t> tokens_of(PairTask task, const std::string& text) {
  if (task == PairTask::grammar) return tokens_of_words(text);
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
  if (task == PairTask::grammar) return text_of_words(tokens);
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
  if (task == PairTask::add && (length < kMinSum || vocabulary <= kPlus))
    throw Error("sums need {} tokens of {} different ones; the model has {} of {}", kMinSum, kPlus + 1, length,
                vocabulary);
  if (task == PairTask::grammar && (length < kMinSentence || vocabulary <= std::ssize(kWords)))
    throw Error("sentences need {} tokens of {} different ones; the model has {} of {}", kMinSentence,
                std::size(kWords) + 1, length, vocabulary);
  if (length < 1 || vocabulary < 3)
    throw Error("sequences to reverse need 1 token of 3 different ones; the model has {} of {}", length, vocabulary);
  Dataset data{.features = length,
               .classes = static_cast<int>(vocabulary),
               .x = {},
               .token = {},
               .label = {},
               .targets = length};
  for (int64_t i = 0; i < count; ++i) {
    Dice dice(seed, i);
    const Pair pair = task == PairTask::grammar ? draw_sentence(length, dice)
                      : task == PairTask::add   ? draw_sum(length, dice)
                                                : draw_reversal(length, std::min(vocabulary - 1, kLetters), dice);
    append(data.token, pair.source, length);
    append(data.label, pair.target, length);
  }
  return data;
}

}  // namespace duet
