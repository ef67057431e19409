// SPDX-License-Identifier: Apache-2.0
// The comparer's must-fail set: each planted fault has to be found, and the honest answer has to pass.
#include "core/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "core/session.h"

namespace duet {
namespace {

// y = x1 + x2 over `n` elements; a problem of the test's own, so that the comparer is tested without any op.
struct TestSum {
  static constexpr const char* name = "test_sum";
  static constexpr const char* formula = "y[i] = a[i] + b[i]";
  static constexpr Slot a = input(0, "a"), b = input(1, "b"), y = output(2, "y"), count = output(3, "count");
  int64_t n = 64;
  DType dtype = DType::f32;
  void attributes(auto&& field) {
    field("dtype", dtype, "element type");
    field("n", n, "elements");
  }
  void infer(Shapes s) { n = s[a][0]; }
  std::vector<TensorSpec> tensors() const {
    return {a.of(dtype, {n}), b.of(dtype, {n}), y.of(dtype, {n}), count.of(DType::i32, {1})};
  }
  double flops() const { return static_cast<double>(n); }
  Tolerance tolerance() const { return {.abs_sum = unit_roundoff(dtype)}; }
  int64_t slices() const { return n + 1; }
  void reference(Inputs in, int64_t i, Expect& expect) const {
    if (i == n) return expect(count, 0, static_cast<double>(n));
    expect(y, i, in[a][i] + in[b][i], std::abs(in[a][i]) + std::abs(in[b][i]));
  }
  static Cases cases(Scale) { return {{"the comparer", "n:64"}}; }
};
DUET_PROBLEM(TestSum);

struct Fixture {
  Problem problem = Problem::of(TestSum{});
  HostTensors inputs = draw_inputs(problem, FillMode::values, 3);
  Expected expected = Expected::all(problem, inputs);
  HostTensors answer = run_reference(problem, inputs);
  float* y() { return static_cast<float*>(answer.data(2)); }
  Check check(bool bitwise = false) { return compare(problem, expected, answer, bitwise); }
};

TEST(Compare, AcceptsTheReferenceItself) {
  Fixture f;
  EXPECT_TRUE(f.check().passed()) << f.check().failure;
  EXPECT_TRUE(f.check(true).passed());
  EXPECT_EQ(f.check().elements, 65);
}

TEST(Compare, AcceptsOneRoundingAndNoMore) {
  Fixture f;
  f.y()[5] = std::nextafter(f.y()[5], 10.0f);
  EXPECT_TRUE(f.check().passed());
  EXPECT_FALSE(f.check(true).passed()) << "bit for bit means every bit";
  f.y()[5] = f.y()[5] * (1 + 1e-5f);
  EXPECT_FALSE(f.check().passed());
}

struct Fault {
  const char* name;
  std::function<void(float*, int64_t)> plant;
};
class MustFail : public testing::TestWithParam<Fault> {};
TEST_P(MustFail, IsFound) {
  Fixture f;
  GetParam().plant(f.y(), 64);
  const Check check = f.check();
  EXPECT_FALSE(check.passed());
  EXPECT_FALSE(f.check(true).passed());
  EXPECT_NE(check.failure.find("y["), std::string::npos) << check.failure;
}
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
INSTANTIATE_TEST_SUITE_P(Compare, MustFail,
                         testing::Values(Fault{"nan", [](float* y, int64_t) { y[7] = kNaN; }},
                                         Fault{"all_nan", [](float* y, int64_t n) { std::fill(y, y + n, kNaN); }},
                                         Fault{"infinity", [](float* y, int64_t) { y[0] = kInf; }},
                                         Fault{"minus_infinity", [](float* y, int64_t) { y[63] = -kInf; }},
                                         Fault{"sign_flip", [](float* y, int64_t) { y[31] = -y[31]; }},
                                         Fault{"wrong_last", [](float* y, int64_t n) { y[n - 1] += 0.01f; }},
                                         Fault{"unwritten", [](float* y, int64_t) { std::memset(y + 9, 0xFF, 4); }},
                                         Fault{"zeros", [](float* y, int64_t n) { std::fill(y, y + n, 0.0f); }},
                                         Fault{"stale", [](float* y, int64_t n) { std::rotate(y, y + n / 2, y + n); }},
                                         Fault{"shuffled", [](float* y, int64_t) { std::swap(y[3], y[4]); }},
                                         Fault{"shifted_by_one",
                                               [](float* y, int64_t n) { std::rotate(y, y + 1, y + n); }}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Compare, IntegerOutputsAreExact) {
  Fixture f;
  static_cast<int32_t*>(f.answer.data(3))[0] = 65;
  EXPECT_FALSE(f.check().passed());
}

TEST(Compare, AnUnwrittenElementIsFoundWhereNoSliceWasSampled) {
  const Problem big = Problem::of(TestSum{.n = 100000});
  const HostTensors inputs = draw_inputs(big, FillMode::values, 3);
  const Expected some = Expected::sampled(big, inputs, 1);
  ASSERT_LT(some.slices(), 1000);
  HostTensors answer = run_reference(big, inputs);
  EXPECT_TRUE(compare(big, some, answer, false).passed());
  int64_t hidden = 12345;
  const auto claimed = [&] {
    return std::any_of(some.claims().begin(), some.claims().end(),
                       [&](const Claim& c) { return c.slot == 2 && c.index == hidden; });
  };
  while (claimed()) ++hidden;
  std::memset(static_cast<float*>(answer.data(2)) + hidden, 0xFF, 4);
  EXPECT_NE(compare(big, some, answer, false).failure.find("never written"), std::string::npos);
}

TEST(Compare, ExpectedNaNAndInfinityMustBeMet) {
  Fixture f;
  static_cast<float*>(f.inputs.data(0))[2] = kInf;
  static_cast<float*>(f.inputs.data(0))[3] = kNaN;
  f.expected = Expected::all(f.problem, f.inputs);
  EXPECT_FALSE(f.check().passed());
  f.y()[2] = kInf;
  f.y()[3] = kNaN;
  EXPECT_TRUE(f.check().passed()) << f.check().failure;
  f.y()[2] = -kInf;
  EXPECT_FALSE(f.check().passed());
}

TEST(Compare, TheReferenceMustClaimEverythingOnce) {
  struct Collect final : Expect {
    void claim(int, int64_t, double, double) override {}
  };
  struct Broken : TestSum {
    int64_t slices() const { return n - 1; }  // leaves out the last element and the count
  };
  const Problem broken = Problem::of(Broken{});
  const HostTensors inputs = draw_inputs(Problem::of(TestSum{}), FillMode::values, 1);
  EXPECT_THROW(Expected::all(broken, inputs), std::exception);
}

}  // namespace
}  // namespace duet
