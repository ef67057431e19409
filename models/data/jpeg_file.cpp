// SPDX-License-Identifier: Apache-2.0
// decode_jpeg() of image_file.h where libjpeg-turbo was found, by the interface of libjpeg. libjpeg reports
// errors by a call that must not return: it leaves by longjmp, over frames without destructors alone.
#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

#include "core/error.h"
#include "models/data/image_file.h"

namespace duet {
namespace {

struct Errors {
  jpeg_error_mgr manager;
  std::jmp_buf leave;
  char message[JMSG_LENGTH_MAX] = "";
};

// Returns false with a message where the file is damaged. Warnings, which libjpeg gives for files that end early, count
// as damage. `image` outlives the jump.
bool decode(const std::vector<uint8_t>& bytes, Image& image, Errors& errors) {
  jpeg_decompress_struct reader{};
  reader.err = jpeg_std_error(&errors.manager);
  reader.client_data = &errors;
  errors.manager.error_exit = [](j_common_ptr common) {
    auto* state = static_cast<Errors*>(common->client_data);
    common->err->format_message(common, state->message);
    std::longjmp(state->leave, 1);
  };
  errors.manager.emit_message = [](j_common_ptr common, int level) {
    if (level < 0) common->err->error_exit(common);
  };
  if (setjmp(errors.leave) != 0) {
    jpeg_destroy_decompress(&reader);
    return false;
  }
  jpeg_create_decompress(&reader);
  jpeg_mem_src(&reader, bytes.data(), bytes.size());
  jpeg_read_header(&reader, TRUE);
  image.width = reader.image_width;
  image.height = reader.image_height;
  if (image.width <= kMaxImageSide && image.height <= kMaxImageSide) {
    reader.out_color_space = JCS_RGB;
    jpeg_start_decompress(&reader);
    image.rgb.resize(static_cast<size_t>(3 * image.width * image.height));
    while (reader.output_scanline < reader.output_height) {
      JSAMPROW row = image.rgb.data() + static_cast<size_t>(reader.output_scanline) * 3 * reader.output_width;
      jpeg_read_scanlines(&reader, &row, 1);
    }
    jpeg_finish_decompress(&reader);
  }
  jpeg_destroy_decompress(&reader);
  return true;
}

}  // namespace

Image decode_jpeg(const std::string& path, const std::vector<uint8_t>& bytes) {
  Image image;
  Errors errors{};
  if (!decode(bytes, image, errors)) throw Error("{}: a JPEG image that cannot be decoded: {}", path, errors.message);
  require_image_size(path, image.width, image.height);
  return image;
}

}  // namespace duet
