// SPDX-License-Identifier: Apache-2.0
// Batch normalisation (arXiv:1502.03167): in training, its gradients, and in inference. Each channel is normalised over
// all images and pixels, N = n h w elements.
//   x, y, dy, dx, residual, dresidual: (n, c, h, w) in layout nchw, (n, h, w, c) in nhwc; dense.
//   gamma, beta, dgamma, dbeta: (c); mean, rstd, running_mean, running_var: (c) in f32.
//   y may be x or residual. dx and dresidual may be x, dy or y, but not each other. Gradients are overwritten.
//   act and residual fuse what follows the normalisation: y = act(xhat gamma + beta + residual). The gradient of relu
//   needs y.
//   running_var receives the unbiased variance, with N / (N - 1), as in PyTorch; of one element or none it receives 0.
// Sums are formed as ops/summation.h says, variances are computed from deviations as in ops/norm/layernorm.h.
#pragma once
#include "core/attributes.h"
#include "ops/conv/conv2d.h"  // Layout
#include "ops/norm/batchnorm_cases.h"
#include "ops/statistic.h"
#include "ops/bounded_sum.h"

namespace duet {

enum class NormAct : uint8_t { none, relu };
inline std::vector<std::string> names_of(NormAct) { return {"none", "relu"}; }

// What the three ops share.
struct Channels {
  int64_t n = 0, c = 0, h = 0, w = 0;
  Layout layout = Layout::nchw;
  NormAct act = NormAct::none;
  bool residual = false;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of images, gamma and beta");
    field("n", n, "images");
    field("c", c, "channels");
    field("h", h, "height");
    field("w", w, "width");
    field.option("layout", layout, "order of the axes in memory");
    field.option("act", act, "activation after the normalisation");
    field.option("residual", residual, "an image is added before the activation");
  }
  void infer_images(Shapes::Dims X) {
    const bool last = layout == Layout::nhwc;
    n = X[0];
    c = X[last ? 3 : 1];
    h = X[last ? 1 : 2];
    w = X[last ? 2 : 3];
  }
  Shape shape() const { return layout == Layout::nchw ? Shape{n, c, h, w} : Shape{n, h, w, c}; }
  int64_t pixels() const { return h * w; }
  int64_t count() const { return n * h * w; }  // N
  int64_t elements() const { return n * c * h * w; }
  bool relu() const { return act == NormAct::relu; }
  // Element k of channel q, k = 0 .. N - 1.
  int64_t at(int64_t q, int64_t k) const {
    return layout == Layout::nhwc ? k * c + q : (k / pixels() * c + q) * pixels() + k % pixels();
  }
};

struct BatchNorm : Channels {
  static constexpr const char* name = "batchnorm";
  static constexpr const char* formula =
      "mean[c] = mean_{n,p} x[n,c,p],  rstd[c] = 1 / sqrt(mean_{n,p} (x[n,c,p] - mean[c])^2 + eps),  "
      "y[n,c,p] = act((x[n,c,p] - mean[c]) rstd[c] gamma[c] + beta[c] + residual[n,c,p]),  "
      "running = (1 - momentum) running + momentum (mean, or variance N / (N - 1))";
  static constexpr Slot x = input(0, "x"), gamma = input(1, "gamma"), beta = input(2, "beta");
  static constexpr Slot running_mean = inout(3, "running_mean"), running_var = inout(4, "running_var");
  static constexpr Slot added = input(8, "residual");  // the field residual says whether there is one
  static constexpr Slot y = output(5, "y").may_be(x, added), mean = output(6, "mean"), rstd = output(7, "rstd");

  double eps = 1e-5, momentum = 0.1;

  void attributes(auto&& field) {
    Channels::attributes(field);
    field.option("eps", eps, "added to the variance");
    field.option("momentum", momentum, "share of this batch in the running statistics");
  }
  std::string invalid() const { return eps > 0 ? "" : "eps must be above 0, is " + std::to_string(eps); }
  void infer(Shapes s) { infer_images(s[x]); }
  double unbiased() const {
    return static_cast<double>(count()) / static_cast<double>(std::max<int64_t>(1, count() - 1));
  }
  std::vector<TensorSpec> tensors() const {  // neither mean 0 nor variance 1
    const DType statistic = statistic_dtype(dtype);
    std::vector<TensorSpec> all{x.of(dtype, shape(), Fill::uniform(-1, 3)),
                                gamma.of(dtype, {c}, Fill::uniform(0.5, 1.5)),
                                beta.of(dtype, {c}),
                                running_mean.of(statistic, {c}),
                                running_var.of(statistic, {c}, Fill::uniform(0.5, 1.5)),
                                y.of(dtype, shape()),
                                mean.of(statistic, {c}),
                                rstd.of(statistic, {c})};
    if (residual) all.push_back(added.of(dtype, shape()));
    return all;
  }
  double flops() const { return 8.0 * elements(); }

