// SPDX-License-Identifier: Apache-2.0
// Stands in for the functions of cuDNN that need a device, as far as Duet calls them: softmax, activations, pooling,
// batch normalisation; cudnn_convolution.cpp has convolutions, cudnn_recurrent.cpp recurrent layers and cudnn_graph.cpp
// the graph API.
#include "softgpu/libraries/cudnn.h"

#include <set>
#include <vector>

namespace duet::softgpu {
namespace {
std::set<CudnnHandle*> handles;
}

cudnnStatus_t refuse_cudnn(const std::string& why) { return refuse_call(CUDNN_STATUS_BAD_PARAM, why); }

cudnnStatus_t with_cudnn(cudnnHandle_t handle, const std::function<cudnnStatus_t(CudnnHandle&)>& body) {
  return library_call(CUDNN_STATUS_EXECUTION_FAILED, [&]() -> cudnnStatus_t {
    auto* h = reinterpret_cast<CudnnHandle*>(handle);
    if (!handles.count(h)) return refuse_call(CUDNN_STATUS_NOT_INITIALIZED, "cuDNN: no such handle");
    return body(*h);
  });
}

Shape4 shape_of(cudnnTensorDescriptor_t descriptor) {
  cudnnDataType_t type;
  int d[4], s[4];
  if (cudnnGetTensor4dDescriptor(descriptor, &type, d, d + 1, d + 2, d + 3, s, s + 1, s + 2, s + 3) !=
      CUDNN_STATUS_SUCCESS)
    throw Error("cuDNN's stand-in: a tensor that has not four dimensions");
  return {element_of(type), d[0], d[1], d[2], d[3], s[0], s[1], s[2], s[3]};
}

Shape4 shape_of(cudnnFilterDescriptor_t descriptor) {
  cudnnDataType_t type;
  cudnnTensorFormat_t format;
  int d[4];
  if (cudnnGetFilter4dDescriptor(descriptor, &type, &format, d, d + 1, d + 2, d + 3) != CUDNN_STATUS_SUCCESS)
    throw Error("cuDNN's stand-in: a filter that has not four dimensions");
  const int64_t k = d[0], c = d[1], r = d[2], s = d[3];
  if (format == CUDNN_TENSOR_NHWC) return {element_of(type), k, c, r, s, c * r * s, 1, s * c, c};
  return {element_of(type), k, c, r, s, c * r * s, r * s, s, 1};
}

}  // namespace duet::softgpu

