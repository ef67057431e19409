// SPDX-License-Identifier: Apache-2.0
// A file that appears complete or not at all: written beside its place under another name, then renamed.
#pragma once
#include <cstdio>
#include <string>

namespace duet {

class AtomicFile {
 public:
  explicit AtomicFile(std::string path);  // throws Error when the folder is missing or not writable
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();  // without commit() nothing stays

  void write(const void* data, size_t bytes);
  void finish();  // all bytes are on their way to the disk, or Error; further writes are errors
  void commit();  // finish(), then the file takes its name, in place of an older one

 private:
  [[noreturn]] void fail(const char* doing) const;
  std::string path_, beside_;
  std::FILE* file_ = nullptr;
};

}  // namespace duet
