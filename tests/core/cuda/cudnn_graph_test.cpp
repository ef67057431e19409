// SPDX-License-Identifier: Apache-2.0
// The graphs that are passed to cuDNN. Without a GPU each must be well formed; with a GPU, cuDNN must have an engine
// for it.
#include "core/cuda/cudnn_graph.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/registry.h"
#include "kernels/attention/attention_cudnn.h"
#include "kernels/norm/layernorm_cudnn.h"

namespace duet::cuda {
namespace {

struct Named {
  std::string name;
  std::function<CudnnGraph()> graph;
};

// The benchmark cases of each problem that cuDNN may serve.
std::vector<Named> graphs() {
  std::vector<Named> all;
  const auto take = [&]<class P>(CudnnGraph (*graph)(const P&), const std::function<bool(const P&)>& serves) {
    for (const ProblemCase& c : find_op(P::name).cases(Scale::standard))
      if (const P& p = c.problem.as<P>(); serves(p))
        all.push_back({fmt::format("{} {} {}", P::name, name_of(p.dtype), c.why), [graph, p] { return graph(p); }});
  };
  take(layernorm_graph, {[](const LayerNorm&) { return true; }});
  take(layernorm_backward_graph, {[](const LayerNormBackward&) { return true; }});
  take(attention_graph, {[](const Attention& p) { return attention_unsupported_reason(p, false).empty(); }});
  take(attention_backward_graph,
       {[](const AttentionBackward& p) { return attention_unsupported_reason(p, true).empty(); }});
  return all;
}

TEST(CudnnGraph, IsWellFormed) {
  for (const Named& g : graphs()) EXPECT_NO_THROW(g.graph().close()) << g.name;
}

TEST(CudnnGraph, HasAnEngine) {
  Owned<cudnnHandle_t, &cudnnDestroy> handle;
  if (const auto status = cudnnCreate(handle.out()); status != CUDNN_STATUS_SUCCESS)
    GTEST_SKIP() << "cudnnCreate: " << cudnnGetErrorString(status);
  for (const Named& g : graphs()) EXPECT_EQ(CudnnEngine(g.graph(), handle.get()).unavailable_reason, "") << g.name;
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
