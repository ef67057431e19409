// SPDX-License-Identifier: Apache-2.0
// Reference for affine: serial, in double, the formula of the contract (ops/elementwise/affine.h), and the bound of
// each element. A slice is a row of a plane of y.
#include "ops/elementwise/affine.h"

#include <array>

#include "core/registry.h"

namespace duet {
namespace {

struct Sample {
  double value, abs_sum;  // of the four products
};

// The plane (h, w) from `first` on, at a position in pixels; 0 outside.
Sample sample(Inputs::Values x, int64_t first, int64_t h, int64_t w, double row, double column) {
  Sample s{0, 0};
  if (!(row > -1 && row < static_cast<double>(h) && column > -1 && column < static_cast<double>(w))) return s;
  const double top = std::floor(row), left = std::floor(column);
  for (int down = 0; down < 2; ++down)
    for (int right = 0; right < 2; ++right) {
      const auto i = static_cast<int64_t>(top) + down, j = static_cast<int64_t>(left) + right;
      const double weight = (down ? row - top : 1 - row + top) * (right ? column - left : 1 - column + left);
      if (i < 0 || i >= h || j < 0 || j >= w) continue;
      s.value += weight * x[first + i * w + j];
      s.abs_sum += std::abs(weight * x[first + i * w + j]);
    }
  return s;
}

// A position, both ends of what it may be in f32, and the middle of a pixel between them: between these, the
// interpolation is linear.
std::array<double, 4> places(double at, double error) {
  const double middle = std::floor(at + error);
  return {at, at - error, at + error, middle > at - error ? middle : at};
}

}  // namespace

void Affine::reference(Inputs in, int64_t slice, Expect& expect) const {
  constexpr double kU = 0x1p-24;
  const int64_t i = slice % h, image = slice / h / c, first = slice / h * h * w;
  const auto t = [&](int64_t k) { return in[theta][image * 6 + k]; };
  const auto height = static_cast<double>(h), width = static_cast<double>(w);
  const double v = (2 * static_cast<double>(i) + 1) / height - 1;
  for (int64_t j = 0; j < w; ++j) {
    const double u = (2 * static_cast<double>(j) + 1) / width - 1;
    const double column = ((t(0) * u + t(1) * v + t(2) + 1) * width - 1) / 2;
    const double row = ((t(3) * u + t(4) * v + t(5) + 1) * height - 1) / 2;
    // The error of a position. u and v have two roundings of values up to 2 and 1: 3 u. Each is multiplied and added,
    // and 1 is added: with S = |t0| + |t1| + |t2|, 6 u S and u (S + 1) at most, times w / 2. The last product and
    // difference round a position of at most w (S + 1) / 2: another u w (S + 1).
    const double of_column = std::abs(t(0)) + std::abs(t(1)) + std::abs(t(2));
    const double of_row = std::abs(t(3)) + std::abs(t(4)) + std::abs(t(5));
    const double column_error = kU * width * (4.5 * of_column + 1.5), row_error = kU * height * (4.5 * of_row + 1.5);
    const Sample here = sample(in[x], first, h, w, row, column);
    double change = 0;
    for (const double r : places(row, row_error))
      for (const double s : places(column, column_error)) {
        const double other = std::abs(sample(in[x], first, h, w, r, s).value - here.value);
        if (!(other <= change)) change = other;
      }
    // Weights are differences, rounded, and products of two; each product with a pixel is rounded and added: 6
    // roundings.
    expect(y, slice * w + j, here.value, change / kU + 6 * here.abs_sum);
  }
}
DUET_PROBLEM(Affine);

}  // namespace duet
