// SPDX-License-Identifier: Apache-2.0
// Text as training data: windows and their labels, token files, and which files are refused.
#include "models/data/text.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "core/error.h"

namespace duet {
namespace {

std::string file_of(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "duet_text_test_" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string refusal(const std::string& file, int64_t length, int64_t vocabulary) {
  try {
    read_text(file, length, vocabulary);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Text, LabelsAreTheNextTokens) {
  const std::string file = file_of("plain", "abcdefghijklm");  // 13 bytes: 4 windows of 3 and the label of the last
  const Text text = read_text(file, 3, 256);
  EXPECT_EQ(text.training.size(), 3);
  EXPECT_EQ(text.test.size(), 1);
  EXPECT_EQ(text.training.token, (std::vector<int32_t>{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'}));
  EXPECT_EQ(text.training.label, (std::vector<int32_t>{'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'}));
  EXPECT_EQ(text.test.label, (std::vector<int32_t>{'k', 'l', 'm'}));
}

TEST(Text, TokenFilesHoldSixteenBits) {
  const std::string file =
      file_of("tokens.bin", std::string("\x01\x00\x00\x01\x02\x00\x03\x00\x04\x00\x05\x00\x06\x00", 14));
  EXPECT_EQ(read_text(file, 2, 257).training.token, (std::vector<int32_t>{1, 256, 2, 3}));
  EXPECT_NE(refusal(file, 2, 256).find("token 256 at position 1"), std::string::npos);
  EXPECT_NE(refusal(file_of("odd.bin", "abc"), 1, 65536).find("3 bytes are no 16-bit tokens"), std::string::npos);
}

TEST(Text, RefusesWhatIsTooShortOrMissing) {
  EXPECT_NE(refusal(file_of("short", "abc"), 2, 256).find("too few"), std::string::npos);
  EXPECT_NE(refusal(file_of("empty", ""), 2, 256).find("too few"), std::string::npos);
  EXPECT_NE(refusal("/nonexistent/text", 2, 256).find("cannot be read"), std::string::npos);
}

TEST(Text, DrawnTextIsTheSameAndHasStructure) {
  const Dataset a = draw_text(20, 64, 5), b = draw_text(20, 64, 5), longer = draw_text(30, 64, 5),
                other = draw_text(20, 64, 6);
  EXPECT_EQ(a.token, b.token);
  EXPECT_NE(a.token, other.token);
  EXPECT_TRUE(std::equal(a.token.begin(), a.token.end(), longer.token.begin()));
  EXPECT_EQ(a.size(), 20);
  for (size_t i = 0; i + 1 < a.token.size(); ++i) ASSERT_EQ(a.label[i], a.token[i + 1]);
  int64_t stops = 0;
  for (const int32_t t : a.token) stops += t == '.';
  EXPECT_GT(stops, 20);  // sentences
}

}  // namespace
}  // namespace duet
