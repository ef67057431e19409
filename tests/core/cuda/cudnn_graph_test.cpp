// SPDX-License-Identifier: Apache-2.0
// The graphs that are passed to cuDNN. Without a GPU each must be well formed; with a GPU, cuDNN must have an engine
// for it. tests/cudnn/ asks cuDNN for engines without a GPU.
#include "core/cuda/cudnn_graph.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/cudnn/cudnn_graphs.h"

namespace duet::cuda {
namespace {

TEST(CudnnGraph, IsWellFormed) {
  for (const NamedGraph& g : cudnn_graphs({Scale::standard})) EXPECT_NO_THROW(g.graph().close()) << g.name;
}

TEST(CudnnGraph, HasAnEngine) {
  Owned<cudnnHandle_t, &cudnnDestroy> handle;
  if (const auto status = cudnnCreate(handle.out()); status != CUDNN_STATUS_SUCCESS)
    GTEST_SKIP() << "cudnnCreate: " << cudnnGetErrorString(status);
  for (const NamedGraph& g : cudnn_graphs({Scale::standard}))
    EXPECT_EQ(CudnnEngine(g.graph(), handle.get()).unavailable_reason, "") << g.name;
}

TEST(CudnnGraph, RefusesWhatDoesNotFit) {
  CudnnGraph g;
  const auto x = g.memory(CUDNN_DATA_FLOAT, {8, 32, 1, 1}, {32, 1, 32, 32});
  EXPECT_THROW(g.memory(CUDNN_DATA_FLOAT, {8, 32, 1, 1}, {32, 1, 32}), Error);
  EXPECT_THROW(g.operation(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, x),
               Error);
  EXPECT_THROW(g.close(), Error);  // no operation
}

TEST(CudnnGraph, DenseStridesAreRowMajor) { EXPECT_EQ(CudnnGraph::dense({2, 3, 5}), (CudnnGraph::Dims{15, 5, 1})); }

}  // namespace
}  // namespace duet::cuda
