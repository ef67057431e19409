// SPDX-License-Identifier: Apache-2.0
// The gradients of conv2d against finite differences; see gradient.h.
#include "ops/conv/conv2d_backward.h"
#include "tests/cpu_ref/gradient.h"

namespace duet {
namespace {

TEST(Gradients, Conv2d) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    for (Conv2d p : {Conv2d{.n = 2, .c = 3, .h = 5, .w = 4, .k = 2, .r = 3, .s = 2},
                     Conv2d{.n = 1, .c = 2, .h = 5, .w = 7, .k = 3, .r = 3, .s = 3, .pad_h = 1, .pad_w = 2},
                     Conv2d{.n = 1, .c = 2, .h = 6, .w = 9, .k = 3, .r = 3, .s = 2, .stride_h = 2, .stride_w = 3},
                     Conv2d{.n = 2, .c = 1, .h = 9, .w = 5, .k = 2, .r = 3, .s = 2, .pad_h = 1, .dil_h = 3},
                     Conv2d{.n = 1, .c = 6, .h = 4, .w = 4, .k = 4, .r = 2, .s = 3, .pad_w = 1, .groups = 2}}) {
      p.layout = layout;
      EXPECT_EQ(check_gradient(p, Conv2dBackwardFilter{p}), p.k * p.group_c() * p.r * p.s);
      EXPECT_EQ(check_gradient(p, Conv2dBackwardData{p}), p.n * p.c * p.h * p.w);
    }
  }
}

}  // namespace
}  // namespace duet
