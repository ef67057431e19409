// SPDX-License-Identifier: Apache-2.0
// What avg_pool2d_tuned.cpp multiplies the sum of each window by. The elements of a window count as its height times
// its width, so the reciprocals of both are computed once for each row and each column of windows.
#pragma once
#include <vector>

#include "cpu_ref/pool/comb.h"

namespace duet {

struct InverseCounts {
  InverseCounts(const Pool2d& p, bool count_pad)
      : height(of(p.ho(), p.h, p.r, p.stride_h, p.pad_h, p.dil_h, count_pad)),
        width(of(p.wo(), p.w, p.s, p.stride_w, p.pad_w, p.dil_w, count_pad)) {}
  std::vector<float> height, width;  // (ho), (wo)

 private:
  static std::vector<float> of(int64_t outputs, int64_t size, int64_t taps, int64_t stride, int64_t pad, int64_t dil,
                               bool count_pad) {
    std::vector<float> inverse;
    for (int64_t i = 0; i < outputs; ++i) {
      const TapsInside inside(i * stride - pad, size, taps, dil);
      const int64_t count = count_pad ? taps : inside.last - inside.first;
      inverse.push_back(1 / static_cast<float>(std::max<int64_t>(1, count)));
    }
    return inverse;
  }
};

}  // namespace duet
