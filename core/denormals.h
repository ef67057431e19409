// SPDX-License-Identifier: Apache-2.0
// oneTBB gives its threads the floating-point mode in which an arena was first used, which may be one that flushes
// denormals (core/cpu_context.h). What has to be exact, such as the reference, keeps them in each task.
#pragma once
#include <xmmintrin.h>

namespace duet {

// While it lives, this thread computes with denormals as IEEE 754 says.
class ScopedKeepDenormals {
 public:
  ScopedKeepDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ & ~kFlush); }
  ~ScopedKeepDenormals() { _mm_setcsr(saved_); }
  ScopedKeepDenormals(const ScopedKeepDenormals&) = delete;
  ScopedKeepDenormals& operator=(const ScopedKeepDenormals&) = delete;

 private:
  static constexpr unsigned kFlush = 0x8040;  // FTZ and DAZ in MXCSR
  unsigned saved_;
};

}  // namespace duet
