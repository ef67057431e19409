// SPDX-License-Identifier: Apache-2.0
// Training data other than MNIST: CIFAR-10's files, good and malformed; drawn samples; how samples are split.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "core/error.h"
#include "models/data/cifar.h"
#include "models/data/images.h"
#include "models/data/points.h"
#include "models/data/reviews.h"

namespace duet {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

class Cifar : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("duet_cifar_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    put("data_batch_2.bin", record(9, 2));
    put("data_batch_1.bin", record(3, 51) + record(0, 255));
    put("test_batch.bin", record(5, 0));
  }
  void TearDown() override { fs::remove_all(folder_); }
  static std::string record(int label, int value) {
    return std::string(1, static_cast<char>(label)) + std::string(3072, static_cast<char>(value));
  }
  void put(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  void refused(const std::string& file, const std::string& text) {
    const std::string error = error_of([&] { read_cifar(folder_.string(), true); });
    EXPECT_THAT(error, AllOf(HasSubstr(file), HasSubstr(text)));
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
  fs::path folder_;
};

TEST_F(Cifar, ReadsAllTrainingFilesInOrder) {
  const Dataset train = read_cifar(folder_.string(), true), test = read_cifar(folder_.string(), false);
  EXPECT_EQ(train.label, (std::vector<int32_t>{3, 0, 9}));
  EXPECT_EQ(train.features, 3072);
  ASSERT_EQ(train.x.size(), 3u * 3072);
  EXPECT_FLOAT_EQ(train.x[0], 0.2f);
  EXPECT_FLOAT_EQ(train.x[3072], 1);
  EXPECT_EQ(test.label, (std::vector<int32_t>{5}));
}

TEST_F(Cifar, RefusesFilesOfAnotherFormat) {
  put("data_batch_2.bin", record(9, 2).substr(0, 3072));
  refused("data_batch_2.bin", "3072 bytes; one or more records of 3073 bytes");
  put("data_batch_2.bin", "");
  refused("data_batch_2.bin", "0 bytes");
  put("data_batch_2.bin", "\x89PNG and so on");
  refused("data_batch_2.bin", "3073");
  put("data_batch_2.bin", record(1, 2) + record(10, 2));
  refused("data_batch_2.bin", "label 10 of sample 1 is not within 0 .. 9");
  fs::remove(folder_ / "data_batch_2.bin");
  fs::create_directories(folder_ / "data_batch_2.bin");
  refused("data_batch_2.bin", "cannot be read as a file");
  fs::remove_all(folder_ / "data_batch_1.bin");
  fs::remove_all(folder_ / "data_batch_2.bin");
  refused(folder_.string(), "has no data_batch_*.bin");
  EXPECT_THAT(error_of([&] { read_cifar((folder_ / "none").string(), false); }), HasSubstr("not a directory"));
}

void expect_drawn(const Dataset& few, const Dataset& many, const Dataset& others) {
  ASSERT_EQ(few.size(), 20);
  EXPECT_TRUE(std::equal(few.x.begin(), few.x.end(), many.x.begin())) << "prefixes agree";
  EXPECT_TRUE(std::equal(few.token.begin(), few.token.end(), many.token.begin()));
  EXPECT_TRUE(std::equal(few.label.begin(), few.label.end(), many.label.begin()));
  EXPECT_TRUE(few.x != others.x || few.token != others.token);
  EXPECT_EQ(many.x.size() + many.token.size(), static_cast<size_t>(many.size() * many.features));
  std::vector<int64_t> count(static_cast<size_t>(many.classes));
  for (const int32_t label : many.label) ++count.at(static_cast<size_t>(label));
  for (const int64_t n : count) EXPECT_GT(n, many.size() / many.classes / 2) << "each class is there";
}

TEST(Drawn, SamplesAreTheSameEverywhere) {
  expect_drawn(draw_images(20, 1), draw_images(400, 1), draw_images(20, 2));
  expect_drawn(draw_points(20, 1), draw_points(400, 1), draw_points(20, 2));
  expect_drawn(draw_reviews(20, 30, 1), draw_reviews(400, 30, 1), draw_reviews(20, 30, 2));
  const Dataset images = draw_images(400, 1), reviews = draw_reviews(400, 30, 1);
  EXPECT_TRUE(std::all_of(images.x.begin(), images.x.end(), [](float v) { return v >= 0 && v <= 1; }));
  EXPECT_TRUE(
      std::all_of(reviews.token.begin(), reviews.token.end(), [](int32_t t) { return t >= 0 && t < kReviewWords; }));
  EXPECT_THAT(error_of([] { draw_reviews(1, 0, 1); }), HasSubstr("0 tokens"));
  EXPECT_EQ(draw_reviews(50, 1, 1).token.size(), 50u);
}

TEST(Drawn, SplitsKeepEverySampleOnce) {
  const Dataset all = draw_points(100, 3);
  Dataset rest = all;
  const Dataset apart = split_off(rest, 0.1, 5);
  EXPECT_EQ(apart.size(), 10);
  EXPECT_EQ(rest.size(), 90);
  std::multiset<float> before, after;
  for (int64_t i = 0; i < 100; ++i) before.insert(all.x[static_cast<size_t>(i) * 10]);
  for (const Dataset* part : {&apart, static_cast<const Dataset*>(&rest)})
    for (int64_t i = 0; i < part->size(); ++i) {
      after.insert(part->x[static_cast<size_t>(i) * 10]);
      const float* x = part->x.data() + i * 10;
      EXPECT_EQ(part->label[static_cast<size_t>(i)], std::abs(x[0] + x[1]) > .6f) << "labels move with their samples";
    }
  EXPECT_EQ(before, after);
  Dataset again = all, two = draw_points(2, 1), one = draw_points(1, 1);
  EXPECT_EQ(split_off(again, 0.1, 5).x, apart.x);
  EXPECT_EQ(split_off(two, 0.999, 1).size(), 1);
  EXPECT_THAT(error_of([&] { split_off(one, 0.5, 1); }), HasSubstr("1 sample"));
}

}  // namespace
}  // namespace duet
