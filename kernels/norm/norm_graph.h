// SPDX-License-Identifier: Apache-2.0
// The tensors of a norm over rows as cuDNN's graphs have them (layernorm_cudnn.cpp, rmsnorm_cudnn.cpp): a row is an
// image of `cols` channels and one pixel, with the channels innermost.
#pragma once
#include <string>

#include "core/cuda/cudnn_graph.h"

namespace duet::cuda {

struct NormTensors {
  CudnnGraph graph;
  cudnnDataType_t type;
  int64_t rows, cols;

  NormTensors(DType dtype, int64_t rows, int64_t cols) : type(cudnn_dtype(dtype)), rows(rows), cols(cols) {}
  CudnnGraph::Tensor matrix() { return graph.memory(type, {rows, cols, 1, 1}, {cols, 1, cols, cols}); }
  CudnnGraph::Tensor of_columns() { return graph.memory(type, {1, cols, 1, 1}, {cols, 1, cols, cols}); }
  CudnnGraph::Tensor statistic() { return graph.memory(CUDNN_DATA_FLOAT, {rows, 1, 1, 1}, {1, 1, 1, 1}); }
};

// Why cuDNN does not serve a norm of this size; empty: it may.
inline std::string norm_unsupported_reason(DType dtype, int64_t rows, int64_t cols) {
  if (dtype == DType::f64) return "dtype f64";
  if (rows * cols == 0) return "cuDNN takes no empty tensor";
  return rows > INT32_MAX || cols > INT32_MAX ? "a dimension over 2^31 - 1" : "";
}

}  // namespace duet::cuda
