// SPDX-License-Identifier: Apache-2.0
// Kernels with one planted mistake each, and their repaired twins.
#pragma once
#include <cstdint>

namespace duet::selftest {

constexpr int kLength = 256;  // elements of x, y and z

struct Arrays {
  const float* x;     // 0.5, 1.5, 2.5, ...
  float *y, *z;       // y: zeros; z: not written
  unsigned* counter;  // (4), zeros
  const float* host;  // no device memory: as x
};

struct Bug {
  const char* name;
  const char* expected;  // words of the report
  void (*run)(bool fixed, const Arrays& a);
};
bool plant(const Bug* bugs, int count);  // enters them; called before main()

}  // namespace duet::selftest
