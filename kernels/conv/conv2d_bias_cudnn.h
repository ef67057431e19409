// SPDX-License-Identifier: Apache-2.0
// The graph of cuDNN's convolution with bias and activation, apart from its plan, so that tests/cudnn/ can examine it
// without a GPU.
#pragma once
#include <string>

#include "core/cuda/cudnn_graph.h"
#include "ops/conv/conv2d_bias.h"

namespace duet::cuda {

CudnnGraph conv2d_bias_graph(const Conv2dBias& p);                // in memory: the problem's slots, in their order
std::string conv2d_bias_unsupported_reason(const Conv2dBias& p);  // empty: cuDNN may serve it

}  // namespace duet::cuda
