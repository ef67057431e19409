// SPDX-License-Identifier: Apache-2.0
// An operand of a product of 16-bit elements, for product_half.cuh and product_warpgroup.cuh.
#pragma once
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {

// With the same meaning for a and b: `along` is m or n, `stride` the distance between elements along the axis that is
// not contiguous. aligned: every chunk of 8 elements that starts at a multiple of 8 is aligned to 16 bytes.
template <class T>
struct HalfOperand {
  const T* data;
  int64_t matrix, along, stride;
  bool aligned;
};

constexpr int64_t kMaxCopiedDepth = int64_t{1} << 30;  // CopyPanel counts depths in 32 bits

// `along` is m or n of a product.
template <class T>
HalfOperand<T> half_operand(const T* data, int64_t along, int64_t depth, bool depth_contiguous) {
  const int64_t stride = depth_contiguous ? depth : along;
  return {data, along * depth, along, stride, stride % 8 == 0 && aligned16(data)};
}

}  // namespace duet::DUET_DEVICE
