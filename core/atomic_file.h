// SPDX-License-Identifier: Apache-2.0
// Writes a file that appears complete or not at all: it is written under another name in the same folder and then
// renamed. Run files, reports and checkpoints are written this way. To read a file, see core/regular_file.h.
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
  void finish();  // closes the file; throws Error where bytes could not be written. Nothing can be written afterwards
  void commit();  // finish(), then gives the file its name; an older file of that name is replaced

 private:
  [[noreturn]] void fail(const char* doing) const;
  std::string path_, temporary_path_;
  std::FILE* file_ = nullptr;
};

}  // namespace duet
