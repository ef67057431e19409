// SPDX-License-Identifier: Apache-2.0
// The graph of cuDNN's sum, apart from its plan, so that tests/cudnn/ can examine it without a GPU.
#pragma once
#include <string>

#include "core/cuda/cudnn_graph.h"
#include "ops/reduction/sum.h"

namespace duet::cuda {

CudnnGraph sum_graph(const Sum& p);                // its tensors in memory: the problem's slots, in their order
std::string sum_unsupported_reason(const Sum& p);  // empty: cuDNN may serve it

}  // namespace duet::cuda
