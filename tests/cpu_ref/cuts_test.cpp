// SPDX-License-Identifier: Apache-2.0
// Work that cpu.tuned and cpu.winograd cut in ways that no case of a contract reaches, as it would take the kernels on
// the host too long: products of the matrix engine, convolutions among them, long rows, tall matrices, and rows of
// pooling.
#include <gtest/gtest.h>

#include "core/cpu_context.h"
#include "core/session.h"

namespace duet {
namespace {

class Cuts : public testing::TestWithParam<const char*> {
 protected:
  // By one thread and by two. Returns the checksums of the outputs, of one thread first.
  std::vector<uint64_t> check(std::string_view implementation) {
    const std::string_view text = GetParam(), op = text.substr(0, text.find(' '));
    const Problem problem = parse_case(op, text.substr(op.size() + 1));
    const HostTensors inputs = draw_inputs(problem, FillMode::values, 1);
    std::vector<uint64_t> checksums;
    for (const int threads : {1, 2}) {
      CpuContext cpu(threads);
      Session session(problem, *find_implementation(op, implementation), cpu, inputs);
      EXPECT_TRUE(session.supported());
      if (!session.supported()) break;
      session.poison_outputs();
      cpu.enter([&] { session.run(); });
      const HostTensors outputs = session.download();
      const Check check = compare(problem, Expected::all(problem, inputs), outputs, false);
      EXPECT_TRUE(check.passed()) << threads << " threads: " << check.failure;
      for (size_t slot = 0; slot < outputs.size(); ++slot)
        if (outputs.specs()[slot].role == Role::out) checksums.push_back(outputs.checksum(slot));
    }
    return checksums;
  }
};
TEST_P(Cuts, EqualTheReference) { check("cpu.tuned"); }

// Blocks of tiles in parts: ten rounded to eight, of more rows and fewer; 21 rounded to 24; three made four; five,
// which two threads share one by one.
class WinogradCuts : public Cuts {};
TEST_P(WinogradCuts, EqualTheReferenceAndEachOther) {
  const std::vector<uint64_t> checksums = check("cpu.winograd");
  ASSERT_EQ(checksums.size(), 2);
  EXPECT_EQ(checksums[0], checksums[1]);
}
INSTANTIATE_TEST_SUITE_P(Parts, WinogradCuts,
                         testing::Values("conv2d_backward_filter n:11 c:33 h:27 w:31 k:33 r:3 s:3 pad_h:1 pad_w:1",
                                         "conv2d_backward_filter n:23 c:33 h:27 w:31 k:33 r:3 s:3 pad_h:1 pad_w:1",
                                         "conv2d_backward_filter n:1 c:33 h:40 w:71 k:33 r:3 s:3 pad_h:1 pad_w:1",
                                         "conv2d_backward_filter n:1 c:33 h:20 w:256 k:33 r:3 s:3 pad_h:1 pad_w:1"));

// a transposed, and packed for its depth: by a grid of tasks, by strips, by tiles, over two blocks of k.
INSTANTIATE_TEST_SUITE_P(Transposed, Cuts,
                         testing::Values("gemm m:259 n:531 k:261 trans_a:1", "gemm m:131 n:259 k:257 trans_a:1",
                                         "gemm m:300 n:200 k:1031 trans_a:1",
                                         "gemm m:259 n:131 k:261 trans_a:1 trans_b:1",
                                         "gemm m:600 n:512 k:801 trans_a:1"));

// By strips, a in place: b in place, packed for its depth, over two blocks of k, packed for the number of tiles, added
// to c.
INSTANTIATE_TEST_SUITE_P(Strips, Cuts,
                         testing::Values("gemm m:17 n:1055 k:261", "gemm m:61 n:1055 k:261", "gemm m:61 n:531 k:801",
                                         "gemm m:250 n:921 k:40", "gemm_acc m:61 n:531 k:801 alpha:0.5"));

// A row alone: over two blocks of k with a last strip of one vector, added to c, transposed with few k.
INSTANTIATE_TEST_SUITE_P(Row, Cuts,
                         testing::Values("gemm m:1 n:40 k:801", "gemm_acc m:1 n:40 k:803",
                                         "gemm m:1 n:71 k:5 trans_a:1"));

// One to four columns beside whole vectors. a: in place along k, transposed in place, packed by a grid, by tiles; with
// an odd number of k, over two blocks of k, of halves, added to c.
INSTANTIATE_TEST_SUITE_P(FewColumns, Cuts,
                         testing::Values("gemm m:29 n:49 k:37", "gemm m:29 n:50 k:801", "gemm m:300 n:35 k:1031",
                                         "gemm m:61 n:20 k:100 trans_a:1", "gemm m:13 n:33 k:801 trans_a:1",
                                         "gemm m:259 n:273 k:261 trans_a:1", "gemm m:259 n:913 k:40",
                                         "gemm m:17 n:17 k:0", "gemm m:300 n:52 k:801 alpha:0.5 dtype:f16",
                                         "gemm_acc m:29 n:49 k:801"));

// a is packed by tiles, in pairs where the CPU multiplies them faster.
INSTANTIATE_TEST_SUITE_P(Halves, Cuts,
                         testing::Values("gemm m:300 n:52 k:801 dtype:bf16",
                                         "gemm m:301 n:512 k:1031 trans_a:1 dtype:bf16"));

// Channels-last images and filters in pairs, over two blocks of k that begin within a tap; with taps side by side, of
// which a part lies outside the image, in more values than are taken at once.
INSTANTIATE_TEST_SUITE_P(
    Pairs, Cuts,
    testing::Values("conv2d n:1 c:174 h:5 w:7 k:34 r:3 s:3 pad_h:1 pad_w:1 layout:nhwc dtype:bf16",
                    "conv2d n:1 c:512 h:3 w:5 k:34 r:1 s:3 pad_w:1 layout:nhwc dtype:bf16",
                    "conv2d_backward_data n:1 c:34 h:5 w:7 k:174 r:3 s:3 pad_h:1 pad_w:1 layout:nhwc dtype:bf16",
                    "conv2d_backward_filter n:5 c:6 h:19 w:19 k:34 r:3 s:3 pad_h:1 pad_w:1 layout:nhwc dtype:bf16"));

// The three below also run with results past the caches: op.streaming_cuts.

// Rows in parts that fit L1, with a whole last part and without; one row, and tasks of several; far from 0.
INSTANTIATE_TEST_SUITE_P(LongRows, Cuts,
                         testing::Values("layernorm rows:1 cols:4097", "layernorm rows:37 cols:9001",
                                         "layernorm rows:9 cols:5120 dtype:bf16",
                                         "layernorm rows:3 cols:9001 x=9999..10001"));

// Blocks of more columns, as tall matrices have; planes of several runs and parts.
INSTANTIATE_TEST_SUITE_P(Tall, Cuts,
                         testing::Values("bias_backward outer:2099 c:1104 inner:1 act:relu",
                                         "bias_backward outer:2099 c:4111 inner:1",
                                         "bias_backward outer:2 c:3 inner:20480 act:relu",
                                         "bias_backward outer:2 c:3 inner:2057 act:relu"));

// Windows far apart, between which nothing may be asked for ahead: that alone would take minutes. More rows than one
// task takes, so that a task begins within a plane.
INSTANTIATE_TEST_SUITE_P(
    Pooling, Cuts,
    testing::Values("avg_pool2d n:1 c:4 h:2 w:2 r:1 s:1 stride_h:16777216 stride_w:16384 layout:nhwc",
                    "avg_pool2d n:1 c:32 h:90 w:31 r:3 s:3 pad_h:1 pad_w:1 layout:nhwc",
                    "avg_pool2d n:1 c:32 h:90 w:31 r:2 s:2 stride_h:2 stride_w:2 layout:nhwc",
                    "max_pool2d n:1 c:32 h:90 w:31 r:3 s:3 pad_h:1 pad_w:1 layout:nhwc",
                    "max_pool2d n:1 c:32 h:20 w:9 r:3 s:3 pad_h:1 pad_w:1 layout:nhwc x=-inf",
                    "avg_pool2d_backward n:1 c:1 h:300 w:131 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2",
                    "avg_pool2d_backward n:1 c:1 h:300 w:131 r:3 s:4 dil_h:2 dil_w:3 stride_h:1 stride_w:2",
                    "avg_pool2d_backward n:1 c:1 h:300 w:131 r:5 s:5 pad_h:2 pad_w:1",
                    "max_pool2d_backward n:1 c:1 h:300 w:131 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2",
                    "max_pool2d_backward n:1 c:1 h:300 w:131 r:3 s:4 dil_h:2 dil_w:3 stride_h:1 stride_w:2",
                    "max_pool2d_backward n:1 c:1 h:300 w:131 r:5 s:5 pad_h:2 pad_w:1 dtype:bf16"));

}  // namespace
}  // namespace duet
