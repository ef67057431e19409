// SPDX-License-Identifier: Apache-2.0
// cuDNN's graph API: a convolution whose sums go through bias and relu before they are written. Winograd and FFT are
// excluded, as in conv2d_cudnn.cpp, and so is what differs from run to run.
#include "kernels/conv/conv2d_bias_cudnn.h"

#include "kernels/conv/convolution_cudnn.h"

namespace duet::cuda {

std::string conv2d_bias_unsupported_reason(const Conv2dBias& p) { return convolution::unsupported(p.conv); }

CudnnGraph conv2d_bias_graph(const Conv2dBias& p) {
  using convolution::Dims;
  const Conv2d& conv = p.conv;
  CudnnGraph graph;
  const Dims y_dims = convolution::y_dims(conv), of_channels{1, conv.k, 1, 1};
  const auto x = convolution::memory(graph, conv, convolution::x_dims(conv));
  const auto filter = convolution::memory(graph, conv, convolution::filter_dims(conv));
  const auto bias = convolution::memory(graph, conv, of_channels);
  const auto y = convolution::memory(graph, conv, y_dims);
  const auto between = [&] { return graph.between(CUDNN_DATA_FLOAT, y_dims, convolution::strides(conv, y_dims)); };
  const auto sum = between(), biased = p.act == Act::relu ? between() : y;

  convolution::add_operation(graph, conv, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, convolution::kForward,
                             x, filter, sum);
  const auto pointwise = [&](cudnnPointwiseMode_t mode) {
    return graph.add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR,  //
                     CUDNN_ATTR_POINTWISE_MODE, mode,     //
                     CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  };
  graph.operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,                                  //
                  CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise(CUDNN_POINTWISE_ADD),  //
                  CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sum,                                     //
                  CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias,                                    //
                  CUDNN_ATTR_OPERATION_POINTWISE_YDESC, biased);
  if (p.act == Act::relu)
    graph.operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,                                       //
                    CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise(CUDNN_POINTWISE_RELU_FWD),  //
                    CUDNN_ATTR_OPERATION_POINTWISE_XDESC, biased,                                       //
                    CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);

  graph.refuse(convolution::refused_notes(conv));
  return graph;
}

namespace {
Plan conv2d_bias_cudnn(const Conv2dBias& p, GpuContext& gpu) {
  using P = Conv2dBias;
  if (std::string why = conv2d_bias_unsupported_reason(p); !why.empty()) return Unsupported{std::move(why)};
  return plan_of(conv2d_bias_graph(p), gpu, {P::x, P::filter, P::bias, P::y});
}
DUET_REGISTER(conv2d_bias_cudnn);
}  // namespace
}  // namespace duet::cuda
