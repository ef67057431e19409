// SPDX-License-Identifier: Apache-2.0
// Shared by cuDNN's forward and backward convolutions (conv2d_cudnn.cpp, conv2d_backward_cudnn.cpp): the cases that
// cuDNN supports, descriptors, and the search for an algorithm, which runs every one that fits the workspace limit.
#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/cuda/cudnn.h"
#include "core/error.h"
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
  Scratch(const Conv2d& p, GpuContext& gpu) : workspace(gpu, kMaxWorkspaceBytes) {
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

// find(d, scratch, max_count, &count, tried): cuDNN's search for up to max_count algorithms, fastest first.
// allowed(tried): whether an algorithm may be used. none: the reason where none may.
template <class Performance, int kMaxTried, class Find, class Allowed>
auto choose(const Conv2d& p, GpuContext& gpu, Find&& find, Allowed&& allowed, const char* none) {
  Chosen<decltype(Performance::algo)> chosen{.d = Descriptors(p)};
  std::array<Performance, kMaxTried> tried{};
  int count = 0;
  {
    Scratch scratch(p, gpu);
    const cudnnStatus_t status = find(chosen.d, scratch, kMaxTried, &count, tried.data());
    if (status == CUDNN_STATUS_NOT_SUPPORTED) {
      chosen.unsupported_reason = "cuDNN does not support this convolution";
      return chosen;
    }
    DUET_CUDNN(status);
  }
  const auto last = tried.begin() + count;
  const auto best = std::find_if(tried.begin(), last, [&](const Performance& t) {
    return t.status == CUDNN_STATUS_SUCCESS && allowed(t) && keeps_precision(p, t.mathType);
  });
  if (best == last) {
    chosen.unsupported_reason = none;
    return chosen;
  }
  chosen.d.convolution.set_math(best->mathType);
  chosen.algorithm = best->algo;
  chosen.piece = chosen.workspace.add_bytes(static_cast<int64_t>(best->memory));
  return chosen;
}

}  // namespace duet::cuda::convolution
