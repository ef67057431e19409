// SPDX-License-Identifier: Apache-2.0
// cuDNN's graph API has one operation for layer normalisation. A row is an image of `cols` channels and one pixel, with
// the channels innermost.
#include "kernels/norm/layernorm_cudnn.h"

namespace duet::cuda {
namespace {
struct Tensors {
  CudnnGraph graph;
  cudnnDataType_t type;
  int64_t rows, cols;

  CudnnGraph::Tensor matrix() { return graph.memory(type, {rows, cols, 1, 1}, {cols, 1, cols, cols}); }
  CudnnGraph::Tensor of_columns() { return graph.memory(type, {1, cols, 1, 1}, {cols, 1, cols, cols}); }
  CudnnGraph::Tensor statistic() { return graph.memory(CUDNN_DATA_FLOAT, {rows, 1, 1, 1}, {1, 1, 1, 1}); }
};
}  // namespace

CudnnGraph layernorm_graph(const LayerNorm& p) {
  Tensors t{.graph = {}, .type = cudnn_dtype(p.dtype), .rows = p.rows, .cols = p.cols};
  const auto x = t.matrix(), gamma = t.of_columns(), beta = t.of_columns();
  const auto y = t.matrix(), mean = t.statistic(), rstd = t.statistic();
  const auto eps = t.graph.constant(static_cast<float>(p.eps), 4);
  t.graph.operation(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,               //
                    CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_LAYER_NORM,          //
                    CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_NORM_FWD_TRAINING,  // stores mean and rstd
                    CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, x,                        //
                    CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, gamma,               //
                    CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, beta,                 //
                    CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, eps,               //
                    CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, y,                        //
                    CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, mean,                 //
                    CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, rstd);
  return std::move(t.graph);
}

CudnnGraph layernorm_backward_graph(const LayerNormBackward& p) {
  Tensors t{.graph = {}, .type = cudnn_dtype(p.dtype), .rows = p.rows, .cols = p.cols};
  const auto x = t.matrix(), gamma = t.of_columns(), mean = t.statistic(), rstd = t.statistic();
  const auto dy = t.matrix(), dx = t.matrix(), dgamma = t.of_columns(), dbeta = t.of_columns();
  t.graph.operation(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,       //
                    CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_LAYER_NORM,   //
                    CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, x,                 //
                    CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, gamma,        //
                    CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, mean,          //
                    CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, rstd,  //
                    CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, dy,               //
                    CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, dx,               //
                    CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, dgamma,      //
                    CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, dbeta);
  return std::move(t.graph);
}

std::string layernorm_unsupported_reason(DType dtype, int64_t rows, int64_t cols) {
  if (dtype == DType::f64) return "dtype f64";
  if (rows * cols == 0) return "cuDNN takes no empty tensor";
  return rows > INT32_MAX || cols > INT32_MAX ? "a dimension over 2^31 - 1" : "";
}

namespace {
Plan layernorm_cudnn(const LayerNorm& p, GpuContext& gpu) {
  using P = LayerNorm;
  if (const std::string why = layernorm_unsupported_reason(p.dtype, p.rows, p.cols); !why.empty())
    return Unsupported{why};
  return plan_of(layernorm_graph(p), gpu, {P::x, P::gamma, P::beta, P::y, P::mean, P::rstd});
}
DUET_REGISTER(layernorm_cudnn);

Plan layernorm_backward_cudnn(const LayerNormBackward& p, GpuContext& gpu) {
  using P = LayerNormBackward;
  if (const std::string why = layernorm_unsupported_reason(p.dtype, p.rows, p.cols); !why.empty())
    return Unsupported{why};
  return plan_of(layernorm_backward_graph(p), gpu,
                 {P::x, P::gamma, P::mean, P::rstd, P::dy, P::dx, P::dgamma, P::dbeta});
}
DUET_REGISTER(layernorm_backward_cudnn);
}  // namespace
}  // namespace duet::cuda
