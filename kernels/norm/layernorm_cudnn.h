// SPDX-License-Identifier: Apache-2.0
// The graphs of cuDNN's layer normalisation, apart from their plans, so that tests/cudnn/ can examine them without a
// GPU.
#pragma once
#include "core/cuda/cudnn_graph.h"
#include "ops/norm/layernorm.h"

namespace duet::cuda {

CudnnGraph layernorm_graph(const LayerNorm& p);  // its tensors in memory: the problem's slots, in their order
CudnnGraph layernorm_backward_graph(const LayerNormBackward& p);

}  // namespace duet::cuda
