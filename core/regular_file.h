// SPDX-License-Identifier: Apache-2.0
// Reads a file: opened only when it is a regular one, because reading a pipe or a device could wait for ever. To write
// one, see core/atomic_file.h.
#pragma once
#include <cstdint>
#include <fstream>
#include <string>

namespace duet {

struct RegularFile {
  std::ifstream stream;
  int64_t bytes = 0;
  // Throws Error, naming the path, when it cannot be read as a file or has more than `max_bytes`.
  explicit RegularFile(const std::string& path, int64_t max_bytes = int64_t{1} << 62);
  void read(void* to, int64_t count);  // throws Error when the file ends early

 private:
  std::string path_;
};

}  // namespace duet
