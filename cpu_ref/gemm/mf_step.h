// SPDX-License-Identifier: Apache-2.0
// What mf_step_tuned.cpp passes between its two passes.
#pragma once
#include <cstdint>

#include "ops/gemm/mf_step.h"

namespace duet {

struct MfBatch {
  const int32_t *user, *item;
  const float* rating;
  float lr;
  float *old_p, *old_q, *old_bu, *old_bi;  // before the step
  float* e;                                // (n)
  double* squares;                         // of e: (mean_blocks(n))

  bool exists(const MfStep& s, int64_t j) const {
    return user[j] >= 0 && user[j] < s.users && item[j] >= 0 && item[j] < s.items;
  }
};

// Users, with items as the others, or the other way round.
struct MfSide {
  const int32_t *mine, *other;  // indices of the ratings
  const float *others, *old_rows, *old_bias;
  float *rows, *bias;
  int32_t* count;  // ratings of each row
};

}  // namespace duet
