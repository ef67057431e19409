// SPDX-License-Identifier: Apache-2.0
// NumPy's array files (.npy, format versions 1 to 3): one dense, row-major, little-endian array.
// Format: numpy.lib.format.
#pragma once
#include <cstdio>
#include <memory>
#include <string>

#include "core/dtype.h"
#include "core/problem.h"
#include "core/atomic_file.h"

namespace duet {

// A file whose header has been read and checked against the file's size; its elements are still to be read.
class NpyReader {
 public:
  explicit NpyReader(
      const std::string& path);  // throws Error: unreadable, malformed, truncated, a layout not read here

  const std::string& path() const { return path_; }
  const Shape& shape() const { return shape_; }
  const std::string& type() const { return type_; }  // numpy's letters: f4, i8, ...

  // Every element, into memory of `elements * size_of(to)` bytes. Floats are rounded to a float dtype; whole numbers go
  // into integer dtypes when they fit. Everything else throws Error, as does a file that ends early.
  void read(DType to, void* data);
  bool convertible(DType to) const;
  static const char* accepted_for(DType to);  // for messages: "f2 f4 f8"

 private:
  void parse_header(const std::string& header);
  std::string path_, type_;
  Shape shape_;
  int64_t elements_ = 0;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

// bf16 has no name in NumPy and travels as f4.
void write_npy(AtomicFile& file, DType dtype, const Shape& shape, const void* data);
std::string to_text(const Shape& shape);  // "(3, 31)", "(7,)", "()"

}  // namespace duet
