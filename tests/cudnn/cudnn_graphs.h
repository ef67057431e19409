// SPDX-License-Identifier: Apache-2.0
// The graphs that are passed to cuDNN, for tests: without a GPU (plan_test.cpp), and on one (tests/core/cuda/).
#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/registry.h"
#include "kernels/attention/attention_cudnn.h"
#include "kernels/conv/conv2d_backward_cudnn.h"
#include "kernels/conv/conv2d_bias_cudnn.h"
#include "kernels/conv/conv2d_cudnn.h"
#include "kernels/norm/layernorm_cudnn.h"
#include "kernels/norm/norm_graph.h"
#include "kernels/norm/rmsnorm_cudnn.h"
#include "kernels/reduction/sum_cudnn.h"

namespace duet::cuda {

struct NamedGraph {
  std::string name;  // op and case
  std::function<CudnnGraph()> graph;
};

// Of every case at these scales that cuDNN may serve, each once.
inline std::vector<NamedGraph> cudnn_graphs(const std::vector<Scale>& scales) {
  std::vector<NamedGraph> all;
  std::set<std::string> labels;
  const auto take = [&]<class P>(CudnnGraph (*graph)(const P&), std::string (*unsupported_reason)(const P&)) {
    for (const Scale scale : scales)
      for (const ProblemCase& c : find_op(P::name).cases(scale)) {
        const P& p = c.problem.as<P>();
        const std::string name = fmt::format("{}/{} ({})", P::name, c.problem.label(), c.why);
        if (!labels.insert(fmt::format("{}/{}", P::name, c.problem.label())).second) continue;
        if (unsupported_reason(p).empty()) all.push_back({name, [graph, p] { return graph(p); }});
      }
  };
  const auto norm = [](const auto& p) { return norm_unsupported_reason(p.dtype, p.rows, p.cols); };
  take.operator()<LayerNorm>(layernorm_graph, norm);
  take.operator()<LayerNormBackward>(layernorm_backward_graph, norm);
  take.operator()<RmsNorm>(rmsnorm_graph, norm);
  take.operator()<RmsNormBackward>(rmsnorm_backward_graph, norm);
  take.operator()<Conv2d>(conv2d_graph, conv2d_graph_unsupported_reason);
  take.operator()<Conv2dBias>(conv2d_bias_graph, conv2d_bias_unsupported_reason);
  take.operator()<Conv2dBackwardFilter>(conv2d_backward_filter_graph,
                                        [](const auto& p) { return conv2d_backward_graph_unsupported_reason(p.conv); });
  take.operator()<Conv2dBackwardData>(conv2d_backward_data_graph,
                                      [](const auto& p) { return conv2d_backward_graph_unsupported_reason(p.conv); });
  take.operator()<Sum>(sum_graph, sum_unsupported_reason);
  take.operator()<Attention>(attention_graph, [](const auto& p) { return attention_unsupported_reason(p, false); });
  take.operator()<AttentionBackward>(attention_backward_graph,
                                     [](const auto& p) { return attention_unsupported_reason(p, true); });
  take.operator()<AttentionPacked>(attention_packed_graph,
                                   [](const auto& p) { return attention_unsupported_reason(p.unpacked(), false); });
  take.operator()<AttentionPackedBackward>(
      attention_packed_backward_graph, [](const auto& p) { return attention_unsupported_reason(p.unpacked(), true); });
  return all;
}

}  // namespace duet::cuda
