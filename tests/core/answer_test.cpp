// SPDX-License-Identifier: Apache-2.0
// The comparison of whole outputs: with the reference's answer, and of products by projections. Any single wrong
// element has to be found, wherever it is.
#include "core/answer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/philox.h"
#include "core/projection.h"
#include "core/session.h"

namespace duet {
namespace {

constexpr uint64_t kSeed = 5;

struct Case {
  explicit Case(const char* op, const char* text)
      : problem(parse_case(op, text)),
        inputs(draw_inputs(problem, FillMode::values, kSeed)),
        outputs(run_reference(problem, inputs)) {
    for (size_t s = 0; s < outputs.size(); ++s)
      if (outputs.specs()[s].role != Role::in) slots.push_back(s);
  }
  double get(size_t slot, int64_t i) const {
    return load_as_double(outputs.data(slot), outputs.specs()[slot].dtype, i);
  }
  void set(size_t slot, int64_t i, double value) {
    store_double(outputs.data(slot), outputs.specs()[slot].dtype, i, value);
  }
  Problem problem;
  HostTensors inputs, outputs;
  std::vector<size_t> slots;
};

// Elements of each output, one after the other, are made wrong by `share` of a typical value, and NaN.
template <class Compare>
void expect_each_error_is_seen(Case& c, double share, const Compare& compare) {
  for (const size_t slot : c.slots) {
    const int64_t n = c.outputs.specs()[slot].elements();
    double squares = 0;
    for (int64_t i = 0; i < n; ++i) squares += c.get(slot, i) * c.get(slot, i);
    const double typical = std::sqrt(squares / static_cast<double>(n));
    for (uint64_t k = 0; k < 12; ++k) {
      const int64_t i = k == 0   ? 0
                        : k == 1 ? n - 1
                                 : static_cast<int64_t>(philox_bits(k, kSeed) % static_cast<uint64_t>(n));
      const double before = c.get(slot, i);
      c.set(slot, i, before + share * typical);
      const Check check = compare(c.outputs);
      EXPECT_FALSE(check.passed()) << c.problem.name() << " " << c.problem.label() << ": "
                                   << c.outputs.specs()[slot].name << "[" << i << "]";
      c.set(slot, i, NAN);
      EXPECT_FALSE(compare(c.outputs).passed()) << "NaN";
      c.set(slot, i, before);
    }
  }
}

TEST(Answer, OfTheReferenceSeesEachError) {
  Case c("softmax", "rows:50 cols:70");
  const Answer answer = Answer::by_reference(c.problem, c.inputs);
  const auto compare = [&](const HostTensors& got) { return answer.compare(c.problem, got); };
  EXPECT_TRUE(compare(c.outputs).passed());
  EXPECT_EQ(compare(c.outputs).elements, 3500);
  expect_each_error_is_seen(c, 0.01, compare);
}

TEST(Answer, OfAnotherImplementationAddsItsBound) {
  Case c("gemm", "m:20 n:30 k:40");
  const std::vector<double> largest{0, 0, 20.0};
  const Answer answer = Answer::by_outputs(c.problem, run_reference(c.problem, c.inputs), largest);
  const double before = c.get(2, 77);
  const double bound = bound_of(c.problem.tolerance(2), {2, 77, before, largest[2]});
  EXPECT_TRUE(answer.compare(c.problem, c.outputs).passed());
  c.set(2, 77, before + 1.9 * bound);
  EXPECT_TRUE(answer.compare(c.problem, c.outputs).passed());
  c.set(2, 77, before + 2.2 * bound);
  EXPECT_NE(answer.compare(c.problem, c.outputs).failure.find("c[77]"), std::string::npos);
}

TEST(Projection, SeesEachErrorOfAProduct) {
  const std::pair<const char*, const char*> products[] = {
      {"gemm", "m:37 n:101 k:64"},
      {"gemm", "batch:3 m:20 n:33 k:50 trans_a:1 trans_b:1"},
      {"gemm", "m:9 n:1 k:50"},
      {"gemv", "m:67 n:40"},
      {"gemm_2_4", "m:33 n:101 k:64"},  // codes of 8 bits stay as they are
      {"spmm", "m:33 k:64 n:101 nnz:700"},
      {"linear", "n:30 in:40 out:67"},
      {"linear_backward", "n:30 in:67 out:40"},
      {"linear_backward", "n:30 in:67 out:40 act:relu"},
      {"conv2d", "n:2 c:6 h:9 w:8 k:20 r:3 s:3 pad_h:1 pad_w:1 stride_h:2"},
      {"conv2d", "n:2 c:6 h:9 w:8 k:18 r:3 s:3 groups:3 layout:nhwc"},
      {"conv2d_backward_data", "n:2 c:20 h:9 w:8 k:6 r:3 s:3 pad_h:1 pad_w:1 stride_h:2"},
      {"conv2d_backward_data", "n:2 c:18 h:9 w:8 k:6 r:3 s:3 groups:3 layout:nhwc"},
      {"conv2d_backward_filter", "n:2 c:20 h:9 w:8 k:6 r:3 s:3 pad_h:1 pad_w:1"},
      {"conv2d_backward_filter", "n:2 c:18 h:9 w:8 k:6 r:3 s:3 groups:3 layout:nhwc"},
  };
  for (const auto& [op, text] : products) {
    Case c(op, text);
    ASSERT_TRUE(Projection::applies(c.problem)) << op;
    const Projection projection(c.problem, c.inputs, kSeed);
    const auto compare = [&](const HostTensors& got) { return projection.compare(c.problem, got); };
    EXPECT_TRUE(compare(c.outputs).passed()) << op << " " << text << ": " << compare(c.outputs).failure;
    expect_each_error_is_seen(c, 0.01, compare);
  }
}

// The roundings of a sum's terms, all of one sign and as large as the bound allows, are no error.
TEST(Projection, AcceptsWhatTheBoundAccepts) {
  Case c("gemm", "m:37 n:101 k:64");
  const Projection projection(c.problem, c.inputs, kSeed);
  const Answer answer = Answer::by_reference(c.problem, c.inputs);
  for (int64_t i = 0; i < 37 * 101; ++i) {
    const Claim claim = answer.claim(2, i);
    c.set(2, i, claim.want + 0.9 * bound_of(c.problem.tolerance(2), claim));
  }
  EXPECT_TRUE(projection.compare(c.problem, c.outputs).passed()) << projection.compare(c.problem, c.outputs).failure;
}

TEST(Projection, IsForLinearOutputsOnly) {
  EXPECT_FALSE(Projection::applies(parse_case("linear", "n:30 in:40 out:67 act:relu")));
  EXPECT_FALSE(Projection::applies(parse_case("softmax", "rows:5 cols:7")));
}

}  // namespace
}  // namespace duet
