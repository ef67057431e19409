// SPDX-License-Identifier: Apache-2.0
// cuDNN's graph API has one operation for layer normalisation.
#include "kernels/norm/layernorm_cudnn.h"

#include "kernels/norm/norm_graph.h"

namespace duet::cuda {
CudnnGraph layernorm_graph(const LayerNorm& p) {
  NormTensors t(p.dtype, p.rows, p.cols);
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
  NormTensors t(p.dtype, p.rows, p.cols);
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

namespace {
Plan layernorm_cudnn(const LayerNorm& p, GpuContext& gpu) {
  using P = LayerNorm;
  if (const std::string why = norm_unsupported_reason(p.dtype, p.rows, p.cols); !why.empty()) return Unsupported{why};
  return plan_of(layernorm_graph(p), gpu, {P::x, P::gamma, P::beta, P::y, P::mean, P::rstd});
}
DUET_REGISTER(layernorm_cudnn);

Plan layernorm_backward_cudnn(const LayerNormBackward& p, GpuContext& gpu) {
  using P = LayerNormBackward;
  if (const std::string why = norm_unsupported_reason(p.dtype, p.rows, p.cols); !why.empty()) return Unsupported{why};
  return plan_of(layernorm_backward_graph(p), gpu,
                 {P::x, P::gamma, P::mean, P::rstd, P::dy, P::dx, P::dgamma, P::dbeta});
}
DUET_REGISTER(layernorm_backward_cudnn);
}  // namespace
}  // namespace duet::cuda
