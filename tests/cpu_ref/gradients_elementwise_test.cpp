// SPDX-License-Identifier: Apache-2.0
// The gradients of biases and activations, and of losses that are means, against finite differences; see gradient.h.
#include "tests/cpu_ref/gradient.h"
#include "ops/elementwise/bias.h"
#include "ops/elementwise/gelu.h"
#include "ops/elementwise/rope.h"
#include "ops/elementwise/sigmoid.h"
#include "ops/elementwise/swiglu.h"
#include "ops/elementwise/tanh.h"
#include "ops/gemm/linear.h"
#include "ops/loss/bce_logits.h"
#include "ops/loss/mse.h"

namespace duet {
namespace {

TEST(Gradients, Bias) {
  EXPECT_EQ(check_gradient(Bias{.outer = 5, .c = 7, .inner = 3}, BiasBackward{.outer = 5, .c = 7, .inner = 3}), 7);
  EXPECT_EQ(check_gradient(Bias{.outer = 5, .c = 7, .inner = 3, .act = Act::relu},
                           BiasBackward{.outer = 5, .c = 7, .inner = 3, .act = Act::relu}),
            7 + 105);
}

TEST(Gradients, Sigmoid) { EXPECT_EQ(check_gradient(Sigmoid{.n = 257}, SigmoidBackward{.n = 257}), 257); }

TEST(Gradients, Tanh) { EXPECT_EQ(check_gradient(Tanh{.n = 257}, TanhBackward{.n = 257}), 257); }

TEST(Gradients, Gelu) {
  for (GeluForm form : {GeluForm::tanh, GeluForm::erf})
    EXPECT_EQ(check_gradient(Gelu{.n = 257, .form = form}, GeluBackward{.n = 257, .form = form}), 257);
}

TEST(Gradients, SwiGlu) { EXPECT_EQ(check_gradient(SwiGlu{.n = 257}, SwiGluBackward{.n = 257}), 2 * 257); }

TEST(Gradients, Rope) {
  EXPECT_EQ(check_gradient(Rope{.B = 2, .T = 5, .H = 3, .D = 6}, RopeBackward{.B = 2, .T = 5, .H = 3, .D = 6}), 180);
}

TEST(Gradients, LinearGelu) {
  EXPECT_EQ(check_gradient(Linear{.n = 3, .in = 17, .out = 5, .act = Act::gelu},
                           LinearBackward{.n = 3, .in = 17, .out = 5, .act = Act::gelu}),
            3 * 17 + 5 * 17 + 5);
}

TEST(Gradients, BceLogits) { EXPECT_EQ(check_gradient(BceLogits{.n = 33}, BceLogitsBackward{.n = 33}), 33); }

TEST(Gradients, Mse) { EXPECT_EQ(check_gradient(Mse{.n = 33}, MseBackward{.n = 33}), 33); }

}  // namespace
}  // namespace duet
