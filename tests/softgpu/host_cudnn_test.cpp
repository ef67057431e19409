// SPDX-License-Identifier: Apache-2.0
// cuDNN's search for a convolution's algorithm, by what it asks of the stand-in.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "core/fill.h"
#include "core/gpu.h"
#include "core/registry.h"
#include "core/session.h"
#include "softgpu/device.h"
#include "softgpu/libraries/cudnn.h"

namespace duet {
namespace {

int64_t searches_of(Context& gpu, const std::string& op, const std::string& text) {
  const Problem problem = parse_case(op, text);
  const int64_t before = softgpu::convolution_searches();
  const Session session(problem, *find_implementation(op, "cuda.cudnn"), gpu,
                        draw_inputs(problem, FillMode::integers, 1));
  EXPECT_TRUE(session.supported());
  return softgpu::convolution_searches() - before;
}

// A model has many layers of one shape and is planned twice, op by op and as a graph.
TEST(ConvolutionSearch, IsMadeOnceForAShapeAndDirection) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  ASSERT_TRUE(gpu) << reason;
  const std::string shape = "n:1 c:2 h:5 w:5 k:3 r:3 s:3";
  for (const std::string op : {"conv2d", "conv2d_backward_data", "conv2d_backward_filter"}) {
    EXPECT_EQ(searches_of(*gpu, op, "f32 " + shape), 1) << op;
    EXPECT_EQ(searches_of(*gpu, op, "f32 " + shape), 0) << op;
    EXPECT_EQ(searches_of(*gpu, op, "f32 math:tf32 " + shape), 1) << op;
    EXPECT_EQ(searches_of(*gpu, op, "f32 " + shape + " pad_h:1"), 1) << op;
  }
}

// The limit of 256 MiB, allocated and filled for each search, took longer than the search.
TEST(ConvolutionSearch, HasNoLargerWorkspaceThanAnAlgorithmNeeds) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  ASSERT_TRUE(gpu) << reason;
  softgpu::Device::get().memory.reset_max_used();
  EXPECT_EQ(searches_of(*gpu, "conv2d", "f32 n:1 c:2 h:6 w:5 k:3 r:3 s:3"), 1);
  EXPECT_GT(softgpu::Device::get().memory.max_used(), 0u);
  EXPECT_LT(softgpu::Device::get().memory.max_used(), uint64_t{16} << 20);
}

}  // namespace
}  // namespace duet
