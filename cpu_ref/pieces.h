// SPDX-License-Identifier: Apache-2.0
// How elementwise work is divided: in whole pieces, which pay for a fork and keep the tensor's alignment.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/cpu_context.h"
#include "core/dtype.h"

namespace duet {

// What the vector code of floats-inl.h can read and write.
constexpr bool has_vectors(DType t) { return t == DType::f32 || t == DType::bf16 || t == DType::f16; }
inline constexpr const char* kNoVectors = "dtype other than f32, bf16 and f16";

inline constexpr int64_t kPiece = 1 << 14;  // elements; of f32, 64 KiB

inline int64_t rows_of_a_piece(int64_t cols) { return std::max<int64_t>(1, kPiece / std::max<int64_t>(1, cols)); }

// body(first, last) over [0, n) in whole pieces; fewer than two pieces run in place.
template <class Body>
void in_pieces(const CpuContext& cpu, int64_t n, const Body& body) {
  cpu.parallel_for(ceil_div(n, kPiece), 1,
                   [&](int64_t first, int64_t last) { body(first * kPiece, std::min(n, last * kPiece)); });
}

}  // namespace duet
