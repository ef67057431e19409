// SPDX-License-Identifier: Apache-2.0
// Image files and folders of them: pixels, squares, classes, and which files are refused. And how images are changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "models/data/augment.h"
#include "models/data/image_file.h"
#include "models/data/image_folder.h"

namespace duet {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

// 2 x 2: red, green, blue, white.
constexpr const char* kPng =
    "89504e470d0a1a0a0000000d4948445200000002000000020802000000fdd49a73000000124944415478da63f8cfc0c000c20cff8100001fee"
    "05fbf1abba770000000049454e44ae426082";
// 8 x 8 of (200, 100, 50).
constexpr const char* kJpeg =
    "ffd8ffdb0043000201010101010201010102020202020403020202020504040304060506060605060606070908060709070606080b08090a"
    "0a0a0a0a06080b0c0b0a0c090a0a0affdb004301020202020202050303050a0706070a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
    "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0affc00011080008000803012200021101031101ffc400150001010000"
    "0000000000000000000000000005ffc40014100100000000000000000000000000000000ffc4001401010000000000000000000000000000"
    "0008ffc40014110100000000000000000000000000000000ffda000c03010002110311003f009e00ae6c3fffd9";

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::strtol(hex.substr(i, 2).c_str(), nullptr, 16));
  return bytes;
}
std::string ppm(int width, int height, const std::string& pixels) {
  return "P6\n# a comment\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n" + pixels;
}

class Images : public testing::Test {
 protected:
  Images() : folder_(testing::TempDir() + "duet_images_" + std::to_string(::getpid())) {
    fs::create_directories(folder_);
  }
  ~Images() override { fs::remove_all(folder_); }
  std::string file(const std::string& name, const std::string& bytes) {
    fs::create_directories(fs::path(folder_ + "/" + name).parent_path());
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
    return folder_ + "/" + name;
  }
  static std::string error_of(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  std::string refusal(const std::string& name, const std::string& bytes) {
    const std::string path = file(name, bytes);
    return error_of([&] { read_image(path); });
  }
  std::string folder_;
};

// Where the library of a format was not there at the build, a clear reason is all there is to test.
bool readable(const std::string& path) {
  try {
    read_image(path);
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("this build reads no"));
    return false;
  }
  return true;
}

