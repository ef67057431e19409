// SPDX-License-Identifier: Apache-2.0
// The graphs of cuDNN's convolution gradients of bf16 and f16, apart from their plans, so that tests/cudnn/ can examine
// them without a GPU.
#pragma once
#include <string>

#include "core/cuda/cudnn_graph.h"
#include "ops/conv/conv2d_backward.h"

namespace duet::cuda {

// In memory: the problem's slots, in their order.
CudnnGraph conv2d_backward_filter_graph(const Conv2dBackwardFilter& p);
CudnnGraph conv2d_backward_data_graph(const Conv2dBackwardData& p);
// Empty: cuDNN may serve it by a graph.
std::string conv2d_backward_graph_unsupported_reason(const Conv2d& p);

}  // namespace duet::cuda
