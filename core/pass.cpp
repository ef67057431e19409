// SPDX-License-Identifier: Apache-2.0
#include "core/pass.h"

#include <algorithm>

namespace duet {

char* PassMemory::at_least(int64_t bytes) {
  if (buffer_.bytes() < bytes) {
    buffer_ = Buffer();
    buffer_ = Buffer(context_, bytes, "roof");
  }
  return buffer_.as<char>();
}

bool far_beyond(int64_t footprint, int64_t cache_bytes) {
  constexpr int64_t kCaches = 4, kMinCache = 1 << 20;
  return footprint >= kCaches * std::max(kMinCache, cache_bytes);
}

bool serves(std::string_view patterns, std::string_view pattern) {
  while (!patterns.empty()) {
    const std::string_view one = patterns.substr(0, patterns.find('|'));
    if (one == pattern) return true;
    patterns.remove_prefix(std::min(patterns.size(), one.size() + 1));
  }
  return false;
}

}  // namespace duet
