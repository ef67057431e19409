// SPDX-License-Identifier: Apache-2.0
// The gradients of biases and activations, and of losses that are means, against finite differences; see gradient.h.
#include "tests/cpu_ref/gradient.h"

#include <utility>

#include "ops/elementwise/bias.h"
#include "ops/elementwise/fake_quantise.h"
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

// The forward pass is a staircase: over whole steps, its slope is 1 between the smallest and the largest level and 0
// outside, which is what the straight-through estimator passes back. Elements within those steps of an end are left
// out.
TEST(Gradients, FakeQuantise) {
  constexpr int64_t kSteps = 3;
  const FakeQuantise p{.outer = 5, .c = 7, .inner = 9, .lo = -100, .hi = 50, .dtype = DType::f64};
  const FakeQuantiseBackward b{.outer = 5, .c = 7, .inner = 9, .lo = -100, .hi = 50, .dtype = DType::f64};
  HostTensors in = draw_inputs(Problem::of(p), FillMode::values, 1);
  HostTensors given = draw_inputs(Problem::of(b), FillMode::values, 2);
  for (const Slot s : {p.x, p.scale, p.zero}) gradient::copy(given, static_cast<size_t>(s.index), in, s.index);
  HostTensors got = run_reference(Problem::of(b), given);
  const double* scale = gradient::doubles(in, p.scale.index);
  const auto* zero = static_cast<const int32_t*>(in.data(static_cast<size_t>(p.zero.index)));
  const auto y = [&](int64_t i, double x) {
    double& at = gradient::doubles(in, p.x.index)[i];
    const double before = std::exchange(at, x);
    HostTensors out = run_reference(Problem::of(p), in);
    at = before;
    return gradient::doubles(out, p.y.index)[i];
  };
  int inside = 0, outside = 0;
  for (int64_t i = 0; i < p.elements(); ++i) {
    const int64_t channel = i / p.inner % p.c;
    const double x = gradient::doubles(in, p.x.index)[i], step = scale[channel] * kSteps;
    const double level = x / scale[channel] + zero[channel];
    if (std::abs(level - p.lo) < kSteps + 1 || std::abs(level - p.hi) < kSteps + 1) continue;
    ++(level > p.lo && level < p.hi ? inside : outside);
    const double slope = (y(i, x + step) - y(i, x - step)) / (2 * step);
    const double dy = gradient::doubles(given, b.dy.index)[i];
    EXPECT_NEAR(gradient::doubles(got, b.dx.index)[i], slope * dy, 1e-9) << "element " << i;
  }
  EXPECT_GT(inside, 100);
  EXPECT_GT(outside, 50);
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
