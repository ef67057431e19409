// SPDX-License-Identifier: Apache-2.0
// The gradients of relu, dropout, softmax, cross_entropy and of linear layers against finite differences; see
// gradient.h.
#include "ops/elementwise/dropout.h"
#include "ops/elementwise/gelu_formula.h"
#include "ops/elementwise/relu.h"
#include "ops/gemm/gelu_linear.h"
#include "ops/gemm/linear.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/cross_entropy_fused.h"
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

TEST(Gradients, CrossEntropyFused) {
  for (const double smooth : {0.0, 0.1})
    for (const bool scaled : {false, true})
      EXPECT_EQ(check_gradient(CrossEntropy{.rows = 5, .cols = 33, .smooth = smooth},
                               CrossEntropyFused{.rows = 5, .cols = 33, .smooth = smooth, .scaled = scaled}),
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

// What gelu_linear_backward_data is the gradient of, without the bias of this layer: y = gelu(h + bias) w', at bias 0.
struct GeluLinear {
  static constexpr const char* name = "test_gelu_linear";
  static constexpr const char* formula = "y[i,o] = sum_p gelu(h[i,p] + bias[p]) * w[o,p]";
  static constexpr Slot h = input(0, "h"), bias = input(1, "bias"), w = input(2, "w"), y = output(3, "y");
  int64_t n = 0, in = 0, out = 0;
  DType dtype = DType::f32;
  void attributes(auto&& field) {
    field("dtype", dtype, "element type of all tensors");
    field("n", n, "samples");
    field("in", in, "features of a sample");
    field("out", out, "outputs of a sample");
  }
  void infer(Shapes s) {
    n = s[h][0];
    in = s[h][1];
    out = s[w][0];
  }
  std::vector<TensorSpec> tensors() const {
    return {h.of(dtype, {n, in}, kActivationFill), bias.of(dtype, {in}, Fill::uniform(0, 0)), w.of(dtype, {out, in}),
            y.of(dtype, {n, out})};
  }
  double flops() const { return 2.0 * n * in * out; }
  Tolerance tolerance() const { return {}; }
  int64_t slices() const { return n; }
  void reference(Inputs given, int64_t i, Expect& expect) const {
    for (int64_t o = 0; o < out; ++o) {
      double sum = 0;
      for (int64_t p = 0; p < in; ++p)
        sum += gelu::tanh_form(given[h][i * in + p] + given[bias][p]).value * given[w][o * in + p];
      expect(y, i * out + o, sum, 0);
    }
  }
  static Cases cases(Scale) { return {{"of the test", "n:3 in:17 out:5"}}; }
};
DUET_PROBLEM(GeluLinear);

TEST(Gradients, GeluLinear) {
  EXPECT_EQ(check_gradient(GeluLinear{.n = 3, .in = 17, .out = 5}, GeluLinearBackwardData{.n = 3, .in = 17, .out = 5}),
            3 * 17 + 17);
}

}  // namespace
}  // namespace duet
