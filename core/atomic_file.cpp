// SPDX-License-Identifier: Apache-2.0
#include "core/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "core/error.h"

namespace duet {

// A full or broken disk is no error of the command line, which Error is for.
void AtomicFile::fail(const char* doing) const {
  const int error = errno;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO)
    throw std::runtime_error(fmt::format("cannot {} {}: {}", doing, path_, std::strerror(error)));
  throw Error("cannot {} {}: {}", doing, path_, std::strerror(error));
}

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), temporary_path_(path_ + ".part" + std::to_string(::getpid())) {
  // Checked before the work, because rename() would refuse a folder only at the end, and would replace a device such as
  // /dev/null.
  std::error_code none;
  const auto status = std::filesystem::status(path_, none);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw Error("cannot write {}: it exists and is not a regular file", path_);
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  const int descriptor = open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor >= 0) {
    file_ = fdopen(descriptor, "wb");
  } else if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL) {
    file_ = std::fopen(temporary_path_.c_str(), "wb");
    named_ = file_ != nullptr;
  }
  if (!file_) fail("write");
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_path_(std::move(other.temporary_path_)),
      file_(std::exchange(other.file_, nullptr)),
      named_(std::exchange(other.named_, false)) {}

AtomicFile::~AtomicFile() {
  if (file_) std::fclose(file_);
  if (named_) std::remove(temporary_path_.c_str());
}

void AtomicFile::write(const void* data, size_t bytes) {
  if (bytes > 0 && std::fwrite(data, 1, bytes, file_) != bytes) fail("write");
}

void AtomicFile::finish() {
  if (std::fflush(file_) != 0 || fsync(fileno(file_)) != 0) fail("write");
}

void AtomicFile::commit() {
  finish();
  if (!named_) {  // a link cannot replace a file, so it gets the temporary name first
    const std::string nameless = "/proc/self/fd/" + std::to_string(fileno(file_));
    std::remove(temporary_path_.c_str());  // left behind by a process of the same number
    if (linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, temporary_path_.c_str(), AT_SYMLINK_FOLLOW) != 0) fail("write");
    named_ = true;
  }
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail("write");
  if (std::rename(temporary_path_.c_str(), path_.c_str()) != 0) fail("write");
  named_ = false;
}

}  // namespace duet
