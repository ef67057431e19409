// SPDX-License-Identifier: Apache-2.0
// The order of ops/reduction/ranking.h, for accuracy.
#pragma once
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

// 1 where v in column c ranks before `score` in column `wanted`, else 0.
__device__ __forceinline__ int ranks_before(float v, int64_t c, float score, int64_t wanted) {
  const bool above = !(v <= score) && score == score;
  const bool below = !(score <= v) && v == v;
  return above || (!below && c < wanted) ? 1 : 0;
}

}  // namespace duet::DUET_DEVICE
