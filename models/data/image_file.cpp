// SPDX-License-Identifier: Apache-2.0
#include "models/data/image_file.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "core/error.h"
#include "core/regular_file.h"

namespace duet {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 30;

// "P6 width height 255", each behind blanks or a comment; then the pixels.
Image decode_ppm(const std::string& path, const std::vector<uint8_t>& bytes) {
  size_t at = 2;
  const auto number = [&] {
    while (at < bytes.size() && (std::isspace(bytes[at]) || bytes[at] == '#')) {
      if (bytes[at] == '#')
        while (at < bytes.size() && bytes[at] != '\n') ++at;
      else
        ++at;
    }
    int64_t value = 0;
    const size_t first = at;
    while (at < bytes.size() && std::isdigit(bytes[at]) && value <= kMaxImageSide)
      value = 10 * value + bytes[at++] - '0';
    if (at == first) throw Error("{}: not a binary PPM image: a number is missing in its header", path);
    return value;
  };
  Image image;
  image.width = number();
  image.height = number();
  if (const int64_t largest = number(); largest != 255)
    throw Error("{}: PPM values up to {}; up to 255 are allowed", path, largest);
  require_image_size(path, image.width, image.height);
  ++at;  // one blank
  const auto size = static_cast<size_t>(3 * image.width * image.height);
  if (bytes.size() < at + size)
    throw Error("{}: {} bytes of pixels; {} x {} need {}: truncated?", path, bytes.size() - std::min(at, bytes.size()),
                image.width, image.height, size);
  image.rgb.assign(bytes.begin() + static_cast<int64_t>(at), bytes.begin() + static_cast<int64_t>(at + size));
  return image;
}

}  // namespace

void require_image_size(const std::string& path, int64_t width, int64_t height) {
  if (width < 1 || height < 1 || width > kMaxImageSide || height > kMaxImageSide)
    throw Error("{}: an image of {} x {}; 1 to {} are allowed", path, width, height, kMaxImageSide);
}

bool has_image_suffix(const std::string& path) {
  std::string suffix = std::filesystem::path(path).extension().string();
  for (char& c : suffix) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return suffix == ".png" || suffix == ".jpg" || suffix == ".jpeg" || suffix == ".ppm";
}

Image read_image(const std::string& path) {
  RegularFile file(path, kMaxBytes);
  std::vector<uint8_t> bytes(static_cast<size_t>(file.bytes));
  file.read(bytes.data(), file.bytes);
  const auto begins = [&](std::initializer_list<int> head) {
    return bytes.size() > head.size() && std::equal(head.begin(), head.end(), bytes.begin());
  };
  if (begins({0x89, 'P', 'N', 'G'})) return decode_png(path, bytes);
  if (begins({0xFF, 0xD8, 0xFF})) return decode_jpeg(path, bytes);
  if (begins({'P', '6'})) return decode_ppm(path, bytes);
  throw Error("{}: neither a PNG, nor a JPEG, nor a binary PPM image", path);
}

std::vector<float> square_of(const Image& image, int64_t side) {
  const int64_t square = std::min(image.width, image.height);
  const int64_t left = (image.width - square) / 2, top = (image.height - square) / 2;
  const double scale = static_cast<double>(square) / static_cast<double>(side);
  // Along each axis: which pixels of the image make pixel i, and with which weights.
  struct Span {
    int64_t first;
    std::vector<double> weights;
  };
  std::vector<Span> spans;
  for (int64_t i = 0; i < side; ++i) {
    const double middle = (static_cast<double>(i) + .5) * scale, half = std::max(scale, 1.) / 2;
    const double begin = std::max(0., middle - half), end = std::min(static_cast<double>(square), middle + half);
    Span span{std::min(static_cast<int64_t>(begin), square - 1), {}};
    double sum = 0;
    for (int64_t p = span.first; static_cast<double>(p) < end && p < square; ++p) {
      const double part = std::min(end, static_cast<double>(p + 1)) - std::max(begin, static_cast<double>(p));
      span.weights.push_back(std::max(part, 0.));
      sum += span.weights.back();
    }
    for (double& w : span.weights) w /= sum;
    spans.push_back(std::move(span));
  }
  std::vector<float> out(static_cast<size_t>(3 * side * side));
  for (int64_t row = 0; row < side; ++row)
    for (int64_t column = 0; column < side; ++column) {
      const Span &down = spans[static_cast<size_t>(row)], &across = spans[static_cast<size_t>(column)];
      double colour[3] = {};
      for (size_t i = 0; i < down.weights.size(); ++i)
        for (size_t j = 0; j < across.weights.size(); ++j) {
          const int64_t y = top + down.first + static_cast<int64_t>(i),
                        x = left + across.first + static_cast<int64_t>(j);
          for (int64_t k = 0; k < 3; ++k)
            colour[k] +=
                down.weights[i] * across.weights[j] * image.rgb[static_cast<size_t>((y * image.width + x) * 3 + k)];
        }
      for (int64_t k = 0; k < 3; ++k)
        out[static_cast<size_t>((k * side + row) * side + column)] = static_cast<float>(colour[k] / 255);
    }
  return out;
}

}  // namespace duet
