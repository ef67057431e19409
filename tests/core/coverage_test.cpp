// SPDX-License-Identifier: Apache-2.0
// Each way in which every element of an output is compared: which one is chosen, and that it sees single
// wrong elements.
#include "core/coverage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/philox.h"
#include "core/session.h"

namespace duet {
namespace {

struct Way {
  const char *op, *words;
  double budget_s, max_s;  // the reference is said to take 1 s
  const char *implementation, *coverage;
  double error;  // of a typical value; it has to be seen
};

void PrintTo(const Way& way, std::ostream* to) { *to << way.op << " " << way.words; }

class Coverages : public testing::TestWithParam<Way> {};

TEST_P(Coverages, SeeSingleErrors) {
  const Way& way = GetParam();
  const Problem problem = parse_case(way.op, way.words);
  const HostTensors inputs = draw_inputs(problem, FillMode::values, 3);
  const Expected expected = Expected::sampled(problem, inputs, 3, 1e4);
  const double share = static_cast<double>(expected.slices()) / static_cast<double>(problem.slices());
  Coverage coverage(problem, inputs, expected, share, way.budget_s, way.max_s, 3);
  HostTensors got = run_reference(problem, inputs);
  const Check honest = coverage.compare(way.implementation, got);
  EXPECT_TRUE(honest.passed()) << honest.failure;
  EXPECT_EQ(honest.coverage, way.coverage);
  EXPECT_EQ(honest.sampled_reason.empty(), honest.coverage != "sampled") << honest.sampled_reason;
  if (honest.coverage == "sampled") return;

  for (size_t s = 0; s < got.size(); ++s) {
    const TensorSpec& spec = got.specs()[s];
    if (spec.role == Role::in) continue;
    double squares = 0;
    for (int64_t i = 0; i < spec.elements(); ++i) squares += std::pow(load_as_double(got.data(s), spec.dtype, i), 2);
    const double typical = std::sqrt(squares / static_cast<double>(spec.elements()));
    for (uint64_t k = 0; k < 20; ++k) {
      const auto i = static_cast<int64_t>(philox_bits(k, 7) % static_cast<uint64_t>(spec.elements()));
      const double before = load_as_double(got.data(s), spec.dtype, i);
      store_double(got.data(s), spec.dtype, i, before + (is_float(spec.dtype) ? way.error * typical : 1));
      EXPECT_FALSE(coverage.compare(way.implementation, got).passed()) << spec.name << "[" << i << "]";
      store_double(got.data(s), spec.dtype, i, before);
    }
  }
}

// swiglu has no second implementation on the CPU, and add_layernorm none that is independent of cpu.tuned. Beside
// axpy's cpu.onednn stands cpu.openblas, with oneDNN and without. Whole numbers are off by 1.
INSTANTIATE_TEST_SUITE_P(
    All, Coverages,
    testing::Values(Way{"swiglu", "n:5000", 2, 2, "cpu.tuned", "reference", 0.01},
                    Way{"swiglu", "n:5000", 0, 2, "cpu.tuned", "reference", 0.01},
                    Way{"swiglu", "n:5000", 0, 0, "cpu.tuned", "sampled", 0},
                    Way{"add_layernorm", "rows:30 cols:40", 0, 0, "cpu.tuned", "sampled", 0},
                    Way{"add_layernorm", "rows:30 cols:40", 0, 0, "cpu.unfused", "sampled", 0},
                    Way{"add_layernorm", "rows:30 cols:40", 0, 0, "cuda.unfused", "cpu.tuned", 0.01},
                    Way{"gemm", "m:60 n:70 k:80", 0, 2, "cpu.tuned", "projections", 0.01},
                    Way{"gemm", "m:60 n:70 k:80 dtype:bf16", 0, 2, "cpu.tuned", "projections", 0.1},
                    Way{"gemm", "m:60 n:70 k:80 dtype:f8e4m3", 0, 2, "cpu.tuned", "projections", 0.1},
                    Way{"conv2d", "n:1 c:8 h:9 w:9 k:20 r:3 s:3 dtype:f16", 0, 2, "cuda.cudnn", "projections", 0.05},
                    Way{"gemm", "m:60 n:70 k:80 dtype:i8", 0, 2, "cpu.tuned", "projections", 0},
                    Way{"gemm_acc", "m:60 n:70 k:80", 0, 2, "cpu.tuned", "projections", 0.01},
                    Way{"gemm_acc", "m:60 n:70 k:80 dtype:bf16", 0, 2, "cpu.tuned", "projections", 0.1},
                    Way{"axpy", "n:5000", 0, 2, "cpu.onednn", "cpu.openblas", 0.01},
                    Way{"attention", "B:1 H:2 Tq:40 Tk:40 D:32", 0, 0, "cpu.tuned", "cpu.materialised", 0.05},
                    Way{"attention", "B:1 H:2 Tq:40 Tk:40 D:32", 0, 0, "cpu.materialised", "cpu.tuned", 0.05}));

// cpu.tuned runs cpu.im2col for some shapes of this op, so that neither is the second implementation of the other.
TEST(Coverage, DoesNotCompareAConvolutionsGradientWithItself) {
  const Problem problem = parse_case("conv2d_backward_data", "n:1 c:8 h:9 w:9 k:20 r:5 s:5 dtype:f16");
  const HostTensors inputs = draw_inputs(problem, FillMode::values, 3);
  const Expected expected = Expected::sampled(problem, inputs, 3, 1e4);
  const HostTensors got = run_reference(problem, inputs);
  for (const char* implementation : {"cpu.tuned", "cpu.im2col"}) {
    Coverage coverage(problem, inputs, expected, 1, 0, 0, 3);
    const Check check = coverage.compare(implementation, got);
    EXPECT_TRUE(check.passed()) << check.failure;
    EXPECT_TRUE(check.coverage == "sampled" || check.coverage == "cpu.onednn") << check.coverage;
  }
}

// 64 rows of one element say little about what each of many costs: the reference is timed before it is called too slow.
TEST(Coverage, TimesAReferenceOfManyCheapSlices) {
  const Problem problem = parse_case("gather", "rows:1000 cols:1 n:300000");
  const HostTensors inputs = draw_inputs(problem, FillMode::values, 3);
  const Expected expected = Expected::sampled(problem, inputs, 3, 1e4);
  const double share = static_cast<double>(expected.slices()) / static_cast<double>(problem.slices());
  Coverage coverage(problem, inputs, expected, 10 * share, 0, 2, 3);
  const Check check = coverage.compare("cpu.tuned", run_reference(problem, inputs));
  EXPECT_EQ(check.coverage, "reference") << check.sampled_reason;
}

TEST(Coverage, TakesAReferenceThatIsThereAlready) {
  const Problem problem = parse_case("swiglu", "n:5000");
  const HostTensors inputs = draw_inputs(problem, FillMode::values, 3);
  const Expected expected = Expected::sampled(problem, inputs, 3);
  ASSERT_EQ(expected.slices(), problem.slices());
  Coverage coverage(problem, inputs, expected, 1, 0, 0, 3);
  HostTensors got = run_reference(problem, inputs);
  EXPECT_EQ(coverage.compare("cpu.tuned", got).coverage, "reference");
  store_double(got.data(2), DType::f32, 4321, 9);
  EXPECT_FALSE(coverage.compare("cpu.tuned", got).passed());
}

// Few rows of a large table are read: those that are sampled include one of them.
TEST(SampledSlices, OfAnEmbeddingsGradientSeeTheRowOfAToken) {
  const Problem problem = parse_case("embedding_backward", "B:1 T:2 V:100000 C:4 position:0");
  const Expected expected = Expected::sampled(problem, draw_inputs(problem, FillMode::values, 3), 3, 1);
  const std::vector<Claim>& claims = expected.claims();
  EXPECT_TRUE(std::any_of(claims.begin(), claims.end(), [](const Claim& c) { return c.want != 0; }));
  EXPECT_EQ(std::max_element(claims.begin(), claims.end(), [](auto a, auto b) { return a.index < b.index; })->index,
            4 * 100000 - 1);
}

// A case with several implementations on the CPU, and its answer.
class CoverageOfTwo : public testing::Test {
 protected:
  void spoil(double by = 1) { static_cast<float*>(got_.data(3))[777] += static_cast<float>(by); }
  const Problem problem_ = parse_case("linear", "n:30 in:40 out:50 act:gelu");
  const HostTensors inputs_ = draw_inputs(problem_, FillMode::values, 3);
  const Expected expected_ = Expected::sampled(problem_, inputs_, 3, 1e4);  // of few slices
  HostTensors got_ = run_reference(problem_, inputs_);
};

// Of two implementations that differ, the reference says which one is wrong.
TEST_F(CoverageOfTwo, TheReferenceDecides) {
  Coverage coverage(problem_, inputs_, expected_, 1, 0, 0, 3);
  spoil();
  const Check check = coverage.compare("cpu.tuned", got_);
  EXPECT_FALSE(check.passed());
  EXPECT_EQ(check.coverage, "reference");
}

// Separate ops share the code of cpu.tuned: a library is the second implementation of either.
TEST_F(CoverageOfTwo, AreNotTunedAndUnfused) {
  Coverage coverage(problem_, inputs_, expected_, 1, 0, 0, 3);
  for (const char* implementation : {"cpu.tuned", "cpu.unfused"}) {
    const Check check = coverage.compare(implementation, got_);
    EXPECT_TRUE(check.passed()) << check.failure;
    EXPECT_TRUE(check.coverage == "cpu.onednn" || check.coverage == "cpu.openblas") << check.coverage;
  }
}

// Where the reference would take too long, neither is known to be wrong: that is a failure of drawn inputs, whose
// bounds are known, and otherwise a reason for sampled slices, unless they are many bounds apart.
TEST_F(CoverageOfTwo, MayStayUndecided) {
  using Undecided = Coverage::Undecided;
  const auto compared = [&](Undecided undecided) {
    Coverage coverage(problem_, inputs_, expected_, 1, 0, 0, 3, 0, undecided);
    return coverage.compare("cpu.tuned", got_);
  };
  spoil();
  const Check far = compared(Undecided::is_sampled);
  EXPECT_FALSE(far.passed());
  EXPECT_GT(far.max_error_ratio, 8);
  spoil(4 / far.max_error_ratio - 1);  // 4 bounds
  for (const Undecided undecided : {Undecided::fails, Undecided::is_sampled}) {
    const Check check = compared(undecided);
    const bool fails = undecided == Undecided::fails;
    EXPECT_EQ(check.passed(), !fails);
    EXPECT_NE((fails ? check.failure : check.sampled_reason).find("[777]"), std::string::npos)
        << check.failure << check.sampled_reason;
    EXPECT_EQ(check.coverage == "sampled", !fails);
  }
}

// Two ways of calling one library may be wrong alike, so that one is no witness for the other.
TEST_F(CoverageOfTwo, AreNotOfTheSameLibrary) {
  if (!find_implementation("linear", "cpu.onednn_packed")) GTEST_SKIP() << "without oneDNN";
  Coverage coverage(problem_, inputs_, expected_, 1, 0, 0, 3);
  for (const char* implementation : {"cpu.onednn", "cpu.onednn_packed"}) {
    const Check check = coverage.compare(implementation, got_);
    EXPECT_TRUE(check.passed()) << check.failure;
    EXPECT_TRUE(check.coverage == "cpu.tuned" || check.coverage == "cpu.openblas") << check.coverage;
  }
}

}  // namespace
}  // namespace duet
