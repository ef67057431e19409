// SPDX-License-Identifier: Apache-2.0
// Checkpoint files: a round trip, and every kind of malformed file.
#include "models/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "core/error.h"

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

class CheckpointFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("duet_checkpoint_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    path_ = (folder_ / "a.safetensors").string();
  }
  void TearDown() override { fs::remove_all(folder_); }
  void put(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string all() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& header, const std::string& values) {
    std::string size(8, '\0');
    const uint64_t n = header.size();
    std::memcpy(size.data(), &n, 8);
    put(size + header + values);
  }
  std::string refusal() {
    const std::string text = error_of([&] { read_checkpoint(path_); });
    EXPECT_THAT(text, HasSubstr(path_));
    EXPECT_EQ(text.find('\n'), std::string::npos);
    return text;
  }
  fs::path folder_;
  std::string path_;
};

Checkpoint some() {
  Checkpoint c;
  c.metadata = {{"model", "lenet"}, {"epoch", "3"}};
  c.tensors["w"] = {DType::f32, {2, 3}, std::vector<unsigned char>(24, 0x3f)};
  c.tensors["step"] = {DType::i32, {1}, {7, 0, 0, 0}};
  c.tensors["none"] = {DType::bf16, {0, 5}, {}};
  c.tensors["scalar"] = {DType::f64, {}, std::vector<unsigned char>(8, 1)};
  return c;
}

TEST_F(CheckpointFile, RoundTrips) {
  write_checkpoint(path_, some());
  const Checkpoint read = read_checkpoint(path_), want = some();
  EXPECT_EQ(read.metadata, want.metadata);
  ASSERT_EQ(read.tensors.size(), want.tensors.size());
  for (const auto& [name, t] : want.tensors) {
    EXPECT_EQ(read.tensors.at(name).dtype, t.dtype) << name;
    EXPECT_EQ(read.tensors.at(name).shape, t.shape) << name;
    EXPECT_EQ(read.tensors.at(name).bytes, t.bytes) << name;
  }
  uint64_t header = 0;
  std::memcpy(&header, all().data(), 8);
  EXPECT_EQ(header % 8, 0u) << "values begin aligned";
  EXPECT_EQ(all()[8], '{');
}

TEST_F(CheckpointFile, IsRefusedWhereverItIsTruncated) {
  write_checkpoint(path_, some());
  const std::string whole = all();
  for (size_t size = 0; size < whole.size(); size += size < 16 ? 1 : 7) {
    put(whole.substr(0, size));
    refusal();
  }
  put(whole + "x");
  EXPECT_THAT(refusal(), HasSubstr("1 bytes at the end belong to no tensor"));
}

TEST_F(CheckpointFile, RefusesWhatContradictsItself) {
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  put(one("F32", "[2]", "[0,8]"), "12345678");
  EXPECT_EQ(read_checkpoint(path_).tensors.at("w").bytes.size(), 8u) << "the good one";
  put(one("F8_E5M2", "[8]", "[0,8]"), "12345678");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("tensor w"), HasSubstr("F8_E5M2"), HasSubstr("BF16")));
  put(one("F64", "[2]", "[0,8]"), "12345678");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("tensor w"), HasSubstr("f64 [2] are 16 bytes"), HasSubstr("hold 8")));
  put(one("F32", "[2]", "[0,8]"), "1234567");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("tensor w"), HasSubstr("truncated")));
  put(one("F32", "[2]", "[8,0]"), "12345678");
  EXPECT_THAT(refusal(), HasSubstr("data_offsets"));
  put(one("F32", "[-2]", "[0,8]"), "12345678");
  EXPECT_THAT(refusal(), HasSubstr("shape"));
  put(one("F32", "[4611686018427387904,4]", "[0,0]"), "");
  EXPECT_THAT(refusal(), HasSubstr("tensor w")) << "a size that overflows to 0";
  put(one("F32", "[2]", "[4,12]"), "123456789012");
  EXPECT_THAT(refusal(), HasSubstr("4 bytes before tensor w"));
  put(R"({"w":{"dtype":"F32","shape":[2]}})", "");
  EXPECT_THAT(refusal(), HasSubstr("tensor w has no data_offsets"));
  put(R"({"w":7})", "");
  EXPECT_THAT(refusal(), HasSubstr("tensor w has no dtype"));
  put(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
      "123456");
  EXPECT_THAT(refusal(), HasSubstr("tensors a and b overlap"));
  put(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
      "1");
  EXPECT_THAT(refusal(), HasSubstr("two entries 'a'"));
  put(R"({"__metadata__":{"epoch":3}})", "");
  EXPECT_THAT(refusal(), HasSubstr("metadata epoch"));
  put("[1,2]", "");
  EXPECT_THAT(refusal(), HasSubstr("not a safetensors file"));
  put("\x89PNG\r\n\x1a\n and so on");
  EXPECT_THAT(refusal(), HasSubstr("not a safetensors file"));
}

TEST_F(CheckpointFile, RefusesDeepNestingAndWhatIsNoFile) {
  put(R"({"a":{"dtype":"F32","shape":)" + std::string(2'000'000, '[') + std::string(2'000'000, ']') + "}}", "");
  EXPECT_THAT(refusal(), HasSubstr("nests"));
  fs::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);  // opening a pipe would block
  EXPECT_THAT(refusal(), HasSubstr("cannot be read as a file"));
}

TEST_F(CheckpointFile, AFailedWriteKeepsThePreviousOne) {
  write_checkpoint(path_, some());
  const std::string before = all();
  Checkpoint bad = some();
  bad.tensors["w"].bytes.pop_back();
  EXPECT_THAT(error_of([&] { write_checkpoint(path_, bad); }), HasSubstr("tensor w"));
  EXPECT_EQ(all(), before);
  EXPECT_THAT(error_of([&] { write_checkpoint((folder_ / "no" / "b").string(), some()); }), HasSubstr("cannot write"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "nothing else stays";
}

}  // namespace
}  // namespace duet
