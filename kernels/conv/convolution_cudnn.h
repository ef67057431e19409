// SPDX-License-Identifier: Apache-2.0
// Shared by cuDNN's convolutions (conv2d_cudnn.cpp, conv2d_backward_cudnn.cpp, conv2d_bias_cudnn.cpp): the cases that
// cuDNN supports, the parts of a graph with a convolution, descriptors of the API before graphs, and the search for its
// algorithm, which runs every one that fits the workspace limit. A process searches once for each convolution: a model
// has many layers of one shape, and is planned more than once.
#pragma once
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/cuda/cudnn.h"
#include "core/cuda/cudnn_graph.h"
#include "core/error.h"
#include "core/registry.h"
#include "ops/conv/conv2d.h"

namespace duet::cuda::convolution {

inline constexpr int64_t kMaxWorkspaceBytes = int64_t{256} << 20;

inline std::string unsupported(const Conv2d& p) {  // "" where cuDNN supports p
  if (p.dtype != DType::f32 && p.dtype != DType::bf16 && p.dtype != DType::f16)
    return std::string("dtype ") + duet::name_of(p.dtype);
  if (p.n * p.c * p.h * p.w == 0 || p.k * p.r * p.s == 0 || p.ho() * p.wo() == 0) return "cuDNN takes no empty tensor";
  for (const int64_t d : {p.n, p.c, p.k, p.ho(), p.wo()})
    if (d > INT32_MAX) return "a dimension over 2^31 - 1";
  return {};
}

// The dimensions of x, the filter and y: in the order n c h w in either layout; strides say which one it is.
using Dims = CudnnGraph::Dims;
inline Dims x_dims(const Conv2d& p) { return {p.n, p.c, p.h, p.w}; }
inline Dims filter_dims(const Conv2d& p) { return {p.k, p.group_c(), p.r, p.s}; }
inline Dims y_dims(const Conv2d& p) { return {p.n, p.k, p.ho(), p.wo()}; }
inline Dims strides(const Conv2d& p, const Dims& d) {
  return p.layout == Layout::nhwc ? Dims{d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]} : CudnnGraph::dense(d);
}
inline CudnnGraph::Tensor memory(CudnnGraph& graph, const Conv2d& p, const Dims& d) {
  return graph.memory(cudnn_dtype(p.dtype), d, strides(p, d));
}
inline cudnnBackendDescriptor_t descriptor(CudnnGraph& graph, const Conv2d& p) {
  return graph.add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,                                 //
                   CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2},                      //
                   CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT,                   //
                   CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION,            //
                   CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Dims{p.pad_h, p.pad_w},          //
                   CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Dims{p.pad_h, p.pad_w},         //
                   CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Dims{p.stride_h, p.stride_w},  //
                   CUDNN_ATTR_CONVOLUTION_DILATIONS, Dims{p.dil_h, p.dil_w});
}
// Winograd, FFT, partial sums in halves, and what differs from run to run.
inline std::vector<cudnnBackendNumericalNote_t> refused_notes(const Conv2d& p) {
  std::vector<cudnnBackendNumericalNote_t> refused{CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_FFT,
                                                   CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
                                                   CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION};
  if (p.dtype == DType::f32) {
    refused.push_back(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
    if (p.math == Math::ieee) refused.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  }
  return refused;
}

// The attributes of a convolution's operation: what it is computed from, in the order of the problem's slots, and its
// result.
struct OperationNames {
  cudnnBackendAttributeName_t descriptor, alpha, beta, first, second, result;
};
inline constexpr OperationNames kForward{
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
inline void add_operation(CudnnGraph& graph, const Conv2d& p, cudnnBackendDescriptorType_t type,
                          const OperationNames& names, CudnnGraph::Tensor first, CudnnGraph::Tensor second,
                          CudnnGraph::Tensor result) {
  graph.operation(type, names.descriptor, descriptor(graph, p), names.alpha, 1.0f, names.beta, 0.0f, names.first, first,
                  names.second, second, names.result, result);
}
// The graph of one such operation, on tensors in memory; tensor cores are preferred.
inline CudnnGraph graph_of(const Conv2d& p, cudnnBackendDescriptorType_t type, const OperationNames& names,
                           const Dims& first_dims, const Dims& second_dims, const Dims& result_dims) {
  CudnnGraph graph;
  const auto first = memory(graph, p, first_dims);
  const auto second = memory(graph, p, second_dims);
  const auto result = memory(graph, p, result_dims);
  add_operation(graph, p, type, names, first, second, result);
  graph.refuse(refused_notes(p));
  graph.prefer({CUDNN_NUMERICAL_NOTE_TENSOR_CORE});
  return graph;
}

// IEEE f32 must be requested: cuDNN's default allows TF32.
inline cudnnMathType_t math_of(const Conv2d& p) {
  return p.dtype == DType::f32 && p.math == Math::ieee ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
}
inline bool keeps_precision(const Conv2d& p, cudnnMathType_t math) {
  if (p.dtype != DType::f32) return true;
  return p.math == Math::ieee ? math == CUDNN_FMA_MATH : math != CUDNN_FMA_MATH;
}

struct Descriptors {
  CudnnTensor x, y;
  CudnnFilter filter;
  CudnnConvolution convolution;
  explicit Descriptors(const Conv2d& p)
      : Descriptors(p, p.layout == Layout::nhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW) {}
  Descriptors(const Conv2d& p, cudnnTensorFormat_t format)
      : x(p.dtype, {p.n, p.c, p.h, p.w}, format),
        y(p.dtype, {p.n, p.k, p.ho(), p.wo()}, format),
        filter(p.dtype, {p.k, p.group_c(), p.r, p.s}, format),
        convolution({p.pad_h, p.pad_w, p.stride_h, p.stride_w, p.dil_h, p.dil_w, p.groups}, math_of(p)) {}
};

// The tensors that the search runs on. They contain NaN, which does not change the time of these algorithms.
struct Scratch {
  Buffer x, filter, y, workspace;
  Scratch(const Conv2d& p, GpuContext& gpu, int64_t workspace_bytes) : workspace(gpu, workspace_bytes) {
    const auto tensors = p.tensors();
    x = Buffer(gpu, tensors[0].bytes());
    filter = Buffer(gpu, tensors[1].bytes());
    y = Buffer(gpu, tensors[2].bytes());
  }
};

// The fastest algorithm that may be used, with the workspace that it needs, and descriptors with its math type.
template <class Algorithm>
struct Chosen {
  Descriptors d;
  Algorithm algorithm{};
  WorkspaceLayout workspace = {};
  WorkspacePiece<void> piece = {};      // the whole workspace
  std::string unsupported_reason = {};  // "" where there is one
  size_t workspace_bytes() const { return static_cast<size_t>(piece.bytes()); }
};

// cuDNN's calls for one direction of a convolution; each returns cuDNN's status.
//   find(d, scratch, max_count, &count, tried)   its search for up to max_count algorithms, fastest first
//   workspace_bytes(d, algorithm, &bytes)        what an algorithm needs
//   allowed(tried)                               whether an algorithm may be used
template <class Find, class WorkspaceBytes, class Allowed>
struct Calls {
  Find find;
  WorkspaceBytes workspace_bytes;
  Allowed allowed;
};

// The largest workspace within the limit that an algorithm of use needs. The limit itself, allocated and filled for
// each search, would take longer than most searches.
template <class Performance, int kAlgorithms, class C>
int64_t search_bytes(const C& calls, const Descriptors& d) {
  int64_t max_bytes = 0;
  for (int a = 0; a < kAlgorithms; ++a) {
    Performance t{};
    t.algo = static_cast<decltype(t.algo)>(a);
    t.determinism = CUDNN_DETERMINISTIC;
    size_t bytes = 0;
    if (calls.allowed(t) && calls.workspace_bytes(d, t.algo, &bytes) == CUDNN_STATUS_SUCCESS &&
        bytes <= static_cast<size_t>(kMaxWorkspaceBytes))
      max_bytes = std::max(max_bytes, static_cast<int64_t>(bytes));
  }
  return max_bytes;
}

// none: the reason where no algorithm may be used.
template <class Performance, int kAlgorithms, class C>
auto choose(const Conv2d& p, GpuContext& gpu, const C& calls, const char* none) {
  using Algorithm = decltype(Performance::algo);
  struct Choice {
    Performance best = {};
    std::string unsupported_reason = {};
  };
  Chosen<Algorithm> chosen{.d = Descriptors(p)};
  const auto search = [&]() -> Choice {
    std::array<Performance, 2 * kAlgorithms> tried{};  // with both math types
    int count = 0;
    const Scratch scratch(p, gpu, search_bytes<Performance, kAlgorithms>(calls, chosen.d));
    const cudnnStatus_t status = calls.find(chosen.d, scratch, static_cast<int>(tried.size()), &count, tried.data());
    if (status == CUDNN_STATUS_NOT_SUPPORTED) return {.unsupported_reason = "cuDNN does not support this convolution"};
    DUET_CUDNN(status);
    const auto last = tried.begin() + count;
    const auto best = std::find_if(tried.begin(), last, [&](const Performance& t) {
      return t.status == CUDNN_STATUS_SUCCESS && calls.allowed(t) && keeps_precision(p, t.mathType);
    });
    return best == last ? Choice{.unsupported_reason = none} : Choice{.best = *best};
  };

  static std::map<std::string, Choice> known;  // of this direction, by GPU and convolution
  const std::string key = gpu.name() + "/" + Problem::of(p).label();
  auto found = known.find(key);
  if (found == known.end()) found = known.emplace(key, search()).first;
  const Choice& choice = found->second;
  chosen.unsupported_reason = choice.unsupported_reason;
  if (!chosen.unsupported_reason.empty()) return chosen;
  chosen.d.convolution.set_math(choice.best.mathType);
  chosen.algorithm = choice.best.algo;
  chosen.piece = chosen.workspace.add_bytes(static_cast<int64_t>(choice.best.memory));
  return chosen;
}

}  // namespace duet::cuda::convolution
