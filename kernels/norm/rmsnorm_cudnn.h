// SPDX-License-Identifier: Apache-2.0
// The graphs of cuDNN's root-mean-square normalisation, apart from their plans, so that tests/cudnn/ can examine them
// without a GPU.
#pragma once
#include "core/cuda/cudnn_graph.h"
#include "ops/norm/rmsnorm.h"

namespace duet::cuda {

CudnnGraph rmsnorm_graph(const RmsNorm& p);  // its tensors in memory: the problem's slots, in their order
CudnnGraph rmsnorm_backward_graph(const RmsNormBackward& p);

}  // namespace duet::cuda
