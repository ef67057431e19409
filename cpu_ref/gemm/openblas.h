// SPDX-License-Identifier: Apache-2.0
// How this project calls OpenBLAS. Its number of threads is one setting of the whole process, so every call sets it
// first. Used by the *_openblas.cpp of all families.
#pragma once
#include <cblas.h>

#include <algorithm>
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

// c (m, n) = op(a) op(b), row-major. With k = 0, OpenBLAS would leave c as it is.
inline void multiply(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float* a, const float* b,
                     float* c) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    std::fill_n(c, m * n, 0.0f);
    return;
  }
  cblas_sgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans, trans_b ? CblasTrans : CblasNoTrans, step(m), step(n),
              step(k), 1, a, step(trans_a ? m : k), b, step(trans_b ? k : n), 0, c, step(n));
}

}  // namespace duet::openblas
