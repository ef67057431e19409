// SPDX-License-Identifier: Apache-2.0
// How elementwise and row-wise work is divided among threads: in chunks that are large enough to pay for a fork and
// that keep the alignment of the tensor. Included by nearly every *_tuned.cpp.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/cpu_context.h"
#include "core/dtype.h"

namespace duet {

// The element types that floats-inl.h can load and store.
constexpr bool is_simd_dtype(DType t) { return t == DType::f32 || t == DType::bf16 || t == DType::f16; }
inline constexpr const char* kNotSimdDtype = "dtype other than f32, bf16 and f16";

inline constexpr int64_t kChunkElements = 1 << 14;  // 64 KiB of f32

// Rows of `cols` elements that together make about one chunk.
inline int64_t rows_per_chunk(int64_t cols) {
  return std::max<int64_t>(1, kChunkElements / std::max<int64_t>(1, cols));
}

// Calls body(first, last) for element ranges that cover [0, n). Each range is one or more whole chunks; a single
// chunk runs on the calling thread.
template <class Body>
void parallel_chunks(const CpuContext& cpu, int64_t n, const Body& body) {
  cpu.parallel_for(ceil_div(n, kChunkElements), 1, [&](int64_t first, int64_t last) {
    body(first * kChunkElements, std::min(n, last * kChunkElements));
  });
}

}  // namespace duet
