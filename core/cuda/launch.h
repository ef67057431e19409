// A kernel launch with its limits checked. Kernels reach it through simt/launch.h.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace duet::cuda {

// Up to three dimensions, 64 bits wide so that a size that does not fit is refused instead of wrapped.
struct Extent {
  int64_t x = 1, y = 1, z = 1;
  constexpr Extent(int64_t x = 1, int64_t y = 1, int64_t z = 1) : x(x), y(y), z(z) {}
  constexpr int64_t count() const { return x * y * z; }
};

struct Grid {
  Extent blocks = {}, threads = {};  // in the grid; in one block
  int64_t shared_bytes = 0;          // dynamic shared memory of one block
  cudaStream_t stream = nullptr;
};

// Enqueues kernel(*args[0], *args[1], ...). Nothing happens for an empty grid. Allows more than 48 KiB of dynamic shared
// memory where asked. Throws Error that names the limit when the grid breaks one.
void launch_kernel(const void* kernel, const Grid& grid, void** args);

}  // namespace duet::cuda
