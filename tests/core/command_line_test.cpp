// SPDX-License-Identifier: Apache-2.0
#include "core/command_line.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "core/name_filter.h"

namespace duet {
namespace {

TEST(OneLine, EscapesWhatDoesNotShow) {
  EXPECT_EQ(one_line("plain, with umlauts: \xC3\xA4"), "plain, with umlauts: \xC3\xA4");
  EXPECT_EQ(one_line("a\nb\tc\rd"), "a\\nb\\tc\\x0dd");
  EXPECT_EQ(one_line("\x1b[31m"), "\\x1b[31m");
  EXPECT_EQ(one_line(std::string_view("\0\x7f", 2)), "\\x00\\x7f");
  EXPECT_EQ(one_line("\xC2\x9B"), "\\x9b");                         // the control character CSI
  EXPECT_EQ(one_line("\xE2\x80\xAE"), "\\u202e");                   // the rest would be shown from right to left
  EXPECT_EQ(one_line("\xE2\x80\xA8"), "\\u2028");                   // a line separator
  EXPECT_EQ(one_line("\xFF\xC3"), "\\xff\\xc3");                    // not UTF-8
  EXPECT_EQ(one_line("\xC0\x8A"), "\\xc0\\x8a");                    // a newline in a form that is too long
  EXPECT_EQ(one_line("\xED\xA0\x80"), "\\xed\\xa0\\x80");           // half of a surrogate pair
  EXPECT_EQ(one_line("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
}

TEST(OneLine, KeepsBothEndsOfALongText) {
  const std::string text = "beginning" + std::string(100'000, 'x') + "end";
  const std::string line = one_line(text);
  EXPECT_LE(line.size(), kMaxMessage + 30);
  EXPECT_TRUE(line.starts_with("beginningx"));
  EXPECT_TRUE(line.ends_with("xend"));
  EXPECT_NE(line.find("...(98812 bytes)..."), line.npos) << line;
  EXPECT_EQ(one_line(std::string(kMaxMessage, 'x')), std::string(kMaxMessage, 'x'));
}

TEST(OneLine, CutsNoCharacterInTwo) {
  for (size_t shift = 0; shift < 4; ++shift) {
    std::string text(shift, 'x');
    for (int i = 0; i < 1000; ++i) text += "\xE2\x82\xAC";
    EXPECT_EQ(one_line(text).find('\\'), std::string::npos) << shift;
  }
}

TEST(WholeNumber, TakesDecimalDigitsInRange) {
  std::string text = "007";
  EXPECT_EQ(check_whole_number(text, 0, 10), "");
  EXPECT_EQ(text, "7");  // CLI11 reads 010 as 8
  for (const char* wrong : {"", "-", "+1", "0x10", "1e3", "1.0", " 1", "1 ", "1_000", "eight"}) {
    text = wrong;
    EXPECT_NE(check_whole_number(text, INT64_MIN, INT64_MAX).find("is not a whole number"), text.npos) << wrong;
  }
  for (const char* outside : {"-1", "11", "9223372036854775808", "99999999999999999999"}) {
    text = outside;
    EXPECT_NE(check_whole_number(text, 0, 10).find("not in range 0 to 10"), text.npos) << outside;
  }
}

TEST(NameFilter, MatchesAnywhereInAName) {
  const std::string job = "softmax/cuda.tuned/f32/rows:64/cols:1000";
  for (const char* pattern : {"", "softmax", "^softmax/", "cols:1000$", "cuda|cpu", "rows:\\d+/"})
    EXPECT_TRUE(NameFilter(pattern).matches(job)) << pattern;
  for (const char* pattern : {"^oftmax", "gemm", "softmax$"}) EXPECT_FALSE(NameFilter(pattern).matches(job)) << pattern;
  for (const char* wrong : {"(", "[", "*", "(?!gemm)"}) EXPECT_THROW(NameFilter{wrong}, Error) << wrong;
}

// An engine that recurses overflows its stack, and one that tries every way needs for ever.
TEST(NameFilter, TakesNoTimeOverAHostilePattern) {
  const std::string job = "softmax/cuda.tuned/f32/rows:64/cols:1000";
  EXPECT_FALSE(NameFilter(std::string(100'000, 'a')).matches(job));
  EXPECT_THROW(NameFilter(std::string(100'000, '(')), Error);
  EXPECT_FALSE(NameFilter("(.*)*(.*)*(.*)*(.*)*x$").matches(std::string(10'000, 'a')));
}

}  // namespace
}  // namespace duet