TEST_F(Images, EachFormatIsTold) {
  const Image portable = read_image(file("a.ppm", ppm(2, 1, std::string("\x01\x02\x03\x04\x05\x06", 6))));
  EXPECT_EQ(portable.width, 2);
  EXPECT_EQ(portable.height, 1);
  EXPECT_EQ(portable.rgb, (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
  const std::string png = file("a.png", bytes_of(kPng)), jpeg = file("a.jpg", bytes_of(kJpeg));
  if (readable(png)) {
    EXPECT_EQ(read_image(png).rgb, (std::vector<uint8_t>{255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255}));
  }
  if (readable(jpeg)) {
    const Image image = read_image(jpeg);
    EXPECT_EQ(image.width * image.height, 64);
    for (size_t i = 0; i < 64; ++i) {
      EXPECT_NEAR(image.rgb[3 * i], 200, 3);
      EXPECT_NEAR(image.rgb[3 * i + 1], 100, 3);
      EXPECT_NEAR(image.rgb[3 * i + 2], 50, 3);
    }
  }
}

TEST_F(Images, DamagedAndForeignFilesAreRefused) {
  EXPECT_THAT(refusal("a.ppm", ppm(2, 2, "12345")), HasSubstr("5 bytes of pixels; 2 x 2 need 12: truncated?"));
  EXPECT_THAT(refusal("b.ppm", "P6 0 1 255 "), HasSubstr("0 x 1; 1 to 16384"));
  EXPECT_THAT(refusal("c.ppm", "P6 x"), HasSubstr("a number is missing in its header"));
  EXPECT_THAT(refusal("d.ppm", "P6 1 1 65535 123456"), HasSubstr("values up to"));
  EXPECT_THAT(refusal("e.png", "GIF89a"), HasSubstr("neither a PNG, nor a JPEG, nor a binary PPM image"));
  EXPECT_THAT(error_of([&] { read_image(folder_ + "/none.png"); }), HasSubstr("none.png: cannot be read"));
  if (readable(file("good.png", bytes_of(kPng)))) {
    EXPECT_THAT(refusal("cut.png", bytes_of(kPng).substr(0, 50)), HasSubstr("cut.png: a PNG image that cannot"));
  }
  if (readable(file("good.jpg", bytes_of(kJpeg)))) {
    EXPECT_THAT(refusal("cut.jpg", bytes_of(kJpeg).substr(0, 200)), HasSubstr("cut.jpg: a JPEG image that cannot"));
  }
}

TEST_F(Images, ASquareIsTheMiddleAndKeepsTheMean) {
  Image image{.width = 4, .height = 2, .rgb = std::vector<uint8_t>(24, 0)};
  for (int64_t y = 0; y < 2; ++y)  // the middle two columns are 255 and 51 in red
    for (int64_t k = 0; k < 2; ++k) image.rgb[static_cast<size_t>((y * 4 + 1 + k) * 3)] = k == 0 ? 255 : 51;
  EXPECT_EQ(square_of(image, 1), (std::vector<float>{.6f, 0, 0}));
  const std::vector<float> same = square_of(image, 2);
  EXPECT_FLOAT_EQ(same[0], 1);
  EXPECT_FLOAT_EQ(same[1], .2f);
  const std::vector<float> larger = square_of(image, 4);
  EXPECT_FLOAT_EQ(larger[0], 1);
  EXPECT_LT(larger[2], larger[1]);
}

TEST_F(Images, AFolderHasAFolderForEachClass) {
  const std::string dark = ppm(2, 2, std::string(12, '\0')), light = ppm(2, 2, std::string(12, '\xff'));
  for (int i = 0; i < 7; ++i) {
    file("set/cat/" + std::to_string(i) + ".ppm", dark);
    file("set/dog/" + std::to_string(i) + ".ppm", light);
  }
  file("set/dog/notes.txt", "not an image");
  EXPECT_TRUE(is_image_folder(folder_ + "/set"));
  const ImageFolder set = read_image_folder(folder_ + "/set", 2);
  EXPECT_EQ(set.training.class_names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(set.training.size() + set.test.size(), 14);
  EXPECT_EQ(set.test.size(), 1);
  for (int64_t i = 0; i < set.training.size(); ++i)
    EXPECT_EQ(set.training.x[static_cast<size_t>(i * 12)], set.training.label[static_cast<size_t>(i)]);

  for (const char* half : {"halves/train", "halves/val"}) {
    file(std::string(half) + "/a/1.ppm", dark);
    file(std::string(half) + "/b/1.ppm", light);
  }
  EXPECT_EQ(read_image_folder(folder_ + "/halves", 3).test.size(), 2);
  file("halves/val/c/1.ppm", light);
  EXPECT_THAT(error_of([&] { read_image_folder(folder_ + "/halves", 3); }), HasSubstr("other classes"));
  EXPECT_THAT(error_of([&] { read_image_folder(folder_ + "/set", 1 << 24); }),
              HasSubstr("14 images of 16777216 x 16777216 pixels take 4.73e+07 GB, and "));
  fs::create_directories(folder_ + "/set/empty");
  EXPECT_THAT(error_of([&] { read_image_folder(folder_ + "/set", 2); }), HasSubstr("has no image"));
  fs::remove(folder_ + "/set/empty");
  file("set/cat/9.ppm", "P6 2 2 255\n12");
  EXPECT_THAT(error_of([&] { read_image_folder(folder_ + "/set", 2); }), HasSubstr("9.ppm: 2 bytes of pixels"));
  fs::create_directories(folder_ + "/none");
  EXPECT_FALSE(is_image_folder(folder_ + "/none"));
}

TEST_F(Images, ChangesDependOnTheSampleAndStayWithinItsValues) {
  std::vector<float> from(3 * 8 * 8), first(from.size()), again(from.size()), other(from.size());
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i % 13) / 13;
  augment(from.data(), first.data(), 3, 8, {}, 1, 2, 3);
  augment(from.data(), again.data(), 3, 8, {}, 1, 2, 3);
  augment(from.data(), other.data(), 3, 8, {}, 1, 2, 4);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
  EXPECT_NE(first, from);
  for (const float v : first) EXPECT_TRUE(v >= 0 && v <= 12.f / 13);
  augment(from.data(), again.data(), 3, 8, {.shear = 0, .zoom = 0, .shift = 0, .flip = false}, 1, 2, 3);
  for (size_t i = 0; i < from.size(); ++i) EXPECT_FLOAT_EQ(again[i], from[i]) << "nothing was asked for";
}

}  // namespace
}  // namespace duet
