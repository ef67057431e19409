// SPDX-License-Identifier: Apache-2.0
#include "core/atomic_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/error.h"

namespace duet {

void AtomicFile::fail(const char* doing) const { throw Error("cannot {} {}: {}", doing, path_, std::strerror(errno)); }

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), temporary_path_(path_ + ".part" + std::to_string(::getpid())) {
  // Checked before the work, because rename() would refuse a folder only at the end, and would replace a device such as
  // /dev/null.
  std::error_code none;
  const auto status = std::filesystem::status(path_, none);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw Error("cannot write {}: it exists and is not a regular file", path_);
  file_ = std::fopen(temporary_path_.c_str(), "wb");
  if (!file_) fail("write");
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_path_(std::exchange(other.temporary_path_, {})),
      file_(std::exchange(other.file_, nullptr)) {}

AtomicFile::~AtomicFile() {
  if (file_) std::fclose(file_);
  if (!temporary_path_.empty()) std::remove(temporary_path_.c_str());
}

void AtomicFile::write(const void* data, size_t bytes) {
  if (bytes > 0 && std::fwrite(data, 1, bytes, file_) != bytes) fail("write");
}

void AtomicFile::finish() {
  if (file_ && std::fclose(std::exchange(file_, nullptr)) != 0) fail("write");
}

void AtomicFile::commit() {
  finish();
  if (std::rename(temporary_path_.c_str(), path_.c_str()) != 0) fail("write");
  temporary_path_.clear();
}

}  // namespace duet
