// SPDX-License-Identifier: Apache-2.0
// Gradients of channels-last images whose channels fill several vectors, with windows and taps that overlap. The cases
// of the contracts with as many channels have windows side by side, or images without channels last.
#include <gtest/gtest.h>

#include <string>

#include "core/compare.h"
#include "core/cpu_context.h"
#include "core/session.h"

namespace duet {
namespace {

struct Wide {
  const char *op, *shape;
};
void PrintTo(const Wide& w, std::ostream* to) { *to << w.op; }

class WideChannels : public testing::TestWithParam<Wide> {};

TEST_P(WideChannels, EqualTheReference) {
  CpuContext cpu(1);
  for (const char* dtype : {"f32", "bf16"})
    for (const char* channels : {"16", "77", "131"}) {
      const Problem problem = parse_case(
          GetParam().op, std::string("dtype:") + dtype + " layout:nhwc c:" + channels + " " + GetParam().shape);
      for (const FillMode mode : {FillMode::values, FillMode::integers}) {
        const HostTensors inputs = draw_inputs(problem, mode, 5);
        Session session(problem, *find_implementation(GetParam().op, "cpu.tuned"), cpu, inputs);
        ASSERT_TRUE(session.supported()) << session.plan().reason();
        cpu.enter([&] { session.run(); });
        const bool exact = mode == FillMode::integers && std::string(GetParam().op) != "avg_pool2d_backward";
        EXPECT_EQ(session.check(Expected::all(problem, inputs), exact).failure, "") << problem.label();
      }
    }
}
INSTANTIATE_TEST_SUITE_P(All, WideChannels,
                         testing::Values(Wide{"conv2d_backward_data", "n:4 h:7 w:6 k:8 r:3 s:3"},
                                         Wide{"conv2d_backward_filter", "n:2 h:7 w:6 k:8 r:3 s:3 pad_w:1"},
                                         Wide{"max_pool2d_backward", "n:2 h:9 w:7 r:3 s:3 pad_h:1 stride_h:2"},
                                         Wide{"avg_pool2d_backward", "n:2 h:9 w:7 r:3 s:3 pad_w:1 stride_w:2"}));

}  // namespace
}  // namespace duet
