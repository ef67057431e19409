// SPDX-License-Identifier: Apache-2.0
// What cuDNN's forward and backward convolutions share: what they take, descriptors, and the search for an algorithm, by
// running every one that fits the workspace limit.
#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/cuda/cudnn.h"
#include "core/error.h"
#include "ops/conv/conv2d.h"

namespace duet::cuda::convolution {

inline constexpr int64_t kWorkspaceLimit = int64_t{256} << 20;

inline std::string unsupported(const Conv2d& p) {  // "" where cuDNN takes it
  if (p.dtype != DType::f32 && p.dtype != DType::bf16 && p.dtype != DType::f16)
    return std::string("dtype ") + duet::name_of(p.dtype);
  if (p.n * p.c * p.h * p.w == 0 || p.k * p.r * p.s == 0 || p.ho() * p.wo() == 0) return "cuDNN takes no empty tensor";
  for (const int64_t d : {p.n, p.c, p.k, p.ho(), p.wo()})
    if (d > INT32_MAX) return "a dimension over 2^31 - 1";
  return {};
}

// IEEE f32 must be asked for: cuDNN's default allows TF32.
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

// The search runs on scratch tensors; their content, NaN, does not change the time of these algorithms.
struct Scratch {
  Buffer x, filter, y, workspace;
  Scratch(const Conv2d& p, GpuContext& gpu) : workspace(gpu, kWorkspaceLimit) {
    const auto tensors = p.tensors();
    x = Buffer(gpu, tensors[0].bytes());
    filter = Buffer(gpu, tensors[1].bytes());
    y = Buffer(gpu, tensors[2].bytes());
  }
};

// The fastest algorithm that serves, with the workspace it needs; descriptors with its math.
template <class Algorithm>
struct Chosen {
  Descriptors d;
  Algorithm algorithm{};
  WorkspaceLayout workspace = {};
  WorkspacePiece<void> piece = {};  // all of it
  std::string why_not = {};         // "" where there is one
  size_t workspace_bytes() const { return static_cast<size_t>(piece.bytes()); }
};

// find(d, scratch, most, &count, tried): cuDNN's search of up to `most` algorithms, ascending by time. serves(tried):
// whether one of them may be taken. none: why none was.
template <class Performance, int kMost, class Find, class Serves>
auto choose(const Conv2d& p, GpuContext& gpu, Find&& find, Serves&& serves, const char* none) {
  Chosen<decltype(Performance::algo)> chosen{.d = Descriptors(p)};
  std::array<Performance, kMost> tried{};
  int count = 0;
  {
    Scratch scratch(p, gpu);
    const cudnnStatus_t status = find(chosen.d, scratch, kMost, &count, tried.data());
    if (status == CUDNN_STATUS_NOT_SUPPORTED) {
      chosen.why_not = "cuDNN does not support this convolution";
      return chosen;
    }
    DUET_CUDNN(status);
  }
  const auto last = tried.begin() + count;
  const auto best = std::find_if(tried.begin(), last, [&](const Performance& t) {
    return t.status == CUDNN_STATUS_SUCCESS && serves(t) && keeps_precision(p, t.mathType);
  });
  if (best == last) {
    chosen.why_not = none;
    return chosen;
  }
  chosen.d.convolution.set_math(best->mathType);
  chosen.algorithm = best->algo;
  chosen.piece = chosen.workspace.add_bytes(static_cast<int64_t>(best->memory));
  return chosen;
}

}  // namespace duet::cuda::convolution
