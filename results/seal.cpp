// SPDX-License-Identifier: Apache-2.0
#include "results/seal.h"

#include <fmt/format.h>

#include <cstdint>

namespace duet::results {
namespace {

constexpr std::string_view kMember = ",\"checksum\":\"";
constexpr size_t kDigits = 16, kLength = kMember.size() + kDigits + 2;  // 2: closing quote and brace

// FNV-1a of 64 bits: each step is a bijection, so that it sees every change of one byte.
uint64_t hash(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) {
    h ^= static_cast<unsigned char>(c);
    h *= 0x100000001b3;
  }
  return h;
}

std::string seal_of(std::string_view object_without_brace) {
  return fmt::format("{}{:016x}\"}}", kMember, hash(object_without_brace));
}

}  // namespace

std::string sealed(std::string object) {
  object.pop_back();
  return object + seal_of(object);
}

bool has_seal(std::string_view line) {
  return line.size() > kLength && line.substr(line.size() - kLength).starts_with(kMember);
}

bool is_intact(std::string_view line) {
  return line.size() > kLength && line.substr(line.size() - kLength) == seal_of(line.substr(0, line.size() - kLength));
}

}  // namespace duet::results
