// SPDX-License-Identifier: Apache-2.0
// Reads an image file: PNG by libpng, JPEG by libjpeg-turbo, where this build found them; binary PPM always.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace duet {

struct Image {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;  // (height, width, 3)
};

bool has_image_suffix(const std::string& path);  // .png .jpg .jpeg .ppm, in either case

// The format is told by the first bytes. Throws Error, naming the file, when it is unreadable, truncated, of another
// format, larger than 16384 pixels in one direction, or when this build has no reader of its format.
Image read_image(const std::string& path);

// (3, side, side), values 0 to 1: the middle square of the image, each pixel the mean of those that it covers, or
// between them where the image is smaller.
std::vector<float> square_of(const Image& image, int64_t side);

// One for each format (png_file.cpp, jpeg_file.cpp, or without/ of the same name). `bytes`: the whole file.
Image decode_png(const std::string& path, const std::vector<uint8_t>& bytes);
Image decode_jpeg(const std::string& path, const std::vector<uint8_t>& bytes);
constexpr int64_t kMaxImageSide = 16384;
void require_image_size(const std::string& path, int64_t width, int64_t height);  // throws Error

}  // namespace duet
