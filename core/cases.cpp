// SPDX-License-Identifier: Apache-2.0
#include "core/cases.h"

#include <algorithm>

#include "core/error.h"

namespace duet {
namespace {

constexpr std::string_view kSeparators = " \t/";

// Cuts the next word off `text`; empty when there is none.
std::string_view next_word(std::string_view& text) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(kSeparators)));
  const std::string_view word = text.substr(0, text.find_first_of(kSeparators));
  text.remove_prefix(word.size());
  return word;
}

}  // namespace

Cases by_scale(Scale scale, const Cases& test, const Cases& standard, const Cases& more, const Cases& sizes) {
  switch (scale) {
    case Scale::test:
      return test;
    case Scale::standard:
      return standard;
    case Scale::full:
      return concat({standard, more});
    case Scale::sweep:
      break;
  }
  return sizes;
}

Cases sweep(std::string_view names, int64_t first, int64_t last, std::string_view fixed, int64_t factor) {
  if (first < 1 || factor < 2) throw Error("sweep over {}: from {} by {} never ends", names, first, factor);
  Cases all;
  for (int64_t size = first; size <= last; size *= factor) {
    Case c{fmt::format("sweep over {}", names), std::string(fixed)};
    std::string_view rest = names;
    for (std::string_view name = next_word(rest); !name.empty(); name = next_word(rest))
      c.text += fmt::format("{}{}:{}", c.text.empty() ? "" : " ", name, size);
    all.push_back(std::move(c));
  }
  return all;
}

Cases across(Words words, const Cases& cases) {
  Cases all;
  for (const Case& c : cases)
    for (const char* word : words) all.push_back({c.why, c.text + " " + word});
  return all;
}

Cases with(std::string_view words, const Cases& cases) {
  Cases all = cases;
  for (Case& c : all) (c.text += ' ') += words;
  return all;
}

Cases without(std::string_view name, const Cases& cases) {
  Cases all = cases;
  for (Case& c : all) {
    std::string kept;
    for (const CaseWord& w : words_of(c.text)) {
      if (w.name == name) continue;
      const char mark = w.kind == CaseWord::Kind::fill ? '=' : ':';
      kept += fmt::format("{}{}{}{}", kept.empty() ? "" : " ", w.name, mark, w.value);
    }
    c.text = kept;
  }
  return all;
}

Cases having(std::string_view beginning, const Cases& cases) {
  Cases all;
  for (const Case& c : cases) {
    std::string_view text = c.text;
    for (std::string_view word = next_word(text); !word.empty(); word = next_word(text))
      if (word.starts_with(beginning)) {
        all.push_back(c);
        break;
      }
  }
  return all;
}

Cases with_odd(Scale scale, const Cases& cases, const Cases& odd) {
  return concat({cases, by_scale(scale, across(kFloatTypes, odd), {})});
}

Cases concat(std::initializer_list<Cases> lists) {
  Cases all;
  for (const Cases& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

std::vector<CaseWord> words_of(std::string_view text) {
  std::vector<CaseWord> words;
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
    const size_t mark = word.find_first_of(":=");
    CaseWord w{CaseWord::Kind::attribute, "dtype", word};
    if (mark != word.npos) {
      w = {word[mark] == '=' ? CaseWord::Kind::fill : CaseWord::Kind::attribute, word.substr(0, mark),
           word.substr(mark + 1)};
    } else if (!words.empty()) {
      throw Error("'{}' does not read name:value or tensor=fill; only the first word may be a bare dtype", word);
    }
    if (w.name.empty() || w.value.empty()) throw Error("'{}' does not read name:value or tensor=fill", word);
    if (std::any_of(words.begin(), words.end(),
                    [&](const CaseWord& other) { return other.kind == w.kind && other.name == w.name; }))
      throw Error("'{}' stands twice", w.name);
    words.push_back(w);
  }
  return words;
}

}  // namespace duet
