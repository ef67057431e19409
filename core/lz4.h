// SPDX-License-Identifier: Apache-2.0
// Expands LZ4, by which nvcc compresses parts of a fat binary. Used by softgpu/fatbin.cpp and cli/kernel_code.cpp.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/error.h"

namespace duet {

// Expands one block, of which `size` bytes come out. Throws Error where the input is damaged.
//
// A block is a row of sequences: a byte with two lengths of 4 bits, literal bytes, and a distance back into the output
// from which at least 4 bytes are repeated. A length of 15 continues in the next bytes. The last sequence ends behind
// its literals. (LZ4 block format, github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md)
inline std::string expand_lz4(const uint8_t* data, size_t compressed, size_t size) {
  if (size / 256 > compressed) throw Error("LZ4: {} bytes cannot come out of {}", size, compressed);
  std::string out;
  out.reserve(size);
  const uint8_t* const end = data + compressed;
  const auto next = [&]() -> size_t {
    if (data == end) throw Error("LZ4: the block ends early");
    return *data++;
  };
  const auto length = [&](size_t first) {
    size_t n = first;
    if (first == 15)
      for (size_t more = 255; more == 255; n += more) more = next();
    return n;
  };
  while (data < end) {
    const size_t token = next();
    const size_t literals = length(token >> 4);
    if (literals > static_cast<size_t>(end - data)) throw Error("LZ4: {} literals behind the block's end", literals);
    out.append(reinterpret_cast<const char*>(data), literals);
    data += literals;
    if (data == end) break;
    const size_t low = next(), distance = low | next() << 8;
    const size_t count = length(token & 15) + 4;
    if (distance == 0 || distance > out.size()) throw Error("LZ4: distance {} at byte {}", distance, out.size());
    for (size_t i = 0; i < count; ++i) out.push_back(out[out.size() - distance]);  // may overlap what it writes
  }
  if (out.size() != size) throw Error("LZ4: {} bytes instead of {}", out.size(), size);
  return out;
}

}  // namespace duet
