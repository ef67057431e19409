// SPDX-License-Identifier: Apache-2.0
#include "core/regular_file.h"

#include <filesystem>

#include "core/error.h"

namespace duet {

RegularFile::RegularFile(const std::string& path, int64_t max_bytes) : path_(path) {
  std::error_code unreadable;
  if (std::filesystem::is_regular_file(path, unreadable)) {
    bytes = static_cast<int64_t>(std::filesystem::file_size(path, unreadable));
    if (!unreadable) stream.open(path, std::ios::binary);
  }
  if (!stream.is_open()) throw Error("{}: cannot be read as a file", path);
  if (bytes > max_bytes) throw Error("{}: {} bytes; at most {} are allowed", path, bytes, max_bytes);
}

void RegularFile::read(void* to, int64_t count) {
  if (!stream.read(static_cast<char*>(to), count)) throw Error("{}: reading stopped early", path_);
}

}  // namespace duet
