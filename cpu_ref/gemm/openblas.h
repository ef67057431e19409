// SPDX-License-Identifier: Apache-2.0
// OpenBLAS as a guest: its thread count is one setting of the whole process, so whoever calls it sets it first.
#pragma once
#include <cblas.h>

#include <cstdint>
#include <initializer_list>

namespace duet::openblas {

// Cheap when nothing changes. 1 inside tasks of our own; all threads only from outside them, while ours sleep.
inline void use_threads(int threads) {
  if (openblas_get_num_threads() != threads) openblas_set_num_threads(threads);
}
inline bool fits(std::initializer_list<int64_t> extents) {  // its integers have 32 bits
  for (const int64_t e : extents)
    if (e > INT32_MAX) return false;
  return true;
}
// A leading dimension is at least 1, also of an empty matrix.
inline blasint step(int64_t columns) { return static_cast<blasint>(columns < 1 ? 1 : columns); }

}  // namespace duet::openblas
