// SPDX-License-Identifier: Apache-2.0
// Training data: MNIST's files, good and malformed, and drawn digits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "core/error.h"
#include "models/data/digits.h"
#include "models/data/idx.h"

namespace duet {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

std::string idx(uint32_t magic, const std::vector<uint32_t>& shape, const std::string& elements) {
  std::string text;
  const auto word = [&](uint32_t v) {
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(v >> shift & 255);
  };
  word(magic);
  for (const uint32_t extent : shape) word(extent);
  return text + elements;
}
std::string images(uint32_t n, uint32_t side = 28) {
  return idx(0x803, {n, side, side}, std::string(size_t{n} * side * side, '\x33'));
}
std::string labels(const std::string& values) { return idx(0x801, {static_cast<uint32_t>(values.size())}, values); }

class Idx : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("duet_idx_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    put("train-images-idx3-ubyte", images(3));
    put("train-labels-idx1-ubyte", labels({0, 9, 5}));
  }
  void TearDown() override { fs::remove_all(folder_); }
  void put(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  // The error is one line, names the file and contains each given text.
  void refused(const std::string& file, const std::string& text) {
    try {
      read_mnist(folder_.string(), true);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr(file), HasSubstr(text)));
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    }
  }
  fs::path folder_;
};

TEST_F(Idx, ReadsImagesAndLabels) {
  const Dataset d = read_mnist(folder_.string(), true);
  EXPECT_EQ(d.size(), 3);
  EXPECT_EQ(d.features, 784);
  EXPECT_EQ(d.classes, 10);
  EXPECT_EQ(d.label, (std::vector<int32_t>{0, 9, 5}));
  EXPECT_FLOAT_EQ(d.x.at(3 * 784 - 1), 0x33 / 255.f);
}

TEST_F(Idx, AcceptsTheOtherSpellingOfFileNames) {
  fs::rename(folder_ / "train-images-idx3-ubyte", folder_ / "train-images.idx3-ubyte");
  EXPECT_EQ(read_mnist(folder_.string(), true).size(), 3);
}

TEST_F(Idx, RefusesMissingFiles) {
  fs::remove(folder_ / "train-labels-idx1-ubyte");
  refused(folder_.string(), "train-labels-idx1-ubyte");
  put("train-labels-idx1-ubyte.gz", "");
  refused(folder_.string(), "unpack");
  EXPECT_THROW(read_mnist((folder_ / "nowhere").string(), true), Error);
  EXPECT_THROW(read_mnist(folder_.string(), false), Error);  // the files of the test set are missing
}

TEST_F(Idx, RefusesTruncatedAndOverlongFiles) {
  const std::string whole = images(3);
  for (const size_t length : {size_t{0}, size_t{3}, size_t{15}, size_t{16}, whole.size() - 1}) {
    put("train-images-idx3-ubyte", whole.substr(0, length));
    refused("train-images-idx3-ubyte", std::to_string(length) + " bytes");
  }
  put("train-images-idx3-ubyte", whole + "x");
  refused("train-images-idx3-ubyte", std::to_string(whole.size() + 1) + " bytes");
}

TEST_F(Idx, RefusesFilesOfAnotherFormat) {
  put("train-images-idx3-ubyte", "\x89PNG\r\n\x1a\n and what an image file holds besides");
  refused("train-images-idx3-ubyte", "0x00000803");
  put("train-images-idx3-ubyte", idx(0xD03, {3, 28, 28}, std::string(3 * 784 * 4, 'x')));  // floats
  refused("train-images-idx3-ubyte", "0x00000d03");
}

TEST_F(Idx, RefusesSizesThatOverflow) {
  put("train-images-idx3-ubyte", idx(0x803, {0xffffffff, 0xffffffff, 0xffffffff}, ""));
  refused("train-images-idx3-ubyte", "4294967295");
}

TEST_F(Idx, RefusesWhatDoesNotFitTogether) {
  put("train-images-idx3-ubyte", images(3, 32));
  refused("train-images-idx3-ubyte", "32 x 32");
  put("train-images-idx3-ubyte", images(4));
  refused("train-labels-idx1-ubyte", "3 labels for 4 images");
  put("train-images-idx3-ubyte", images(0));
  put("train-labels-idx1-ubyte", labels(""));
  refused("train-images-idx3-ubyte", "0 samples");
}

TEST_F(Idx, RefusesLabelsOutOfRange) {
  put("train-labels-idx1-ubyte", labels({0, 10, 5}));
  refused("train-labels-idx1-ubyte", "label 10 of sample 1");
}

TEST(Digits, AreTheSameForASeedAndDifferForAnother) {
  const Dataset a = draw_digits(64, 3), longer = draw_digits(80, 3), b = draw_digits(64, 4);
  EXPECT_TRUE(std::equal(a.x.begin(), a.x.end(), longer.x.begin()));
  EXPECT_TRUE(std::equal(a.label.begin(), a.label.end(), longer.label.begin()));
  EXPECT_NE(a.x, b.x);
}

TEST(Digits, CoverEveryClassWithinRange) {
  const Dataset d = draw_digits(500, 1);
  EXPECT_EQ(std::set<int32_t>(d.label.begin(), d.label.end()).size(), 10u);
  for (int64_t i = 0; i < d.size(); ++i) {
    const auto image = d.x.begin() + i * d.features;
    EXPECT_GE(*std::min_element(image, image + d.features), 0);
    const float darkest = *std::max_element(image, image + d.features);
    EXPECT_LE(darkest, 1);
    EXPECT_GE(darkest, 0.5f) << "an empty image, sample " << i;
  }
}

}  // namespace
}  // namespace duet
