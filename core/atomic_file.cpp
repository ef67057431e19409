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
    : path_(std::move(path)), beside_(path_ + ".part" + std::to_string(::getpid())) {
  // rename() would refuse a folder only after all the work; a device such as /dev/null would be replaced.
  std::error_code none;
  const auto status = std::filesystem::status(path_, none);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw Error("cannot write {}: it exists and is no regular file", path_);
  file_ = std::fopen(beside_.c_str(), "wb");
  if (!file_) fail("write");
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      beside_(std::exchange(other.beside_, {})),
      file_(std::exchange(other.file_, nullptr)) {}

AtomicFile::~AtomicFile() {
  if (file_) std::fclose(file_);
  if (!beside_.empty()) std::remove(beside_.c_str());
}

void AtomicFile::write(const void* data, size_t bytes) {
  if (bytes > 0 && std::fwrite(data, 1, bytes, file_) != bytes) fail("write");
}

void AtomicFile::finish() {
  if (file_ && std::fclose(std::exchange(file_, nullptr)) != 0) fail("write");
}

void AtomicFile::commit() {
  finish();
  if (std::rename(beside_.c_str(), path_.c_str()) != 0) fail("write");
  beside_.clear();
}

}  // namespace duet
