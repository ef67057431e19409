// SPDX-License-Identifier: Apache-2.0
#include "softgpu/fatbin.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/lz4.h"

namespace duet::softgpu {
namespace {
// NVIDIA documents neither structure; these fields were read off the output of nvcc 12 and 13, and each is checked.
struct Wrapper {
  uint32_t magic, version;
  const uint8_t* data;
  const void* more;
};
struct Header {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // of the parts that follow
};
struct Part {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t bytes;  // of the data that follows the header, padded
  uint32_t compressed_bytes, options_offset;
  uint16_t minor, major;
  uint32_t capability, name_offset, name_bytes;
  uint64_t flags, reserved, expanded_bytes;
};
static_assert(sizeof(Part) == 64);
constexpr uint32_t kWrapperMagic = 0x466243b1, kMagic = 0xba55ed50;
constexpr uint16_t kPtx = 1;
constexpr uint64_t kLz4 = 0x2000, kZstd = 0x8000;

template <class T>
T read(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
}  // namespace

std::vector<PtxText> ptx_of(const void* wrapper) {
  const auto outer = read<Wrapper>(static_cast<const uint8_t*>(wrapper));
  if (outer.magic != kWrapperMagic) throw Error("fat binary: the wrapper begins with {:#x}", outer.magic);
  const auto header = read<Header>(outer.data);
  if (header.magic != kMagic) throw Error("fat binary: it begins with {:#x}", header.magic);
  std::vector<PtxText> found;
  const uint8_t* at = outer.data + header.header_bytes;
  const uint8_t* const end = at + header.bytes;
  while (at < end) {
    const auto part = read<Part>(at);
    const uint8_t* data = at + part.header_bytes;
    at = data + part.bytes;
    if (part.kind != kPtx) continue;
    std::string text;
    if (part.flags & kLz4)
      text = expand_lz4(data, part.compressed_bytes, part.expanded_bytes);
    else if (part.flags & kZstd)
      throw Error("fat binary: its PTX is compressed with zstd; nvcc --compress-mode=speed writes LZ4");
    else
      text.assign(reinterpret_cast<const char*>(data), strnlen(reinterpret_cast<const char*>(data), part.bytes));
    text.resize(std::min(text.find('\0'), text.size()));  // nvcc ends the text with one
    found.push_back({static_cast<int>(part.capability), std::move(text)});
  }
  return found;
}

}  // namespace duet::softgpu
