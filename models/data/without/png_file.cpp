// SPDX-License-Identifier: Apache-2.0
// decode_png() of image_file.h where CMake did not find the library.
#include "core/error.h"
#include "models/data/image_file.h"

namespace duet {

Image decode_png(const std::string& path, const std::vector<uint8_t>&) {
  throw Error("{}: this build reads no PNG images: tools/setup installs libpng-dev, then configure and build again",
              path);
}

}  // namespace duet
