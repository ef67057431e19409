// SPDX-License-Identifier: Apache-2.0
// cuDNN's graph API: the operation of layer normalisation in its mode for root-mean-square normalisation, without mean
// and bias.
#include "kernels/norm/rmsnorm_cudnn.h"

#include "kernels/norm/norm_graph.h"

namespace duet::cuda {

CudnnGraph rmsnorm_graph(const RmsNorm& p) {
  NormTensors t(p.dtype, p.rows, p.cols);
  const auto x = t.matrix(), gamma = t.of_columns(), y = t.matrix(), rstd = t.statistic();
  const auto eps = t.graph.constant(static_cast<float>(p.eps), 4);
  t.graph.operation(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,               //
                    CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_RMS_NORM,            //
                    CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_NORM_FWD_TRAINING,  // stores rstd
                    CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, x,                        //
                    CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, gamma,               //
                    CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, eps,               //
                    CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, y,                        //
                    CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, rstd);
  return std::move(t.graph);
}

CudnnGraph rmsnorm_backward_graph(const RmsNormBackward& p) {
  NormTensors t(p.dtype, p.rows, p.cols);
  const auto x = t.matrix(), gamma = t.of_columns(), rstd = t.statistic();
  const auto dy = t.matrix(), dx = t.matrix(), dgamma = t.of_columns();
  t.graph.operation(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,       //
                    CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_RMS_NORM,     //
                    CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, x,                 //
                    CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, gamma,        //
                    CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, rstd,  //
                    CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, dy,               //
                    CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, dx,               //
                    CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, dgamma);
  return std::move(t.graph);
}

namespace {
Plan rmsnorm_cudnn(const RmsNorm& p, GpuContext& gpu) {
  using P = RmsNorm;
  if (const std::string why = norm_unsupported_reason(p.dtype, p.rows, p.cols); !why.empty()) return Unsupported{why};
  return plan_of(rmsnorm_graph(p), gpu, {P::x, P::gamma, P::y, P::rstd});
}
DUET_REGISTER(rmsnorm_cudnn);

Plan rmsnorm_backward_cudnn(const RmsNormBackward& p, GpuContext& gpu) {
  using P = RmsNormBackward;
  if (const std::string why = norm_unsupported_reason(p.dtype, p.rows, p.cols); !why.empty()) return Unsupported{why};
  return plan_of(rmsnorm_backward_graph(p), gpu, {P::x, P::gamma, P::rstd, P::dy, P::dx, P::dgamma});
}
DUET_REGISTER(rmsnorm_backward_cudnn);
}  // namespace
}  // namespace duet::cuda
