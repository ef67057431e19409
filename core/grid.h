// SPDX-License-Identifier: Apache-2.0
// The shape of a kernel launch and its limits, the same on a GPU and where kernels run on the host.
#pragma once
#include <cstdint>

struct CUstream_st;  // *cudaStream_t

namespace duet {

// Up to three dimensions, 64 bits wide so that a size that does not fit is refused instead of wrapped.
struct Extent {
  int64_t x = 1, y = 1, z = 1;
  constexpr Extent(int64_t x = 1, int64_t y = 1, int64_t z = 1) : x(x), y(y), z(z) {}
  constexpr int64_t count() const { return x * y * z; }
};

struct Grid {
  Extent blocks = {}, threads = {};  // blocks of the grid; threads of one block
  int64_t shared_bytes = 0;          // dynamic shared memory of one block
  CUstream_st* stream = nullptr;
};

// Whether there is something to launch: false for an empty grid. Throws Error that names the limit when a grid exceeds
// one.
bool launchable(const Grid& grid);

}  // namespace duet
