// SPDX-License-Identifier: Apache-2.0
// The graphs of cuDNN's attention.
#pragma once
#include <string>

#include "core/cuda/cudnn_graph.h"
#include "ops/attention/attention.h"

namespace duet::cuda {

std::string attention_unsupported_reason(const AttentionShape& p, bool backward);  // "" where cuDNN may serve
CudnnGraph attention_graph(const Attention& p);  // in memory: the problem's slots, in their order
CudnnGraph attention_backward_graph(const AttentionBackward& p);

}  // namespace duet::cuda
