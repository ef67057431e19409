// SPDX-License-Identifier: Apache-2.0
// decode_png() of image_file.h where libpng was found. Any colour type becomes RGB of 8 bits; transparency is dropped.
#include <png.h>

#include "core/error.h"
#include "models/data/image_file.h"

namespace duet {

Image decode_png(const std::string& path, const std::vector<uint8_t>& bytes) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&header, bytes.data(), bytes.size()) == 0)
    throw Error("{}: not a PNG image: {}", path, header.message);
  Image image{.width = header.width, .height = header.height, .rgb = {}};
  header.format = PNG_FORMAT_RGB;
  try {
    require_image_size(path, image.width, image.height);
  } catch (...) {
    png_image_free(&header);
    throw;
  }
  image.rgb.resize(PNG_IMAGE_SIZE(header));
  const png_color black{};
  if (png_image_finish_read(&header, &black, image.rgb.data(), 0, nullptr) == 0)
    throw Error("{}: a PNG image that cannot be decoded: {}", path, header.message);
  return image;
}

}  // namespace duet
