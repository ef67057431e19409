// SPDX-License-Identifier: Apache-2.0
// Ratings in MovieLens' formats, drawn ratings, and drawn pairs of sequences.
#include "models/data/ratings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "models/data/pairs.h"

namespace duet {
namespace {
using testing::HasSubstr;

std::string file_of(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "duet_ratings_test_" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}
std::string refusal(const std::string& text) {
  try {
    read_ratings(file_of("wrong", text));
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Ratings, EachFormatIsRead) {
  for (const char* text : {"7::100::5::978300760\n2::9::3::978302109\n7::9::4::978301968\n",
                           "userId,movieId,rating,timestamp\r\n7,100,5.0,1\r\n2,9,3.0,2\r\n7,9,4.0,3\r\n",
                           "7\t100\t5\t881250949\n2\t9\t3\t891717742\n7\t9\t4\t878887116"}) {
    const Ratings ratings = read_ratings(file_of("good", text));
    EXPECT_EQ(ratings.users, 2);
    EXPECT_EQ(ratings.items, 2);
    EXPECT_EQ(ratings.user, (std::vector<int32_t>{1, 0, 1}));
    EXPECT_EQ(ratings.item, (std::vector<int32_t>{1, 0, 0}));
    EXPECT_EQ(ratings.user_numbers, (std::vector<int64_t>{2, 7}));
    EXPECT_EQ(ratings.item_numbers, (std::vector<int64_t>{9, 100}));
    EXPECT_EQ(ratings.rating, (std::vector<float>{5, 3, 4}));
    const Dataset data = samples_of(ratings);
    EXPECT_EQ(data.size(), 3);
    EXPECT_EQ(data.token, (std::vector<int32_t>{1, 1, 0, 0, 1, 0}));
  }
}

TEST(Ratings, OtherLinesAreRefused) {
  EXPECT_THAT(refusal("1::2::3::4\n1::2\n"), HasSubstr("wrong:2: '1::2' does not read user::item::rating"));
  EXPECT_THAT(refusal("1,2,five,4\n"), HasSubstr("wrong:1: '1,2,five,4'"));
  EXPECT_THAT(refusal("1::2::6::4\n"), HasSubstr("wrong:1: rating 6; 0.5 to 5 are allowed"));
  EXPECT_THAT(refusal("1::2::3::4\n-1::2::3::4\n"), HasSubstr("wrong:2: user -1 and item 2; 0 or more is allowed"));
  EXPECT_THAT(refusal("1::2::nan::4\n"), HasSubstr("rating nan"));
  EXPECT_THAT(refusal("userId,movieId,rating,timestamp\n"), HasSubstr("0 ratings"));
  EXPECT_THROW(read_ratings(testing::TempDir() + "no such file"), Error);
}

TEST(Ratings, DrawnOnesFollowTheirTraits) {
  const Ratings few = draw_ratings(20, 10, 100, 1), more = draw_ratings(20, 10, 4000, 1);
  EXPECT_TRUE(std::equal(few.rating.begin(), few.rating.end(), more.rating.begin())) << "a prefix";
  std::vector<double> sum(10), count(10);
  for (size_t i = 0; i < more.rating.size(); ++i) {
    ASSERT_TRUE(more.rating[i] >= .5f && more.rating[i] <= 5 && 2 * more.rating[i] == std::floor(2 * more.rating[i]));
    sum[static_cast<size_t>(more.item[i])] += more.rating[i];
    ++count[static_cast<size_t>(more.item[i])];
  }
  EXPECT_GT(count[0], 2 * count[9]);
  double least = 5, most = 0;
  for (size_t i = 0; i < 10; ++i) {
    least = std::min(least, sum[i] / count[i]);
    most = std::max(most, sum[i] / count[i]);
  }
  EXPECT_GT(most - least, .5) << "items differ in their mean";
}

TEST(Pairs, LabelsAnswerTheirSources) {
  const Dataset reversed = draw_pairs(PairTask::reverse, 50, 6, 9, 1);
  for (size_t i = 0; i < 50; ++i)
    for (size_t t = 0; t < 6; ++t) {
      EXPECT_EQ(reversed.label[6 * i + t], reversed.token[6 * i + 5 - t]);
      EXPECT_TRUE(reversed.token[6 * i + t] >= 1 && reversed.token[6 * i + t] <= 8);
    }
  const Dataset sums = draw_pairs(PairTask::add, 50, 7, 12, 1);
  for (int64_t i = 0; i < 50; ++i) {
    const auto text = [&](const std::vector<int32_t>& from) {
      return text_of(PairTask::add, {from.begin() + 7 * i, from.begin() + 7 * (i + 1)});
    };
    const std::string source = text(sums.token);
    const size_t plus = source.find('+');
    ASSERT_NE(plus, std::string::npos) << source;
    EXPECT_EQ(std::to_string(std::stoi(source.substr(0, plus)) + std::stoi(source.substr(plus + 1))), text(sums.label));
    EXPECT_EQ(text_of(PairTask::add, tokens_of(PairTask::add, source)), source);
  }
  EXPECT_EQ(text_of(PairTask::reverse, {1, 26, 0}), "az");
}

// Word by word: the verb moves to the front, each noun before its adjectives.
TEST(Pairs, SentencesAreTranslated) {
  const auto is = [](const std::string& word, const char* words) {
    return std::string(words).find(" " + word + " ") != std::string::npos;
  };
  constexpr int64_t kLength = 8;
  const Dataset all = draw_pairs(PairTask::grammar, 200, kLength, 17, 1);
  std::set<size_t> lengths;
  for (int64_t i = 0; i < 200; ++i) {
    const auto text = [&](const std::vector<int32_t>& from) {
      return text_of(PairTask::grammar, {from.begin() + kLength * i, from.begin() + kLength * (i + 1)});
    };
    const std::string source = text(all.token);
    std::string verb, translated, adjectives;
    std::istringstream words(source);
    size_t count = 0;
    for (std::string word; words >> word; ++count)
      if (is(word, " sees hears likes finds "))
        verb = word;
      else if (is(word, " old small red blue "))
        adjectives += " " + word;
      else if (is(word, " the a "))
        translated += " " + word;
      else
        translated += " " + word + std::exchange(adjectives, "");
    EXPECT_EQ(text(all.label), verb + translated) << source;
    const std::vector<int32_t> tokens = tokens_of(PairTask::grammar, source);
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), all.token.begin() + kLength * i)) << source;
    lengths.insert(count);
  }
  EXPECT_EQ(lengths, (std::set<size_t>{5, 6, 7, 8}));
}

TEST(Pairs, WhatCannotBeDrawnOrReadIsRefused) {
  EXPECT_THROW(draw_pairs(PairTask::add, 5, 2, 12, 1), Error);
  EXPECT_THROW(draw_pairs(PairTask::add, 5, 7, 11, 1), Error);
  EXPECT_THROW(draw_pairs(PairTask::reverse, 5, 7, 2, 1), Error);
  EXPECT_THROW(tokens_of(PairTask::reverse, "a1"), Error);
  EXPECT_THROW(tokens_of(PairTask::add, "a"), Error);
  EXPECT_THROW(draw_pairs(PairTask::grammar, 5, 4, 17, 1), Error);
  EXPECT_THROW(draw_pairs(PairTask::grammar, 5, 5, 16, 1), Error);
  EXPECT_THROW(tokens_of(PairTask::grammar, "the dog barks"), Error);
  EXPECT_THROW(parse_pair_task("sort"), Error);
}

}  // namespace
}  // namespace duet
