// SPDX-License-Identifier: Apache-2.0
// Both passes of max_pool2d as one problem. Where the largest elements lie is the implementation's own, so that
// libraries that find them again, or keep them in a format of their own (cuDNN, oneDNN), can be compared. Images and
// windows: ops/pool/pool2d.h. dy is given: it does not depend on y.
//   Of several largest elements the first gets the gradient. Libraries differ in this, so x is drawn with no equal ones
//   in a window. What NaN gives is undefined.
#pragma once
#include <functional>
#include <vector>

#include "ops/pool/max_pool2d.h"

namespace duet {

struct MaxPool2dTraining : Pool2d {
  static constexpr const char* name = "max_pool2d_training";
  static constexpr const char* formula =
      "y[n,c,i,j] = max_{u,v} x[n, c, i*stride_h - pad_h + u*dil_h, j*stride_w - pad_w + v*dil_w];  "
      "dx[n,c,p,q] = sum_{i,j} dy[n,c,i,j] [x[n,c,p,q] is the first to reach y[n,c,i,j]],  over the windows that hold "
      "(p, q)";
  static constexpr Slot x = input(0, "x"), dy = input(1, "dy"), y = output(2, "y"), dx = output(3, "dx");

  void infer(Shapes shapes) { infer_x(shapes[x]); }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, x_shape()), dy.of(dtype, y_shape()), y.of(dtype, y_shape()), dx.of(dtype, x_shape())};
  }
  // Pixels of a window differ in their tap: row / dil_h mod r and column / dil_w mod s. Multiples of the number of taps
  // plus the tap are exact in each dtype up to 2^8.
  bool distinct() const { return r * s <= kValues; }
  std::function<double(int64_t, uint32_t)> drawn(int slot) const {
    if (slot != x.index || !distinct()) return {};
    return [p = *this](int64_t element, uint32_t bits) {
      const int64_t pixel = element / p.depth() % (p.h * p.w), taps = p.r * p.s;
      const int64_t tap = pixel / p.w / p.dil_h % p.r * p.s + pixel % p.w / p.dil_w % p.s;
      return static_cast<double>((kValues / taps * bits >> 32) * taps + tap - kValues / 2);
    };
  }
  double flops() const { return backward().flops(); }
  Tolerance tolerance(int slot) const { return slot == dx.index ? backward().tolerance() : forward().tolerance(slot); }
  int64_t slices() const { return images() * (ho() + h); }  // a row of y; then a row of dx
  std::vector<int64_t> parts() const { return {images() * ho(), images() * h}; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/pool/max_pool2d.cpp

  static Cases cases(Scale scale) { return pool2d_cases(scale); }

  // The passes by themselves.
  MaxPool2d forward() const { return MaxPool2d{*this}; }
  MaxPool2dBackward backward() const { return MaxPool2dBackward{*this}; }

 private:
  static constexpr int64_t kValues = 256;
};

}  // namespace duet
