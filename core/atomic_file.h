// SPDX-License-Identifier: Apache-2.0
// Writes a file that appears complete or not at all. It has no name while it is written, so that a process that is
// killed leaves nothing behind; where the file system has no such files, it has another name until it is renamed. Run
// files, reports and checkpoints are written this way. To read a file, see core/regular_file.h.
#pragma once
#include <cstdio>
#include <string>

namespace duet {

class AtomicFile {
 public:
  explicit AtomicFile(std::string path);  // throws Error when the folder is missing or not writable
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();  // without commit() no file is left behind

  void write(const void* data, size_t bytes);
  void finish();  // throws Error where what was written does not reach the disk
  void commit();  // finish(), then gives the file its name; an older file of that name is replaced

 private:
  [[noreturn]] void fail(const char* doing) const;
  std::string path_, temporary_path_;
  std::FILE* file_ = nullptr;
  bool named_ = false;  // whether the file is at temporary_path_
};

}  // namespace duet
