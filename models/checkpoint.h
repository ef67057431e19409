// SPDX-License-Identifier: Apache-2.0
// Checkpoints: named tensors in the safetensors format, which other frameworks read as well. A file is the size of the
// header in 8 bytes, little-endian; the header, JSON that gives each tensor's dtype, shape and position; the values.
// Trainer makes and restores them; `duet train` writes and reads the files.
// Source: https://github.com/huggingface/safetensors
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/problem.h"

namespace duet {

struct Checkpoint {
  struct Entry {
    DType dtype = DType::f32;
    Shape shape;
    std::vector<unsigned char> bytes;  // row-major, little-endian
  };
  std::map<std::string, Entry> tensors;
  std::map<std::string, std::string> metadata;
};

// The file appears complete or not at all, and replaces an older one. Throws Error when the folder is missing or not
// writable, and for a tensor whose bytes contradict its shape.
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);

// Throws Error, naming file and tensor, when the file is truncated or of another format, has a dtype that Duet lacks,
// or bytes that belong to no tensor; and when a tensor's position lies outside the file, is shared with another tensor,
// or has another size than its dtype and shape.
Checkpoint read_checkpoint(const std::string& path);

}  // namespace duet
