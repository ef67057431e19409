// SPDX-License-Identifier: Apache-2.0
// Stands in for cuDNN's classic convolutions. The search proposes an algorithm that Duet must not take before the one
// that it may; that one wants a workspace.
#include <array>
#include <vector>

#include "softgpu/libraries/cudnn.h"

namespace {
using namespace duet::softgpu;  // NOLINT: the file's subject is the functions below

constexpr size_t kWorkspaceBytes = 4096;  // of the wanted algorithms; the others need none
int64_t searches = 0;

// Sizes of a convolution, and how its pixels meet its filter.
struct Convolution {
  std::string call;
  Shape4 x, filter, y;
  int pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1, groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;

  Convolution(const char* name, cudnnTensorDescriptor_t of_x, cudnnFilterDescriptor_t of_filter,
              cudnnConvolutionDescriptor_t descriptor, cudnnTensorDescriptor_t of_y)
      : call(name), x(shape_of(of_x)), filter(shape_of(of_filter)), y(shape_of(of_y)) {
    cudnnConvolutionMode_t mode;
    cudnnDataType_t compute;
    if (cudnnGetConvolution2dDescriptor(descriptor, &pad_h, &pad_w, &stride_h, &stride_w, &dilation_h, &dilation_w,
                                        &mode, &compute) != CUDNN_STATUS_SUCCESS ||
        cudnnGetConvolutionGroupCount(descriptor, &groups) != CUDNN_STATUS_SUCCESS ||
        cudnnGetConvolutionMathType(descriptor, &math) != CUDNN_STATUS_SUCCESS || mode != CUDNN_CROSS_CORRELATION ||
        compute != CUDNN_DATA_FLOAT)
      throw duet::Error("{}: a descriptor that has no stand-in", call);
    const auto size = [](int64_t all, int64_t window, int pad, int stride, int dilation) {
      return (all + 2 * pad - dilation * (window - 1) - 1) / stride + 1;
    };
    if (filter.c * groups != x.c || filter.n % groups != 0 || y.n != x.n || y.c != filter.n ||
        y.h != size(x.h, filter.h, pad_h, stride_h, dilation_h) ||
        y.w != size(x.w, filter.w, pad_w, stride_w, dilation_w))
      throw duet::Error("{}: tensors that do not fit each other", call);
    if (x.type != y.type || x.type != filter.type) throw duet::Error("{}: tensors of several types", call);
  }

  double factor(double value) const {
    return x.type == Element::f32 && math != CUDNN_FMA_MATH ? tf32_of(value) : value;
  }

  // f(x, filter, y): indices of two factors of which the product belongs to the third tensor.
  template <class F>
  void for_each_term(F&& f) const {
    const int64_t channels = filter.n / groups;
    for_each(y, [&](int64_t n, int64_t k, int64_t i, int64_t j) {
      for (int64_t c = 0; c < filter.c; ++c)
        for (int64_t r = 0; r < filter.h; ++r)
          for (int64_t s = 0; s < filter.w; ++s) {
            const int64_t row = i * stride_h - pad_h + r * dilation_h, column = j * stride_w - pad_w + s * dilation_w;
            if (row < 0 || row >= x.h || column < 0 || column >= x.w) continue;
            f(x.at(n, k / channels * filter.c + c, row, column), filter.at(k, c, r, s), y.at(n, k, i, j));
          }
    });
  }
  static size_t elements(const Shape4& s) { return static_cast<size_t>(s.n * s.c * s.h * s.w); }
};

// All elements of a dense tensor, by their place in memory.
std::vector<double> read_all(const Shape4& shape, const void* memory, const std::string& what,
                             const Convolution& convolution) {
  const Elements from(memory, shape.type, what);
  std::vector<double> all(Convolution::elements(shape));
  for_each(shape, [&](int64_t i, int64_t j, int64_t k, int64_t l) {
    const int64_t at = shape.at(i, j, k, l);
    all[static_cast<size_t>(at)] = convolution.factor(from.load(at));
  });
  return all;
}
void store_all(const Shape4& shape, void* memory, const std::string& what, const std::vector<double>& all,
               const Blend& blend) {
  Elements to(memory, shape.type, what);
  for_each(shape, [&](int64_t i, int64_t j, int64_t k, int64_t l) {
    const int64_t at = shape.at(i, j, k, l);
    blend.store(to, at, all[static_cast<size_t>(at)]);
  });
}

// Enqueues `run` behind the loss of the workspace, which must be large enough.
cudnnStatus_t start(CudnnHandle& h, const Convolution& c, bool known, void* workspace, size_t bytes, Work run) {
  if (!known) return refuse_call(CUDNN_STATUS_NOT_SUPPORTED, c.call + ": an algorithm that has no stand-in");
  if (bytes < kWorkspaceBytes || !workspace) return refuse_cudnn(c.call + ": the workspace is too small");
  enqueue(h.stream, [workspace, call = c.call, run = std::move(run)] {
    spoil(workspace, kWorkspaceBytes, call + ", workspace");
    run();
  });
  return CUDNN_STATUS_SUCCESS;
}

// What algorithm `algo` needs: the one that the search finds, or the one that Duet must not take.
template <class Algorithm>
cudnnStatus_t workspace_of(Algorithm algo, Algorithm unwanted, Algorithm wanted, size_t* bytes) {
  if (algo != unwanted && algo != wanted) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = algo == wanted ? kWorkspaceBytes : 0;
  return CUDNN_STATUS_SUCCESS;
}

// The search runs every algorithm: the result's tensor and the workspace are lost.
template <class Performance, class Algorithm>
cudnnStatus_t find(CudnnHandle& h, const Convolution& c, Algorithm unwanted, Algorithm wanted, int max_count,
                   int* count, Performance* found, const Shape4& result, void* memory, void* workspace,
                   size_t workspace_bytes) {
  if (device().stream(h.stream).capture) return refuse_cudnn(c.call + " during a capture");
  if (max_count < 2 || workspace_bytes < kWorkspaceBytes) return refuse_cudnn(c.call + ": no room for results");
  ++searches;
  enqueue(h.stream, [=] {
    spoil(workspace, workspace_bytes, c.call + ", workspace");
    spoil(memory, Convolution::elements(result) * static_cast<uint64_t>(bytes_of(result.type)), c.call + ", result");
  });
  *count = 2;
  found[0] = found[1] = {};
  found[0].algo = unwanted;
  found[1].algo = wanted;
  found[1].memory = kWorkspaceBytes;
  for (int i = 0; i < 2; ++i) {
    found[i].status = CUDNN_STATUS_SUCCESS;
    found[i].determinism = CUDNN_DETERMINISTIC;
    found[i].mathType = c.math;
  }
  return CUDNN_STATUS_SUCCESS;
}
}  // namespace

