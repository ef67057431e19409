// SPDX-License-Identifier: Apache-2.0
#include "models/data/text.h"

#include <algorithm>

#include "core/error.h"
#include "core/regular_file.h"
#include "models/data/dice.h"

namespace duet {
namespace {

constexpr int64_t kBytes = 256, kMaxBytes = int64_t{1} << 32;
constexpr uint64_t kLanguage = 2011;  // the words are the same whatever the seed of the text

Dataset windows(const std::vector<int32_t>& tokens, int64_t first, int64_t count, int64_t length, int64_t vocabulary) {
  Dataset data{.features = length,
               .classes = static_cast<int>(vocabulary),
               .x = {},
               .token = {},
               .label = {},
               .targets = length};
  const auto begin = tokens.begin() + first * length, end = begin + count * length;
  data.token.assign(begin, end);
  data.label.assign(begin + 1, end + 1);
  return data;
}

std::string invented_word(int64_t number) {
  constexpr const char *kOnset = "bdfgklmnprstvz", *kVowel = "aeiou";
  Dice dice(kLanguage, number);
  std::string word;
  for (size_t syllables = 1 + dice.below(3); syllables > 0; --syllables) {
    word += kOnset[dice.below(14)];
    word += kVowel[dice.below(5)];
  }
  return word;
}

class Language {
 public:
  Language() {
    for (size_t i = 0; i < kNouns; ++i) nouns_.push_back(invented_word(static_cast<int64_t>(i)));
    for (size_t i = 0; i < kVerbs; ++i) verbs_.push_back(invented_word(static_cast<int64_t>(kNouns + i)) + "s");
  }
  std::string sentence(Dice& dice) const {
    const size_t subject = common(dice, kNouns), verb = common(dice, kVerbs);
    const size_t object = (verb * 7 + dice.below(4)) % kNouns;  // a verb has four objects
    return nouns_[subject] + " " + verbs_[verb] + " " + nouns_[object] + ". ";
  }

 private:
  static constexpr size_t kNouns = 200, kVerbs = 40;
  static size_t common(Dice& dice, size_t n) {  // word r with a frequency of about 1 / r
    return std::min(n - 1, static_cast<size_t>(std::exp(dice.uniform(0, std::log(static_cast<double>(n) + 1)))) - 1);
  }
  std::vector<std::string> nouns_, verbs_;
};

}  // namespace

std::vector<int32_t> read_tokens(const std::string& file, int64_t vocabulary) {
  RegularFile in(file, kMaxBytes);
  std::vector<unsigned char> bytes(static_cast<size_t>(in.bytes));
  in.read(bytes.data(), in.bytes);
  std::vector<int32_t> tokens;
  if (file.ends_with(".bin")) {
    if (bytes.size() % 2 != 0) throw Error("{}: {} bytes are no 16-bit tokens", file, bytes.size());
    for (size_t i = 0; i + 1 < bytes.size(); i += 2) tokens.push_back(bytes[i] | bytes[i + 1] << 8);
  } else {
    tokens.assign(bytes.begin(), bytes.end());
  }
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] >= vocabulary)
      throw Error("{}: token {} at position {} is not below the model's vocabulary of {}", file, tokens[i], i,
                  vocabulary);
  return tokens;
}

Text read_text(const std::string& file, int64_t length, int64_t vocabulary) {
  const std::vector<int32_t> tokens = read_tokens(file, vocabulary);
  const int64_t count = (static_cast<int64_t>(tokens.size()) - 1) / length;
  if (count < 3) throw Error("{}: {} tokens are too few for 3 sequences of {}", file, tokens.size(), length);
  const int64_t test = std::max<int64_t>(1, count / 10);
  return {windows(tokens, 0, count - test, length, vocabulary),
          windows(tokens, count - test, test, length, vocabulary)};
}

Dataset draw_text(int64_t count, int64_t length, uint64_t seed) {
  const Language language;
  std::vector<int32_t> tokens;
  for (int64_t sentence = 0; static_cast<int64_t>(tokens.size()) <= count * length; ++sentence) {
    Dice dice(seed, sentence);
    for (const char c : language.sentence(dice)) tokens.push_back(static_cast<unsigned char>(c));
  }
  return windows(tokens, 0, count, length, kBytes);
}

}  // namespace duet
