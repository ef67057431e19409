// SPDX-License-Identifier: Apache-2.0
// Checkpoints: named tensors in the safetensors format, which other frameworks read too: the size of the header in 8
// bytes, little-endian; the header, JSON that gives each tensor's dtype, shape and place; the values.
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

// Appears complete or not at all, in place of an older one. Throws Error: the folder is missing or not writable, a tensor
// whose bytes contradict its shape.
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);

// Throws Error, naming file and tensor: truncated, foreign, a dtype that Duet lacks, a place outside the file, of another
// size than dtype and shape say, or shared with another tensor; bytes that belong to no tensor.
Checkpoint read_checkpoint(const std::string& path);

}  // namespace duet
