// SPDX-License-Identifier: Apache-2.0
// The graphs of cuDNN's attention, apart from their plans, so that tests/cudnn/ can examine them without a GPU.
#pragma once
#include <string>

#include "core/cuda/cudnn_graph.h"
#include "ops/attention/attention_packed.h"

namespace duet::cuda {

std::string attention_unsupported_reason(const AttentionShape& p, bool backward);  // "" where cuDNN may support it
CudnnGraph attention_graph(const Attention& p);  // its tensors in memory: the problem's slots, in their order
CudnnGraph attention_backward_graph(const AttentionBackward& p);
// Packed: the same tensors in memory; q, k and v are parts of qkv, and dq, dk and dv of dqkv.
CudnnGraph attention_packed_graph(const AttentionPacked& p);
CudnnGraph attention_packed_backward_graph(const AttentionPackedBackward& p);

}  // namespace duet::cuda
