// SPDX-License-Identifier: Apache-2.0
// A file that is there: opened only when it is a regular one, so that neither a pipe nor a device is waited for.
#pragma once
#include <cstdint>
#include <fstream>
#include <string>

namespace duet {

struct RegularFile {
  std::ifstream stream;
  int64_t bytes = 0;
  // Throws Error, naming the path, where it cannot be read as a file or has more than `most` bytes.
  explicit RegularFile(const std::string& path, int64_t most = int64_t{1} << 62);
  void read(void* to, int64_t count);  // throws Error where it ends early

 private:
  std::string path_;
};

}  // namespace duet
