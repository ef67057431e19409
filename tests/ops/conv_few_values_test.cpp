// SPDX-License-Identifier: Apache-2.0
// Convolutions of tensors that are mostly 0, as behind relu: a result of few terms that have a value is computed by
// Winograd's transforms with rounding errors of its neighbours, which is right.
#include <gtest/gtest.h>

#include <string>

#include "core/compare.h"
#include "core/cpu_context.h"
#include "core/philox.h"
#include "core/session.h"

namespace duet {
namespace {

// All but one of `of` elements of a tensor become 0.
void thin(HostTensors& inputs, size_t slot, uint64_t of) {
  auto* values = static_cast<float*>(inputs.data(slot));
  for (int64_t i = 0; i < inputs.specs()[slot].elements(); ++i)
    if (philox_bits(static_cast<uint64_t>(i), slot) % of != 0) values[i] = 0;
}

struct Sparse {
  const char* op;
  size_t slot;  // of the tensor that is mostly 0
  const char* shape;
};
void PrintTo(const Sparse& s, std::ostream* to) { *to << s.op; }

class ConvFewValues : public testing::TestWithParam<Sparse> {};

TEST_P(ConvFewValues, HaveErrorsOfTheirNeighbours) {
  const Sparse& s = GetParam();
  const Problem problem = parse_case(s.op, s.shape);
  CpuContext cpu(2);
  int zeros = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    HostTensors inputs = draw_inputs(problem, FillMode::values, seed);
    thin(inputs, s.slot, 40);
    const Expected expected = Expected::all(problem, inputs);
    for (const Claim& c : expected.claims()) zeros += c.want == 0;
    for (const char* name : {"cpu.winograd", "cpu.tuned"}) {
      Session session(problem, *find_implementation(s.op, name), cpu, inputs);
      ASSERT_TRUE(session.supported()) << session.plan().reason();
      cpu.enter([&] { session.run(); });
      EXPECT_EQ(session.check(expected, false).failure, "") << name;
    }
  }
  EXPECT_GT(zeros, 100);
}
INSTANTIATE_TEST_SUITE_P(
    All, ConvFewValues,
    testing::Values(Sparse{"conv2d", 0, "n:1 c:2 h:13 w:13 k:3 r:3 s:3 pad_h:1 pad_w:1"},
                    Sparse{"conv2d_bias", 0, "n:1 c:2 h:13 w:13 k:3 r:3 s:3 pad_h:1 pad_w:1 act:relu"},
                    Sparse{"conv2d_backward_data", 1, "n:1 c:3 h:13 w:13 k:2 r:3 s:3 pad_h:1 pad_w:1"},
                    Sparse{"conv2d_backward_filter", 0, "n:1 c:40 h:9 w:9 k:8 r:3 s:3"}));

}  // namespace
}  // namespace duet