namespace {
using namespace duet::softgpu;  // NOLINT: the file's subject is the functions below

struct Activation {
  cudnnActivationMode_t mode;
  explicit Activation(cudnnActivationDescriptor_t descriptor) {
    cudnnNanPropagation_t nan;
    double coefficient;
    if (cudnnGetActivationDescriptor(descriptor, &mode, &nan, &coefficient) != CUDNN_STATUS_SUCCESS ||
        (mode != CUDNN_ACTIVATION_RELU && mode != CUDNN_ACTIVATION_SIGMOID && mode != CUDNN_ACTIVATION_TANH))
      throw duet::Error("cuDNN's stand-in: this activation");
  }
  double value(double x) const {
    if (mode == CUDNN_ACTIVATION_RELU) return x < 0 ? 0 : x;
    return mode == CUDNN_ACTIVATION_SIGMOID ? 1 / (1 + std::exp(-x)) : std::tanh(x);
  }
  double gradient(double x, double y, double dy) const {
    if (mode == CUDNN_ACTIVATION_RELU) return x > 0 ? dy : 0;
    return mode == CUDNN_ACTIVATION_SIGMOID ? dy * y * (1 - y) : dy * (1 - y * y);
  }
};

struct Pooling {
  cudnnPoolingMode_t mode;
  int r, s, pad_h, pad_w, stride_h, stride_w;
  Pooling(cudnnPoolingDescriptor_t descriptor, const Shape4& x, const Shape4& y) {
    cudnnNanPropagation_t nan;
    if (cudnnGetPooling2dDescriptor(descriptor, &mode, &nan, &r, &s, &pad_h, &pad_w, &stride_h, &stride_w) !=
        CUDNN_STATUS_SUCCESS)
      throw duet::Error("cuDNN's stand-in: this pooling");
    const auto size = [](int64_t all, int window, int pad, int stride) {
      return (all + 2 * pad - window) / stride + 1;
    };
    if (y.n != x.n || y.c != x.c || y.h != size(x.h, r, pad_h, stride_h) || y.w != size(x.w, s, pad_w, stride_w))
      throw duet::Error("cuDNN's stand-in: the output of a pooling has other dimensions");
  }
  // f(row, column) for each pixel of the window of (i, j) that is no padding.
  template <class F>
  void window(const Shape4& x, int64_t i, int64_t j, F&& f) const {
    for (int64_t row = i * stride_h - pad_h; row < i * stride_h - pad_h + r; ++row)
      for (int64_t column = j * stride_w - pad_w; column < j * stride_w - pad_w + s; ++column)
        if (row >= 0 && row < x.h && column >= 0 && column < x.w) f(row, column);
  }
  double count(const Shape4& x, int64_t i, int64_t j) const {
    if (mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING) return static_cast<double>(r) * s;
    double pixels = 0;
    window(x, i, j, [&](int64_t, int64_t) { ++pixels; });
    return pixels;
  }
};
}  // namespace

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return library_call(CUDNN_STATUS_NOT_INITIALIZED, [&]() -> cudnnStatus_t {
    if (breaks_capture()) return refuse_call(CUDNN_STATUS_NOT_INITIALIZED, "cudnnCreate during a capture");
    auto* h = new CudnnHandle;
    handles.insert(h);
    *handle = reinterpret_cast<cudnnHandle_t>(h);
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return with_cudnn(handle, [](CudnnHandle& h) {
    device().run_everything();
    handles.erase(&h);
    delete &h;
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return with_cudnn(handle, [&](CudnnHandle& h) {
    if (!is_stream(stream)) return refuse_cudnn("cudnnSetStream: no such stream");
    h.stream = stream;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm, cudnnSoftmaxMode_t mode,
                                  const void* alpha, const cudnnTensorDescriptor_t x_shape, const void* x,
                                  const void* beta, const cudnnTensorDescriptor_t y_shape, void* y) {
  return with_cudnn(handle, [&](CudnnHandle& h) {
    const Shape4 sx = shape_of(x_shape), sy = shape_of(y_shape);
    if (algorithm != CUDNN_SOFTMAX_ACCURATE || mode != CUDNN_SOFTMAX_MODE_INSTANCE || !sx.same(sy))
      return refuse_cudnn("cudnnSoftmaxForward");
    enqueue(h.stream, [=, blend = Blend(alpha, beta)] {
      const Elements from(x, sx.type, "cudnnSoftmaxForward, x");
      Elements to(y, sy.type, "cudnnSoftmaxForward, y");
      for (int64_t i = 0; i < sx.n; ++i) {
        const Shape4 row{sx.type, 1, sx.c, sx.h, sx.w, 0, sx.sc, sx.sh, sx.sw};
        double max = -INFINITY, sum = 0;
        std::vector<double> e;
        for_each(row, [&](int64_t, int64_t j, int64_t k, int64_t l) {
          e.push_back(from.load(sx.at(i, j, k, l)));
          max = std::max(max, e.back());
        });
        for (double& v : e) sum += v = std::exp(v - max);
        size_t next = 0;
        for_each(row, [&](int64_t, int64_t j, int64_t k, int64_t l) {
          blend.store(to, sy.at(i, j, k, l), e[next++] / sum);
        });
      }
    });
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnSoftmaxBackward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t, cudnnSoftmaxMode_t mode,
                                   const void* alpha, const cudnnTensorDescriptor_t y_shape, const void* y,
                                   const cudnnTensorDescriptor_t dy_shape, const void* dy, const void* beta,
                                   const cudnnTensorDescriptor_t dx_shape, void* dx) {
  return with_cudnn(handle, [&](CudnnHandle& h) {
    const Shape4 sy = shape_of(y_shape), sdy = shape_of(dy_shape), sdx = shape_of(dx_shape);
    if (mode != CUDNN_SOFTMAX_MODE_INSTANCE || !sy.same(sdy) || !sy.same(sdx))
      return refuse_cudnn("cudnnSoftmaxBackward");
    enqueue(h.stream, [=, blend = Blend(alpha, beta)] {
      const Elements from_y(y, sy.type, "cudnnSoftmaxBackward, y"), from_dy(dy, sdy.type, "cudnnSoftmaxBackward, dy");
      Elements to(dx, sdx.type, "cudnnSoftmaxBackward, dx");
      for (int64_t i = 0; i < sy.n; ++i) {
        const Shape4 row{sy.type, 1, sy.c, sy.h, sy.w, 0, sy.sc, sy.sh, sy.sw};
        std::vector<double> probability, gradient;
        double sum = 0;
        for_each(row, [&](int64_t, int64_t j, int64_t k, int64_t l) {
          probability.push_back(from_y.load(sy.at(i, j, k, l)));
          gradient.push_back(from_dy.load(sdy.at(i, j, k, l)));
          sum += probability.back() * gradient.back();
        });
        size_t next = 0;
        for_each(row, [&](int64_t, int64_t j, int64_t k, int64_t l) {
          blend.store(to, sdx.at(i, j, k, l), probability[next] * (gradient[next] - sum));
          ++next;
        });
      }
    });
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle, cudnnActivationDescriptor_t activation, const void* alpha,
                                     const cudnnTensorDescriptor_t x_shape, const void* x, const void* beta,
                                     const cudnnTensorDescriptor_t y_shape, void* y) {
  return with_cudnn(handle, [&](CudnnHandle& h) {
    const Shape4 sx = shape_of(x_shape), sy = shape_of(y_shape);
    if (!sx.same(sy)) return refuse_cudnn("cudnnActivationForward");
    enqueue(h.stream, [=, act = Activation(activation), blend = Blend(alpha, beta)] {
      const Elements from(x, sx.type, "cudnnActivationForward, x");
      Elements to(y, sy.type, "cudnnActivationForward, y");
      for_each(sx, [&](int64_t i, int64_t j, int64_t k, int64_t l) {
        blend.store(to, sy.at(i, j, k, l), act.value(from.load(sx.at(i, j, k, l))));
      });
    });
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnActivationBackward(cudnnHandle_t handle, cudnnActivationDescriptor_t activation, const void* alpha,
                                      const cudnnTensorDescriptor_t y_shape, const void* y,
                                      const cudnnTensorDescriptor_t dy_shape, const void* dy,
                                      const cudnnTensorDescriptor_t x_shape, const void* x, const void* beta,
                                      const cudnnTensorDescriptor_t dx_shape, void* dx) {
  return with_cudnn(handle, [&](CudnnHandle& h) {
    const Shape4 sy = shape_of(y_shape), sdy = shape_of(dy_shape), sx = shape_of(x_shape), sdx = shape_of(dx_shape);
    if (!sx.same(sy) || !sx.same(sdy) || !sx.same(sdx)) return refuse_cudnn("cudnnActivationBackward");
    enqueue(h.stream, [=, act = Activation(activation), blend = Blend(alpha, beta)] {
      const Elements from_y(y, sy.type, "cudnnActivationBackward, y"),
          from_dy(dy, sdy.type, "cudnnActivationBackward, dy"), from_x(x, sx.type, "cudnnActivationBackward, x");
      Elements to(dx, sdx.type, "cudnnActivationBackward, dx");
      for_each(sx, [&](int64_t i, int64_t j, int64_t k, int64_t l) {
        blend.store(to, sdx.at(i, j, k, l),
                    act.gradient(from_x.load(sx.at(i, j, k, l)), from_y.load(sy.at(i, j, k, l)),
                                 from_dy.load(sdy.at(i, j, k, l))));
      });
    });
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling, const void* alpha,
                                  const cudnnTensorDescriptor_t x_shape, const void* x, const void* beta,
                                  const cudnnTensorDescriptor_t y_shape, void* y) {
  return with_cudnn(handle, [&](CudnnHandle& h) {
    const Shape4 sx = shape_of(x_shape), sy = shape_of(y_shape);
    enqueue(h.stream, [=, pool = Pooling(pooling, sx, sy), blend = Blend(alpha, beta)] {
      const Elements from(x, sx.type, "cudnnPoolingForward, x");
      Elements to(y, sy.type, "cudnnPoolingForward, y");
      for_each(sy, [&](int64_t i, int64_t j, int64_t k, int64_t l) {
        double max = -INFINITY, sum = 0;
        pool.window(sx, k, l, [&](int64_t row, int64_t column) {
          const double value = from.load(sx.at(i, j, row, column));
          max = std::max(max, value);
          sum += value;
        });
        blend.store(to, sy.at(i, j, k, l), pool.mode == CUDNN_POOLING_MAX ? max : sum / pool.count(sx, k, l));
      });
    });
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling, const void* alpha,
                                   const cudnnTensorDescriptor_t y_shape, const void* y,
                                   const cudnnTensorDescriptor_t dy_shape, const void* dy,
                                   const cudnnTensorDescriptor_t x_shape, const void* x, const void* beta,
                                   const cudnnTensorDescriptor_t dx_shape, void* dx) {
  return with_cudnn(handle, [&](CudnnHandle& h) {
    const Shape4 sy = shape_of(y_shape), sdy = shape_of(dy_shape), sx = shape_of(x_shape), sdx = shape_of(dx_shape);
    const Pooling pool(pooling, sdx, sdy), of_forward(pooling, sx, sy);
    enqueue(h.stream, [=, blend = Blend(alpha, beta)] {
      const bool of_max = pool.mode == CUDNN_POOLING_MAX;
      const Elements maxima(y, sy.type, "cudnnPoolingBackward, y"), images(x, sx.type, "cudnnPoolingBackward, x");
      const Elements from(dy, sdy.type, "cudnnPoolingBackward, dy");
      Elements to(dx, sdx.type, "cudnnPoolingBackward, dx");
      std::vector<double> sums(static_cast<size_t>(sdx.h * sdx.w));
      for (int64_t i = 0; i < sdx.n; ++i)
        for (int64_t j = 0; j < sdx.c; ++j) {
          std::fill(sums.begin(), sums.end(), 0);
          for (int64_t k = 0; k < sdy.h; ++k)
            for (int64_t l = 0; l < sdy.w; ++l) {
              const double passed = from.load(sdy.at(i, j, k, l));
              double* of_last = nullptr;  // of equal maxima: a rule of its own, as cuDNN has one
              pool.window(sdx, k, l, [&](int64_t row, int64_t column) {
                double& sum = sums[static_cast<size_t>(row * sdx.w + column)];
                if (!of_max)
                  sum += passed / pool.count(sdx, k, l);
                else if (images.load(sx.at(i, j, row, column)) == maxima.load(sy.at(i, j, k, l)))
                  of_last = &sum;
              });
              if (of_last) *of_last += passed;
            }
          for (int64_t k = 0; k < sdx.h; ++k)
            for (int64_t l = 0; l < sdx.w; ++l)
              blend.store(to, sdx.at(i, j, k, l), sums[static_cast<size_t>(k * sdx.w + l)]);
        }
    });
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnBatchNormalizationForwardTraining(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha,
                                                     const void* beta, const cudnnTensorDescriptor_t x_shape,
                                                     const void* x, const cudnnTensorDescriptor_t y_shape, void* y,
                                                     const cudnnTensorDescriptor_t channels, const void* gamma,
                                                     const void* bias, double factor, void* running_mean,
                                                     void* running_variance, double epsilon, void* saved_mean,
                                                     void* saved_inverse) {
  return with_cudnn(handle, [&](CudnnHandle& h) {
    const Shape4 sx = shape_of(x_shape), sy = shape_of(y_shape), sc = shape_of(channels);
    if (mode != CUDNN_BATCHNORM_SPATIAL || !sx.same(sy) || sc.c != sx.c || sc.type != Element::f32)
      return refuse_cudnn("cudnnBatchNormalizationForwardTraining");
    enqueue(h.stream, [=, blend = Blend(alpha, beta)] {
      const std::string call = "cudnnBatchNormalizationForwardTraining, ";
      const Elements from(x, sx.type, call + "x"), scale(gamma, sc.type, call + "gamma"),
          shift(bias, sc.type, call + "beta");
      Elements to(y, sy.type, call + "y"), mean(saved_mean, sc.type, call + "mean"),
          inverse(saved_inverse, sc.type, call + "inverse"), moving_mean(running_mean, sc.type, call + "running mean"),
          moving_variance(running_variance, sc.type, call + "running variance");
      const auto count = static_cast<double>(sx.n * sx.h * sx.w);
      for (int64_t c = 0; c < sx.c; ++c) {
        const auto pixels = [&](auto&& f) {
          for (int64_t i = 0; i < sx.n; ++i)
            for (int64_t k = 0; k < sx.h; ++k)
              for (int64_t l = 0; l < sx.w; ++l) f(i, k, l);
        };
        double sum = 0, squares = 0;
        pixels([&](int64_t i, int64_t k, int64_t l) { sum += from.load(sx.at(i, c, k, l)); });
        const double average = sum / count;
        pixels([&](int64_t i, int64_t k, int64_t l) {
          const double off = from.load(sx.at(i, c, k, l)) - average;
          squares += off * off;
        });
        const double variance = squares / count, rstd = 1 / std::sqrt(variance + epsilon);
        pixels([&](int64_t i, int64_t k, int64_t l) {
          const double value = (from.load(sx.at(i, c, k, l)) - average) * rstd * scale.load(c) + shift.load(c);
          blend.store(to, sy.at(i, c, k, l), value);
        });
        mean.store(c, average);
        inverse.store(c, rstd);
        moving_mean.store(c, (1 - factor) * moving_mean.load(c) + factor * average);
        moving_variance.store(c, (1 - factor) * moving_variance.load(c) + factor * squares / (count - 1));
      }
    });
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t handle, cudnnBatchNormMode_t mode,
                                                      const void* alpha, const void* beta,
                                                      const cudnnTensorDescriptor_t x_shape, const void* x,
                                                      const cudnnTensorDescriptor_t y_shape, void* y,
                                                      const cudnnTensorDescriptor_t channels, const void* gamma,
                                                      const void* bias, const void* mean, const void* variance,
                                                      double epsilon) {
  return with_cudnn(handle, [&](CudnnHandle& h) {
    const Shape4 sx = shape_of(x_shape), sy = shape_of(y_shape), sc = shape_of(channels);
    if (mode != CUDNN_BATCHNORM_SPATIAL || !sx.same(sy) || sc.c != sx.c || sc.type != Element::f32)
      return refuse_cudnn("cudnnBatchNormalizationForwardInference");
    enqueue(h.stream, [=, blend = Blend(alpha, beta)] {
      const std::string call = "cudnnBatchNormalizationForwardInference, ";
      const Elements from(x, sx.type, call + "x"), scale(gamma, sc.type, call + "gamma"),
          shift(bias, sc.type, call + "beta"), average(mean, sc.type, call + "mean"),
          spread(variance, sc.type, call + "variance");
      Elements to(y, sy.type, call + "y");
      for_each(sx, [&](int64_t i, int64_t c, int64_t k, int64_t l) {
        const double normal = (from.load(sx.at(i, c, k, l)) - average.load(c)) / std::sqrt(spread.load(c) + epsilon);
        blend.store(to, sy.at(i, c, k, l), normal * scale.load(c) + shift.load(c));
      });
    });
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnBatchNormalizationBackward(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha_data,
                                              const void* beta_data, const void* alpha_parameters,
                                              const void* beta_parameters, const cudnnTensorDescriptor_t x_shape,
                                              const void* x, const cudnnTensorDescriptor_t dy_shape, const void* dy,
                                              const cudnnTensorDescriptor_t dx_shape, void* dx,
                                              const cudnnTensorDescriptor_t channels, const void* gamma, void* dgamma,
                                              void* dbeta, double, const void* saved_mean, const void* saved_inverse) {
  return with_cudnn(handle, [&](CudnnHandle& h) {
    const Shape4 sx = shape_of(x_shape), sdy = shape_of(dy_shape), sdx = shape_of(dx_shape), sc = shape_of(channels);
    if (mode != CUDNN_BATCHNORM_SPATIAL || !sx.same(sdy) || !sx.same(sdx) || sc.c != sx.c || sc.type != Element::f32 ||
        !saved_mean || !saved_inverse)
      return refuse_cudnn("cudnnBatchNormalizationBackward");
    enqueue(h.stream, [=, data = Blend(alpha_data, beta_data), parameters = Blend(alpha_parameters, beta_parameters)] {
      const std::string call = "cudnnBatchNormalizationBackward, ";
      const Elements from_x(x, sx.type, call + "x"), from_dy(dy, sdy.type, call + "dy"),
          scale(gamma, sc.type, call + "gamma"), mean(saved_mean, sc.type, call + "mean"),
          inverse(saved_inverse, sc.type, call + "inverse");
      Elements to(dx, sdx.type, call + "dx"), to_gamma(dgamma, sc.type, call + "dgamma"),
          to_beta(dbeta, sc.type, call + "dbeta");
      const auto count = static_cast<double>(sx.n * sx.h * sx.w);
      for (int64_t c = 0; c < sx.c; ++c) {
        const Shape4 pixels{sx.type, sx.n, 1, sx.h, sx.w, 0, 0, 0, 0};
        const auto normal = [&](int64_t i, int64_t k, int64_t l) {
          return (from_x.load(sx.at(i, c, k, l)) - mean.load(c)) * inverse.load(c);
        };
        double sum = 0, product = 0;
        for_each(pixels, [&](int64_t i, int64_t, int64_t k, int64_t l) {
          const double g = from_dy.load(sdy.at(i, c, k, l));
          sum += g;
          product += g * normal(i, k, l);
        });
        for_each(pixels, [&](int64_t i, int64_t, int64_t k, int64_t l) {
          const double g = from_dy.load(sdy.at(i, c, k, l));
          const double rest = g - sum / count - normal(i, k, l) * product / count;
          data.store(to, sdx.at(i, c, k, l), scale.load(c) * inverse.load(c) * rest);
        });
        parameters.store(to_gamma, c, product);
        parameters.store(to_beta, c, sum);
      }
    });
    return CUDNN_STATUS_SUCCESS;
  });
}
}
// NOLINTEND(readability-identifier-naming)
