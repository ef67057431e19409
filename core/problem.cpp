// SPDX-License-Identifier: Apache-2.0
#include "core/problem.h"

#include "core/error.h"

namespace duet {

const char* name_of(Role r) { return r == Role::in ? "in" : r == Role::out ? "out" : "inout"; }

int64_t TensorSpec::elements() const {
  int64_t n = 1;
  for (const int64_t extent : shape) {
    if (extent < 0) throw Error("tensor {}: extent {} is negative; zero or more is allowed", name, extent);
    if (__builtin_mul_overflow(n, extent, &n) || n > (int64_t{1} << 50))
      throw Error("tensor {}: the product of its extents overflows; at most 2^50 elements are allowed", name);
  }
  return n;
}
int64_t TensorSpec::bytes() const { return elements() * size_of(dtype); }
int64_t TensorSpec::traffic_bytes() const {
  return (touched < 0 ? elements() : touched) * size_of(dtype) * (role == Role::inout ? 2 : 1);
}
TensorSpec TensorSpec::touching(int64_t n) const {
  TensorSpec copy = *this;
  copy.touched = n;
  return copy;
}

int64_t Shapes::Dims::operator[](size_t axis) const {
  if (!shape) throw Error("tensor {} is needed to infer dimensions; give it or the dimensions", tensor);
  if (axis >= shape->size())
    throw Error("tensor {} has rank {}; at least {} expected", tensor, shape->size(), axis + 1);
  return (*shape)[axis];
}

}  // namespace duet