int64_t duet::softgpu::convolution_searches() { return searches; }

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t x_shape,
                                                      const cudnnFilterDescriptor_t filter_shape,
                                                      const cudnnConvolutionDescriptor_t descriptor,
                                                      const cudnnTensorDescriptor_t y_shape,
                                                      cudnnConvolutionFwdAlgo_t algo, size_t* bytes) {
  return with_cudnn(handle, [&](CudnnHandle&) {
    const Convolution c("cudnnGetConvolutionForwardWorkspaceSize", x_shape, filter_shape, descriptor, y_shape);
    return workspace_of(algo, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                        bytes);
  });
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t handle,
                                                           const cudnnFilterDescriptor_t filter_shape,
                                                           const cudnnTensorDescriptor_t dy_shape,
                                                           const cudnnConvolutionDescriptor_t descriptor,
                                                           const cudnnTensorDescriptor_t dx_shape,
                                                           cudnnConvolutionBwdDataAlgo_t algo, size_t* bytes) {
  return with_cudnn(handle, [&](CudnnHandle&) {
    const Convolution c("cudnnGetConvolutionBackwardDataWorkspaceSize", dx_shape, filter_shape, descriptor, dy_shape);
    return workspace_of(algo, CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, bytes);
  });
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t handle,
                                                             const cudnnTensorDescriptor_t x_shape,
                                                             const cudnnTensorDescriptor_t dy_shape,
                                                             const cudnnConvolutionDescriptor_t descriptor,
                                                             const cudnnFilterDescriptor_t dw_shape,
                                                             cudnnConvolutionBwdFilterAlgo_t algo, size_t* bytes) {
  return with_cudnn(handle, [&](CudnnHandle&) {
    const Convolution c("cudnnGetConvolutionBackwardFilterWorkspaceSize", x_shape, dw_shape, descriptor, dy_shape);
    return workspace_of(algo, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, bytes);
  });
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(cudnnHandle_t handle, const cudnnTensorDescriptor_t x_shape,
                                                     const void*, const cudnnFilterDescriptor_t filter_shape,
                                                     const void*, const cudnnConvolutionDescriptor_t descriptor,
                                                     const cudnnTensorDescriptor_t y_shape, void* y,
                                                     const int max_count, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* found, void* workspace,
                                                     size_t bytes) {
  return with_cudnn(handle, [&](CudnnHandle& h) {
    const Convolution c("cudnnFindConvolutionForwardAlgorithmEx", x_shape, filter_shape, descriptor, y_shape);
    return find(h, c, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, max_count,
                count, found, c.y, y, workspace, bytes);
  });
}
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t filter_shape, const void*,
    const cudnnTensorDescriptor_t dy_shape, const void*, const cudnnConvolutionDescriptor_t descriptor,
    const cudnnTensorDescriptor_t dx_shape, void* dx, const int max_count, int* count,
    cudnnConvolutionBwdDataAlgoPerf_t* found, void* workspace, size_t bytes) {
  return with_cudnn(handle, [&](CudnnHandle& h) {
    const Convolution c("cudnnFindConvolutionBackwardDataAlgorithmEx", dx_shape, filter_shape, descriptor, dy_shape);
    return find(h, c, CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, max_count, count, found,
                c.x, dx, workspace, bytes);
  });
}
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x_shape, const void*, const cudnnTensorDescriptor_t dy_shape,
    const void*, const cudnnConvolutionDescriptor_t descriptor, const cudnnFilterDescriptor_t dw_shape, void* dw,
    const int max_count, int* count, cudnnConvolutionBwdFilterAlgoPerf_t* found, void* workspace, size_t bytes) {
  return with_cudnn(handle, [&](CudnnHandle& h) {
    const Convolution c("cudnnFindConvolutionBackwardFilterAlgorithmEx", x_shape, dw_shape, descriptor, dy_shape);
    return find(h, c, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, max_count, count, found,
                c.filter, dw, workspace, bytes);
  });
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_shape,
                                      const void* x, const cudnnFilterDescriptor_t filter_shape, const void* w,
                                      const cudnnConvolutionDescriptor_t descriptor, cudnnConvolutionFwdAlgo_t algo,
                                      void* workspace, size_t bytes, const void* beta,
                                      const cudnnTensorDescriptor_t y_shape, void* y) {
  return with_cudnn(handle, [&](CudnnHandle& h) {
    const Convolution c("cudnnConvolutionForward", x_shape, filter_shape, descriptor, y_shape);
    return start(h, c, algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, workspace, bytes,
                 [=, blend = Blend(alpha, beta)] {
                   const auto pixels = read_all(c.x, x, c.call + ", x", c);
                   const auto filter = read_all(c.filter, w, c.call + ", w", c);
                   std::vector<double> sums(Convolution::elements(c.y));
                   c.for_each_term([&](int64_t p, int64_t f, int64_t q) {
                     sums[static_cast<size_t>(q)] += pixels[static_cast<size_t>(p)] * filter[static_cast<size_t>(f)];
                   });
                   store_all(c.y, y, c.call + ", y", sums, blend);
                 });
  });
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           const cudnnFilterDescriptor_t filter_shape, const void* w,
                                           const cudnnTensorDescriptor_t dy_shape, const void* dy,
                                           const cudnnConvolutionDescriptor_t descriptor,
                                           cudnnConvolutionBwdDataAlgo_t algo, void* workspace, size_t bytes,
                                           const void* beta, const cudnnTensorDescriptor_t dx_shape, void* dx) {
  return with_cudnn(handle, [&](CudnnHandle& h) {
    const Convolution c("cudnnConvolutionBackwardData", dx_shape, filter_shape, descriptor, dy_shape);
    return start(h, c, algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, workspace, bytes, [=, blend = Blend(alpha, beta)] {
      const auto gradient = read_all(c.y, dy, c.call + ", dy", c);
      const auto filter = read_all(c.filter, w, c.call + ", w", c);
      std::vector<double> sums(Convolution::elements(c.x));
      c.for_each_term([&](int64_t p, int64_t f, int64_t q) {
        sums[static_cast<size_t>(p)] += filter[static_cast<size_t>(f)] * gradient[static_cast<size_t>(q)];
      });
      store_all(c.x, dx, c.call + ", dx", sums, blend);
    });
  });
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             const cudnnTensorDescriptor_t x_shape, const void* x,
                                             const cudnnTensorDescriptor_t dy_shape, const void* dy,
                                             const cudnnConvolutionDescriptor_t descriptor,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void* workspace, size_t bytes,
                                             const void* beta, const cudnnFilterDescriptor_t dw_shape, void* dw) {
  return with_cudnn(handle, [&](CudnnHandle& h) {
    const Convolution c("cudnnConvolutionBackwardFilter", x_shape, dw_shape, descriptor, dy_shape);
    return start(h, c, algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, workspace, bytes, [=, blend = Blend(alpha, beta)] {
      const auto pixels = read_all(c.x, x, c.call + ", x", c);
      const auto gradient = read_all(c.y, dy, c.call + ", dy", c);
      std::vector<double> sums(Convolution::elements(c.filter));
      c.for_each_term([&](int64_t p, int64_t f, int64_t q) {
        sums[static_cast<size_t>(f)] += pixels[static_cast<size_t>(p)] * gradient[static_cast<size_t>(q)];
      });
      store_all(c.filter, dw, c.call + ", dw", sums, blend);
    });
  });
}
}
// NOLINTEND(readability-identifier-naming)
