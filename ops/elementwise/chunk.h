// SPDX-License-Identifier: Apache-2.0
// The slices of elementwise ops: chunks of elements, so small that checking a sample of them is cheap at any size.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/dtype.h"

namespace duet {

inline constexpr int64_t kChunk = 1024;  // elements of a slice

constexpr int64_t chunks(int64_t n) { return ceil_div(n, kChunk); }

// body(i) for the elements i of one chunk of n.
void in_chunk(int64_t n, int64_t chunk, const auto& body) {
  const int64_t first = chunk * kChunk, last = std::min(n, first + kChunk);
  for (int64_t i = first; i < last; ++i) body(i);
}

}  // namespace duet