  // abs_sum is an error in units of u, as for LayerNorm. Of a running statistic: that of the mean, or of the variance
  // times N / (N - 1), and the roundings of its momentum, factor and product; 3 roundings of what it was. y with a
  // residual has one more rounding, before the residual is added. relu does not enlarge an error.
  Tolerance tolerance(int slot) const {
    return {.rel = unit_roundoff(slot == y.index ? dtype : DType::f32),
            .abs_sum = kF32Roundoff,
            .abs = slot == y.index ? underflow(dtype) : 0};
  }
  int64_t slices() const { return c; }
  void reference(Inputs in, int64_t channel, Expect& expect) const;  // cpu_ref/norm/batchnorm.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"other constants", "n:3 c:5 h:7 w:11 eps:0.5 momentum:0.75"},
    };
    return concat({batchnorm_cases(scale), by_scale(scale, test, {})});
  }
};

struct BatchNormBackward : Channels {
  static constexpr const char* name = "batchnorm_backward";
  static constexpr const char* formula =
      "xhat = (x - mean[c]) rstd[c],  g = act = relu ? dy [y > 0] : dy,  dresidual = g,  "
      "dbeta[c] = sum_{n,p} g,  dgamma[c] = sum_{n,p} g xhat,  "
      "dx = gamma[c] rstd[c] (g - dbeta[c] / N - xhat dgamma[c] / N)";
  static constexpr Slot x = input(0, "x"), gamma = input(1, "gamma"), mean = input(2, "mean"), rstd = input(3, "rstd");
  static constexpr Slot dy = input(4, "dy"), y = input(8, "y");  // y: where act is relu
  static constexpr Slot dx = output(5, "dx").may_be(x, dy, y), dgamma = output(6, "dgamma"), dbeta = output(7, "dbeta");
  static constexpr Slot dadded = output(9, "dresidual").may_be(x, dy, y);  // where residual is set

  void infer(Shapes s) { infer_images(s[x]); }
  std::string invalid() const {
    return residual && !relu() ? "residual without act = relu: its gradient is dy itself" : "";
  }
  std::vector<TensorSpec> tensors() const {
    const DType statistic = statistic_dtype(dtype);
    std::vector<TensorSpec> all{x.of(dtype, shape()),
                                gamma.of(dtype, {c}, Fill::uniform(0.5, 1.5)),
                                mean.of(statistic, {c}, Fill::uniform(-0.5, 0.5)),
                                rstd.of(statistic, {c}, Fill::uniform(0.5, 2)),
                                dy.of(dtype, shape(), Fill::uniform(-0.5, 1)),
                                dx.of(dtype, shape()),
                                dgamma.of(dtype, {c}),
                                dbeta.of(dtype, {c})};
    if (relu()) all.push_back(y.of(dtype, shape()));
    if (residual) all.push_back(dadded.of(dtype, shape()));
    return all;
  }
  double flops() const { return 9.0 * elements(); }

  // abs_sum is an error in units of u, as for LayerNormBackward. dresidual is dy or 0: nothing is rounded.
  Tolerance tolerance(int slot) const {
    if (slot == dadded.index) return {.abs = underflow(dtype)};
    return {.rel = unit_roundoff(dtype), .abs_sum = kF32Roundoff, .abs = underflow(dtype)};
  }
  int64_t slices() const { return c; }
  void reference(Inputs in, int64_t channel, Expect& expect) const;  // cpu_ref/norm/batchnorm.cpp

  static Cases cases(Scale scale) { return batchnorm_cases(scale); }
};

struct BatchNormInference : Channels {
  static constexpr const char* name = "batchnorm_inference";
  static constexpr const char* formula =
      "y[n,c,p] = act((x[n,c,p] - mean[c]) gamma[c] / sqrt(var[c] + eps) + beta[c] + residual[n,c,p])";
  static constexpr Slot x = input(0, "x"), gamma = input(1, "gamma"), beta = input(2, "beta"), mean = input(3, "mean");
  static constexpr Slot var = input(4, "var"), added = input(6, "residual"), y = output(5, "y").may_be(x, added);

  double eps = 1e-5;

  void attributes(auto&& field) {
    Channels::attributes(field);
    field.option("eps", eps, "added to the variance");
  }
  std::string invalid() const { return eps > 0 ? "" : "eps must be above 0, is " + std::to_string(eps); }
  void infer(Shapes s) { infer_images(s[x]); }
  std::vector<TensorSpec> tensors() const {
    const DType statistic = statistic_dtype(dtype);
    std::vector<TensorSpec> all{
        x.of(dtype, shape()),    gamma.of(dtype, {c}, Fill::uniform(0.5, 1.5)),   beta.of(dtype, {c}),
        mean.of(statistic, {c}), var.of(statistic, {c}, Fill::uniform(0.5, 1.5)), y.of(dtype, shape())};
    if (residual) all.push_back(added.of(dtype, shape()));
    return all;
  }
  double flops() const { return 2.0 * elements(); }
  // abs_sum is (|x| + |mean|) |scale| + |beta| + |residual|: 4 roundings of the scale (sum, root, division, product),
  // then at most 4 products and sums, also where y is computed as x a + b. Then y is rounded to dtype.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype), .abs_sum = duet::gamma(9, unit_roundoff(DType::f32)), .abs = underflow(dtype)};
  }
  int64_t slices() const { return c; }
  void reference(Inputs in, int64_t channel, Expect& expect) const;  // cpu_ref/norm/batchnorm.cpp

  static Cases cases(Scale scale) { return batchnorm_cases(scale); }
};

}  // namespace duet
