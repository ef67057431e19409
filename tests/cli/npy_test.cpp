// SPDX-License-Identifier: Apache-2.0
// .npy files: reads what NumPy writes, writes what NumPy reads, and refuses every malformed file with one line.
#include "cli/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "core/error.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class Npy : public testing::Test {
 protected:
  Npy() : folder(fs::temp_directory_path() / ("duet_npy_" + std::to_string(::getpid()))) {
    fs::create_directories(folder);
  }
  ~Npy() override { fs::remove_all(folder); }

  std::string path(const std::string& name = "t.npy") const { return (folder / name).string(); }
  static std::string header(int version, const std::string& text) {
    std::string file = "\x93NUMPY";
    file +=
        {static_cast<char>(version), '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
    if (version > 1) file += std::string(2, '\0');
    return file + text;
  }
  static std::string dict(const std::string& descr, const std::string& shape, const char* order = "False") {
    return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
  }
  template <class T>
  static std::string bytes_of(std::initializer_list<T> values) {
    std::string bytes;
    for (const T& v : values) bytes.append(reinterpret_cast<const char*>(&v), sizeof v);
    return bytes;
  }
  std::string put(const std::string& content) const {
    std::ofstream(path(), std::ios::binary) << content;
    return path();
  }
  template <class T>
  std::vector<T> read(const std::string& content, DType dtype, size_t n) const {
    std::vector<T> values(n);
    NpyReader(put(content)).read(dtype, values.data());
    return values;
  }
  // The error of opening (or of reading as `dtype`): one line that names the file.
  std::string refusal(const std::string& content, std::optional<DType> dtype = std::nullopt) const {
    put(content);
    try {
      NpyReader reader(path());
      std::vector<double> room(64);
      if (dtype) reader.read(*dtype, room.data());
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(path()));
      EXPECT_THAT(e.what(), Not(HasSubstr("\n")));
      return e.what();
    }
    return "accepted";
  }
  fs::path folder;
};

TEST_F(Npy, ReadsAllThreeVersions) {
  for (const int version : {1, 2, 3}) {
    const std::string content = header(version, dict("<f4", "(2, 3)")) + bytes_of<float>({1, 2, 3, 4, 5, 6});
    EXPECT_EQ(read<float>(content, DType::f32, 6), (std::vector<float>{1, 2, 3, 4, 5, 6})) << version;
    EXPECT_EQ(NpyReader(path()).shape(), (Shape{2, 3}));
    EXPECT_EQ(NpyReader(path()).type(), "f4");
  }
}

TEST_F(Npy, ReadsShapesAsPythonWritesThem) {
  put(header(1, dict("<f4", "()")) + bytes_of<float>({7}));
  EXPECT_EQ(NpyReader(path()).shape(), Shape{});
  put(header(1, dict("<f4", "(1,)")) + bytes_of<float>({7}));
  EXPECT_EQ(NpyReader(path()).shape(), Shape{1});
  put(header(
      1,
      "{\"shape\": (2L, 0), \"descr\": \"<f4\", \"fortran_order\": False}"));  // other order and quotes, Python 2
  EXPECT_EQ(NpyReader(path()).shape(), (Shape{2, 0}));
}

TEST_F(Npy, RoundsFloatsToTheTensorsType) {
  const double third = 1.0 / 3;
  const std::string f8 = header(1, dict("<f8", "(2,)")) + bytes_of<double>({third, 1e300});
  EXPECT_EQ(read<float>(f8, DType::f32, 2), (std::vector<float>{static_cast<float>(third), INFINITY}));
  EXPECT_EQ(read<bf16>(f8, DType::bf16, 2)[0].bits, 0x3eab);
  EXPECT_EQ(read<f16>(f8, DType::f16, 2)[0].bits, 0x3555);
  const std::string f2 = header(1, dict("<f2", "(2,)")) + bytes_of<uint16_t>({0x3c00, 0xfc00});
  EXPECT_EQ(read<float>(f2, DType::f32, 2), (std::vector<float>{1, -INFINITY}));
}

