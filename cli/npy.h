// SPDX-License-Identifier: Apache-2.0
// Reads and writes NumPy's array files (.npy, format versions 1 to 3) that hold one dense, row-major, little-endian
// array. The format is described in the documentation of numpy.lib.format. Used by op_inputs.cpp and op.cpp.
#pragma once
#include <cstdio>
#include <memory>
#include <string>

#include "core/atomic_file.h"
#include "core/dtype.h"
#include "core/problem.h"

namespace duet {

// A file whose header has been read and checked against the file's size; its elements are still to be read.
class NpyReader {
 public:
  // Throws Error where the file is unreadable, malformed, truncated or of a layout that is not supported.
  explicit NpyReader(const std::string& path);

  const std::string& path() const { return path_; }
  const Shape& shape() const { return shape_; }
  const std::string& type() const { return type_; }  // in NumPy's notation: f4, i8, ...

  // Reads every element into `elements * size_of(to)` bytes. Floats are rounded to a float dtype; whole numbers go into
  // an integer dtype if they fit. Any other conversion throws Error, as does a file that ends early.
  void read(DType to, void* data);
  bool convertible(DType to) const;
  static const char* accepted_for(DType to);  // "f2 f4 f8", for messages

 private:
  void parse_header(const std::string& header);
  std::string path_, type_;
  Shape shape_;
  int64_t elements_ = 0;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

// NumPy has neither bf16 nor f8e4m3, which are written as f4.
void write_npy(AtomicFile& file, DType dtype, const Shape& shape, const void* data);
std::string to_text(const Shape& shape);  // "(3, 31)", "(7,)", "()"

}  // namespace duet
