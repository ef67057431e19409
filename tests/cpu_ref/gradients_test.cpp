// SPDX-License-Identifier: Apache-2.0
// The gradients of relu, dropout, softmax, cross_entropy and linear against finite differences; see gradient.h.
#include "ops/elementwise/dropout.h"
#include "ops/elementwise/relu.h"
#include "ops/gemm/linear.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/distill.h"
#include "ops/norm/softmax.h"
#include "tests/cpu_ref/gradient.h"

namespace duet {
namespace {

TEST(Gradients, Relu) { EXPECT_EQ(check_gradient(Relu{.n = 1031}, ReluBackward{.n = 1031}), 1031); }

TEST(Gradients, Dropout) {
  for (double p : {0.0, 0.2, 0.5, 1.0})
    EXPECT_EQ(check_gradient(Dropout{.n = 257, .p = p}, DropoutBackward{.n = 257, .p = p}), 257);
}

TEST(Gradients, Softmax) {
  EXPECT_EQ(check_gradient(Softmax{.rows = 3, .cols = 31}, SoftmaxBackward{.rows = 3, .cols = 31}), 93);
  EXPECT_EQ(check_gradient(Softmax{.rows = 5, .cols = 1}, SoftmaxBackward{.rows = 5, .cols = 1}), 5);
}

TEST(Gradients, CrossEntropy) {
  for (double smooth : {0.0, 0.1, 1.0})
    EXPECT_EQ(check_gradient(CrossEntropy{.rows = 5, .cols = 33, .smooth = smooth},
                             CrossEntropyBackward{.rows = 5, .cols = 33, .smooth = smooth}),
              165);
  EXPECT_EQ(
      check_gradient(CrossEntropy{.rows = 5, .cols = 33}, CrossEntropyBackward{.rows = 5, .cols = 33, .scaled = true}),
      165);
}

TEST(Gradients, Distill) {
  using Backward = DistillBackward;
  for (const double alpha : {0.0, 0.9, 1.0})
    EXPECT_EQ(
        check_gradient(Distill{.rows = 5, .cols = 33, .alpha = alpha}, Backward{.rows = 5, .cols = 33, .alpha = alpha}),
        165);
}

TEST(Gradients, Linear) {
  for (Act act : {Act::none, Act::relu})
    EXPECT_EQ(check_gradient(Linear{.n = 3, .in = 17, .out = 5, .act = act},
                             LinearBackward{.n = 3, .in = 17, .out = 5, .act = act}),
              3 * 17 + 5 * 17 + 5);
}

}  // namespace
}  // namespace duet
