// SPDX-License-Identifier: Apache-2.0
// Shared by rope_naive.cu and rope_tuned.cu: sine and cosine of the angles, in integers up to the fraction of a turn
// (ops/elementwise/rope_turns.h), then in f32 without the slow path that sinf has for large arguments.
#pragma once
#include "ops/elementwise/rope.h"
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

// The upper 64 bits of the product.
__device__ __forceinline__ uint64_t upper_product(uint64_t a, uint64_t b) {
  const uint64_t a0 = static_cast<uint32_t>(a), a1 = a >> 32, b0 = static_cast<uint32_t>(b), b1 = b >> 32;
  const uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + static_cast<uint32_t>(middle);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

// Where each sequence begins, (B); null: at 0.
inline const int32_t* position_of(const Rope& p, Args t) {
  return p.positioned ? t[Rope::position].as<const int32_t>() : nullptr;
}
inline const int32_t* position_of(const RopeBackward&, Args) { return nullptr; }

struct SinCos {
  float sin, cos;
};

// The turns of every pair, made from few constants: base^(-2j/D) is the product of base^(-2 2^b/D) over the bits b of
// j. So a kernel needs neither a table in memory nor arithmetic in double.
class RopeTurns {
 public:
  static constexpr int kBits = 20;  // of a pair's number
  static constexpr int64_t kMaxPairs = int64_t{1} << kBits;

  // sign: 1 forward, -1 backward.
  RopeTurns(int64_t D, double base, int sign) : first_(rope::turns_per_token(0, D, base)), sign_(sign) {
    while (bits_ < kBits && int64_t{1} << bits_ < D / 2) ++bits_;
    for (int b = 0; b < kBits; ++b)
      power_[b] =
          rope::fixed_point(std::pow(base, -2.0 * static_cast<double>(int64_t{1} << b) / static_cast<double>(D)));
  }
  // Of pair j at token t, which may be negative.
  __device__ __forceinline__ SinCos at(int64_t t, uint32_t j) const {
    uint64_t turns = first_;
    for (int b = 0; b < bits_; ++b)
      if (j >> b & 1) turns = upper_product(turns, power_[b]);
    const auto fraction = static_cast<uint32_t>(turns * static_cast<uint64_t>(t) >> 32);

    // The nearest quarter of a turn, and the rest of up to an eighth of a turn.
    const uint32_t quarter = (fraction + 0x20000000u) >> 30;
    const float r = static_cast<float>(static_cast<int32_t>(fraction - (quarter << 30))) * rope::kAngleOfBit;
    const float z = r * r;
    const float sine = fmaf(r * z, fmaf(z, fmaf(z, rope::kSin[2], rope::kSin[1]), rope::kSin[0]), r);
    const float cosine =
        fmaf(z * z, fmaf(z, fmaf(z, rope::kCos[2], rope::kCos[1]), rope::kCos[0]), fmaf(z, -0.5f, 1.0f));
    const float s = quarter & 1 ? cosine : sine, c = quarter & 1 ? sine : cosine;
    const bool minus_s = (quarter & 2) != 0, minus_c = ((quarter + 1) & 2) != 0;
    return {minus_s != (sign_ < 0) ? -s : s, minus_c ? -c : c};
  }

 private:
  uint64_t power_[kBits], first_;
  int bits_ = 0, sign_;
};

}  // namespace duet::DUET_DEVICE
