// SPDX-License-Identifier: Apache-2.0
// cuDNN's graph API: one reduction by addition. A row is an image of `cols` channels and one pixel, with the channels
// innermost: other layouts of the same memory have no engine.
#include "kernels/reduction/sum_cudnn.h"

namespace duet::cuda {

std::string sum_unsupported_reason(const Sum& p) {
  if (p.dtype != DType::f32) return "dtype other than f32: no engine of cuDNN reduces halves to halves";
  if (p.rows * p.cols == 0) return "cuDNN takes no empty tensor";
  if ((p.axis == 1 ? p.cols : p.rows) > (1 << 16))
    return "sums of more than 2^16: cuDNN adds more of them in a chain than the bound allows (seen on an H100)";
  return p.rows * p.cols > INT32_MAX ? "more than 2^31 - 1 elements" : "";
}

CudnnGraph sum_graph(const Sum& p) {
  CudnnGraph graph;
  const cudnnDataType_t type = cudnn_dtype(p.dtype);
  const int64_t rows = p.axis == 1 ? p.rows : 1, cols = p.axis == 1 ? 1 : p.cols;  // of y
  const auto x = graph.memory(type, {p.rows, p.cols, 1, 1}, {p.cols, 1, p.cols, p.cols});
  const auto y = graph.memory(type, {rows, cols, 1, 1}, {cols, 1, cols, cols});
  const auto addition = graph.add(CUDNN_BACKEND_REDUCTION_DESCRIPTOR,                      //
                                  CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_REDUCE_TENSOR_ADD,  //
                                  CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  graph.operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,   //
                  CUDNN_ATTR_OPERATION_REDUCTION_DESC, addition,  //
                  CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x,        //
                  CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  return graph;
}

namespace {
Plan sum_cudnn(const Sum& p, GpuContext& gpu) {
  if (const std::string why = sum_unsupported_reason(p); !why.empty()) return Unsupported{why};
  // Long sums differ from run to run, though no engine has the note NONDETERMINISTIC: blocks add in the order in which
  // they come.
  return plan_of(sum_graph(p), gpu, {Sum::x, Sum::y}).varying();
}
DUET_REGISTER(sum_cudnn);
}  // namespace
}  // namespace duet::cuda