TEST_F(Npy, KeepsNanAndSignedZero) {
  const std::string f4 = header(1, dict("<f4", "(2,)")) + bytes_of<float>({NAN, -0.0f});
  EXPECT_TRUE(std::isnan(read<float>(f4, DType::f32, 2)[0]));
  EXPECT_TRUE(std::signbit(read<float>(f4, DType::f32, 2)[1]));
}

TEST_F(Npy, NarrowsWholeNumbersThatFit) {
  EXPECT_EQ(read<int32_t>(header(1, dict("<i8", "(3,)")) + bytes_of<int64_t>({-1, 0, 2147483647}), DType::i32, 3),
            (std::vector<int32_t>{-1, 0, 2147483647}));
  EXPECT_EQ(read<uint8_t>(header(1, dict("|b1", "(2,)")) + bytes_of<uint8_t>({0, 1}), DType::u8, 2),
            (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(read<int8_t>(header(1, dict("|i1", "(2,)")) + bytes_of<int8_t>({-128, 127}), DType::i8, 2),
            (std::vector<int8_t>{-128, 127}));
  const auto i8 = [](int64_t v) { return header(1, dict("<i8", "(1,)")) + bytes_of<int64_t>({v}); };
  EXPECT_THAT(refusal(i8(int64_t{1} << 31), DType::i32), HasSubstr("2147483648, outside -2147483648 .. 2147483647"));
  EXPECT_THAT(refusal(i8(-1), DType::u8), HasSubstr("-1, outside 0 .. 255"));
  const std::string u8 = header(1, dict("<u8", "(1,)")) + bytes_of<uint64_t>({~uint64_t{0}});
  EXPECT_THAT(refusal(u8, DType::i32), HasSubstr("outside"));
}

TEST_F(Npy, RefusesTheOtherKindOfNumber) {
  EXPECT_THAT(refusal(header(1, dict("<i4", "(1,)")) + bytes_of<int32_t>({1}), DType::f32),
              HasSubstr("holds i4, where f32"));
  EXPECT_THAT(refusal(header(1, dict("<f4", "(1,)")) + bytes_of<float>({1}), DType::i32),
              HasSubstr("holds f4, where i32"));
}

TEST_F(Npy, RefusesMalformedFiles) {
  const std::string data = bytes_of<float>({1, 2, 3, 4, 5, 6}), good = header(1, dict("<f4", "(2, 3)")) + data;
  for (size_t length = 0; length < good.size(); ++length)  // truncated at every length
    EXPECT_NE(refusal(good.substr(0, length)), "accepted") << length;
  EXPECT_EQ(refusal(good), "accepted");
  EXPECT_THAT(refusal(good + "x"), HasSubstr("malformed"));
  EXPECT_THAT(refusal("PK\3\4 a zip archive, .npz"), HasSubstr("must begin with"));
  EXPECT_THAT(refusal(header(4, dict("<f4", "(2, 3)")) + data), HasSubstr("version 4 is not read; 1, 2 and 3"));
  EXPECT_THAT(refusal(header(1, dict("<f4", "(2, 3)", "True")) + data), HasSubstr("column-major"));
  EXPECT_THAT(refusal(header(1, dict(">f4", "(2, 3)")) + data), HasSubstr("big-endian"));
  for (const char* type : {"<c8", "|S4", "<U1", "|O", "<f16", "<M8[ns]", "", "4f", "f4 f"})
    EXPECT_THAT(refusal(header(1, dict(type, "(2, 3)")) + data), HasSubstr("is not read; allowed are")) << type;
  EXPECT_THAT(refusal(header(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }") + data),
              HasSubstr("structured"));
  EXPECT_THAT(refusal(header(1, dict("<f4", "(-2, -3)")) + data), HasSubstr("extent -2 of its shape is negative"));
  EXPECT_THAT(refusal(header(1, dict("<f4", "(4294967296, 4294967296)")) + data), HasSubstr("overflows"));
  EXPECT_THAT(refusal(header(1, dict("<f4", "(99999999999999999999,)")) + data), HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(refusal(header(1, dict("<f4", "(1000000000000,)")) + data), HasSubstr("truncated"));
  for (const char* text : {"", "{", "{}", "{'descr': '<f4', 'fortran_order': False}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': 6}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
                           "{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'more': 1}",
                           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} trailing"})
    EXPECT_THAT(refusal(header(1, text) + data), HasSubstr("malformed .npy header")) << text;
  EXPECT_THAT(refusal("\x93NUMPY\2" + std::string("\0\xff\xff\xff\xff", 5)), HasSubstr("at most"));
}

TEST_F(Npy, RefusesWhatIsNotAFile) {
  EXPECT_THROW(NpyReader(path("missing.npy")), Error);
  EXPECT_THROW(NpyReader(folder.string()), Error);
}

template <class T>
void round_trip(const std::string& path, DType dtype, const Shape& shape, std::vector<T> values) {
  {
    AtomicFile file(path);
    write_npy(file, dtype, shape, values.data());
    EXPECT_FALSE(fs::exists(path)) << "a file that is not committed has no name yet";
    file.commit();
  }
  NpyReader reader(path);
  EXPECT_EQ(reader.shape(), shape);
  std::vector<T> again(values.size());
  reader.read(dtype, again.data());
  const auto bytes = [](const std::vector<T>& v) {
    return std::string(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T));
  };
  EXPECT_EQ(bytes(again), bytes(values)) << name_of(dtype);  // NaN and -0 included
  fs::remove(path);
}

TEST_F(Npy, RoundTripsEveryType) {
  round_trip<double>(path(), DType::f64, {2}, {1.0 / 3, -INFINITY});
  round_trip<float>(path(), DType::f32, {2, 1, 2}, {1.5f, -0.0f, 1e-45f, 3e38f});
  round_trip<bf16>(path(), DType::bf16, {2}, {bf16(1.5f), bf16(-3e38f)});
  round_trip<f16>(path(), DType::f16, {2}, {f16(1.5f), f16(6e-8f)});
  round_trip<int32_t>(path(), DType::i32, {2}, {INT32_MIN, INT32_MAX});
  round_trip<int8_t>(path(), DType::i8, {2}, {-128, 127});
  round_trip<uint8_t>(path(), DType::u8, {2}, {0, 255});
  round_trip<f8e4m3>(path(), DType::f8e4m3, {2}, {f8e4m3(1.5f), f8e4m3(-448.0f)});
  round_trip<float>(path(), DType::f32, {0, 7}, {});
  round_trip<float>(path(), DType::f32, {}, {4});
}

TEST_F(Npy, ElementsBeginAtAMultipleOf64) {
  for (const Shape& shape : {Shape{1}, Shape{123456, 1}, Shape{0, 1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
    std::vector<uint8_t> data(123456);
    AtomicFile file(path());
    write_npy(file, DType::u8, shape, data.data());
    file.commit();
    int64_t elements = 1;
    for (const int64_t extent : shape) elements *= extent;
    EXPECT_EQ((static_cast<int64_t>(fs::file_size(path())) - elements) % 64, 0);
  }
}

TEST_F(Npy, AFileThatWasNotCommittedIsRemoved) {
  { AtomicFile(path()).write("x", 1); }
  EXPECT_TRUE(fs::is_empty(folder));
  std::ofstream(path()) << "older";
  { AtomicFile(path()).write("x", 1); }
  EXPECT_EQ(fs::file_size(path()), 5u) << "an older file stays as it was";
  EXPECT_THROW(AtomicFile(path("missing/t.npy")), Error);
  EXPECT_THROW(AtomicFile(folder.string()), Error) << "a folder is not replaced";
}

}  // namespace
}  // namespace duet
