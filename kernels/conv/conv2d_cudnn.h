// SPDX-License-Identifier: Apache-2.0
// The graph of cuDNN's convolution of bf16 and f16, apart from its plan, so that tests/cudnn/ can examine it without a
// GPU.
#pragma once
#include <string>

#include "core/cuda/cudnn_graph.h"
#include "ops/conv/conv2d.h"

namespace duet::cuda {

CudnnGraph conv2d_graph(const Conv2d& p);  // in memory: the problem's slots, in their order
// Empty: cuDNN may serve it by a graph, and does so faster than by the API before graphs.
std::string conv2d_graph_unsupported_reason(const Conv2d& p);

}  // namespace duet::cuda
