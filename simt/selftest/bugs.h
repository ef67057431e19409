// SPDX-License-Identifier: Apache-2.0
// The list of planted bugs: kernels with one mistake each, and their repaired versions. bugs.cu fills it, main.cpp runs
// it.
#pragma once
#include <cstdint>
#include <string>

namespace duet::selftest {

constexpr int kLength = 256;  // elements of x, y and z

struct Arrays {
  const float* x;     // 0.5, 1.5, 2.5, ...
  float *y, *z;       // y: zeros; z: not written
  unsigned* counter;  // (4), zeros
  const float* host;  // the values of x, not in device memory
};

struct Bug {
  const char* name;
  const char* expected;  // part of the report; null for a known miss (known_misses.txt)
  void (*run)(bool fixed, const Arrays& a);
};
bool plant(const Bug* bugs, int count);  // adds them to the list; called before main()

// large.cpp: whether kernels are right on more than 2^31 elements; of one op, or of all where it is empty.
bool large_tensors(bool verbose, const std::string& op);

}  // namespace duet::selftest
