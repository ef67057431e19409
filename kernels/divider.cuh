// SPDX-License-Identifier: Apache-2.0
// Integer division by a number that is known at launch, for kernels that turn an element's index into coordinates: the
// GPU's own division takes tens of instructions.
#pragma once
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

// Division of dividends below 2^31 by one multiplication (Granlund, Montgomery 1994). By more than 2^32 - 1: by that.
class Divider {
 public:
  explicit Divider(int64_t by) : by_(static_cast<uint32_t>(by < 1 ? 1 : by > UINT32_MAX ? UINT32_MAX : by)) {
    while (shift_ < 32 && (uint64_t{1} << shift_) < by_) ++shift_;
    factor_ = (((uint64_t{1} << shift_) - by_) << 32) / by_ + 1;  // 2^32 (2^shift - by) / by, rounded up
  }
  __device__ __forceinline__ uint32_t operator()(uint32_t n) const {
    return static_cast<uint32_t>((((n * factor_) >> 32) + n) >> shift_);
  }
  // Replaces n by the quotient and returns the remainder.
  __device__ __forceinline__ int split(uint32_t& n) const {
    const uint32_t quotient = (*this)(n), remainder = n - quotient * by_;
    n = quotient;
    return static_cast<int>(remainder);
  }

 private:
  uint32_t by_, shift_ = 0;
  uint64_t factor_;
};

}  // namespace duet::DUET_DEVICE
