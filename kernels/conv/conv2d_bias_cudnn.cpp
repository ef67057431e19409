// SPDX-License-Identifier: Apache-2.0
// cuDNN's graph API: a convolution whose sums go through bias and relu before they are written. Winograd and FFT are
// excluded, as in conv2d_cudnn.cpp, and so is what differs from run to run.
#include "kernels/conv/conv2d_bias_cudnn.h"

#include "kernels/conv/convolution_cudnn.h"

namespace duet::cuda {

std::string conv2d_bias_unsupported_reason(const Conv2dBias& p) { return convolution::unsupported(p.conv); }

CudnnGraph conv2d_bias_graph(const Conv2dBias& p) {
  using Dims = CudnnGraph::Dims;
  const Conv2d& conv = p.conv;
  CudnnGraph graph;
  const cudnnDataType_t type = cudnn_dtype(conv.dtype);
  // Dimensions are in the order n c h w in either layout; strides say which one it is.
  const auto strides = [&](const Dims& d) {
    return conv.layout == Layout::nhwc ? Dims{d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]} : CudnnGraph::dense(d);
  };
  const Dims to_dims{conv.n, conv.k, conv.ho(), conv.wo()}, of_channels{1, conv.k, 1, 1};
  const Dims x_dims{conv.n, conv.c, conv.h, conv.w}, filter_dims{conv.k, conv.group_c(), conv.r, conv.s};
  const auto x = graph.memory(type, x_dims, strides(x_dims));
  const auto filter = graph.memory(type, filter_dims, strides(filter_dims));
  const auto bias = graph.memory(type, of_channels, strides(of_channels));
  const auto y = graph.memory(type, to_dims, strides(to_dims));
  const auto between = [&] { return graph.between(CUDNN_DATA_FLOAT, to_dims, strides(to_dims)); };
  const auto sum = between(), biased = p.act == Act::relu ? between() : y;

  const auto convolution = graph.add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,                                       //
                                     CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2},                            //
                                     CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT,                         //
                                     CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION,                  //
                                     CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Dims{conv.pad_h, conv.pad_w},          //
                                     CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Dims{conv.pad_h, conv.pad_w},         //
                                     CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Dims{conv.stride_h, conv.stride_w},  //
                                     CUDNN_ATTR_CONVOLUTION_DILATIONS, Dims{conv.dil_h, conv.dil_w});
  graph.operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,           //
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution,  //
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0f,             //
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0f,              //
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x,                    //
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, filter,               //
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, sum);
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

  std::vector<cudnnBackendNumericalNote_t> refused{CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_FFT,
                                                   CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
                                                   CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION};
  if (conv.dtype == DType::f32) {
    refused.push_back(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
    if (conv.math == Math::ieee) refused.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  }
  graph.refuse(std::move(refused));
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
