// SPDX-License-Identifier: Apache-2.0
// How this project calls OpenBLAS. Its number of threads is one setting of the whole process, so every call sets it
// first. Used by the *_openblas.cpp of all families.
#pragma once
#include <cblas.h>

#include <cstdint>
#include <initializer_list>

namespace duet::openblas {

// Costs little when nothing changes. Inside our own tasks the number is 1; all threads are used only from outside them,
// while ours sleep.
inline void use_threads(int threads) {
  if (openblas_get_num_threads() != threads) openblas_set_num_threads(threads);
}
// Whether the integers of OpenBLAS, which have 32 bits, hold these extents.
inline bool fits(std::initializer_list<int64_t> extents) {
  for (const int64_t e : extents)
    if (e > INT32_MAX) return false;
  return true;
}
// A leading dimension, which must be at least 1 even for an empty matrix.
inline blasint step(int64_t columns) { return static_cast<blasint>(columns < 1 ? 1 : columns); }

}  // namespace duet::openblas
