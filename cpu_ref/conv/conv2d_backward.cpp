// SPDX-License-Identifier: Apache-2.0
// Reference for both gradients of conv2d: serial, in double, the formulas of the contract (ops/conv/conv2d_backward.h)
// and nothing else. A slice is a row of taps of dw, or a row of one channel of dx.
#include "ops/conv/conv2d_backward.h"

#include "core/registry.h"
#include "cpu_ref/conv/few_values.h"

namespace duet {
namespace {

// Whether a channel of n images has a value that is not 0.
bool has_values(Inputs::Values images, int64_t channels, int64_t channel, int64_t n, int64_t pixels, bool last) {
  for (int64_t i = 0; i < n * pixels; ++i)
    if (images[last ? i * channels + channel : (i / pixels * channels + channel) * pixels + i % pixels] != 0)
      return true;
  return false;
}

}  // namespace

void Conv2dBackwardFilter::reference(Inputs in, int64_t slice, Expect& expect) const {
  const Conv2d& p = conv;
  const auto X = in[x], Y = in[dy];
  const bool last = p.layout == Layout::nhwc;
  const int64_t height = p.ho(), width = p.wo(), depth = p.group_c();
  const int64_t u = slice % p.r, q = slice / p.r % depth, out = slice / p.r / depth;
  const int64_t channel = out / p.group_k() * depth + q;

  int64_t added = 0, values = 0;  // products, and those that are not 0
  const auto add_products = [&](int64_t at_u, int64_t at_v, TermSum& sum) {
    added = values = 0;
    for (int64_t image = 0; image < p.n; ++image)
      for (int64_t i = 0; i < height; ++i)
        for (int64_t j = 0; j < width; ++j) {
          const int64_t row = i * p.stride_h - p.pad_h + at_u * p.dil_h;
          const int64_t column = j * p.stride_w - p.pad_w + at_v * p.dil_w;
          if (row < 0 || row >= p.h || column < 0 || column >= p.w) continue;
          const int64_t at = last ? ((image * p.h + row) * p.w + column) * p.c + channel
                                  : ((image * p.c + channel) * p.h + row) * p.w + column;
          const int64_t from =
              last ? ((image * height + i) * width + j) * p.k + out : ((image * p.k + out) * height + i) * width + j;
          const double product = Y[from] * X[at];
          values += product != 0;
          sum.add(product);
          ++added;
        }
  };
  for (int64_t v = 0; v < p.s; ++v) {
    TermSum sum(static_cast<int64_t>(kLongestChain));
    add_products(u, v, sum);
    double root_sum =
        are_alike(static_cast<double>(added), sum.sum(), sum.root_sum())
            ? root_sum_of_alike(terms(), sum.sum(), sum.root_sum(), p.dtype, p.math, p.growth(), kLongestChain)
            : sum.root_sum();
    // The tiles hold products of taps -1 to 3. Of a channel without values they are 0, which saves the walk.
    if (has_values(X, p.c, channel, p.n, p.h * p.w, last) && has_values(Y, p.k, out, p.n, height * width, last))
      root_sum = with_neighbours(p, root_sum, values, {-1 - u, 3 - u, -1 - v, 3 - v}, [&](int64_t a, int64_t b) {
        TermSum other;
        add_products(u + a, v + b, other);
        return other.root_sum();
      });
    expect(dw, last ? ((out * p.r + u) * p.s + v) * depth + q : slice * p.s + v, sum.sum(), root_sum);
  }
}
DUET_PROBLEM(Conv2dBackwardFilter);

void Conv2dBackwardData::reference(Inputs in, int64_t slice, Expect& expect) const {
  const Conv2d& p = conv;
  const auto W = in[filter], Y = in[dy];
  const bool last = p.layout == Layout::nhwc;
  const int64_t height = p.ho(), width = p.wo(), depth = p.group_c();
  const int64_t row = slice % p.h, channel = slice / p.h % p.c, image = slice / p.h / p.c;
  const int64_t first = channel / std::max<int64_t>(1, depth) * p.group_k(), q = channel % depth;

  // Returns how many are not 0.
  const auto add_products = [&](int64_t at_row, int64_t at_column, TermSum& sum) {
    int64_t values = 0;
    for (int64_t out = first; out < first + p.group_k(); ++out)
      for (int64_t u = 0; u < p.r; ++u)
        for (int64_t v = 0; v < p.s; ++v) {
          const int64_t down = at_row + p.pad_h - u * p.dil_h, across = at_column + p.pad_w - v * p.dil_w;
          if (down < 0 || across < 0 || down % p.stride_h != 0 || across % p.stride_w != 0) continue;
          const int64_t i = down / p.stride_h, j = across / p.stride_w;
          if (i >= height || j >= width) continue;
          const int64_t from =
              last ? ((image * height + i) * width + j) * p.k + out : ((image * p.k + out) * height + i) * width + j;
          const int64_t tap = last ? ((out * p.r + u) * p.s + v) * depth + q : ((out * depth + q) * p.r + u) * p.s + v;
          const double product = Y[from] * W[tap];
          values += product != 0;
          sum.add(product);
        }
    return values;
  };
  for (int64_t column = 0; column < p.w; ++column) {
    TermSum sum;
    const int64_t values = add_products(row, column, sum);
    const double root_sum = with_neighbours(p, sum.root_sum(), values, {-1, 1, -1, 1}, [&](int64_t a, int64_t b) {
      TermSum other;
      add_products(row + a, column + b, other);
      return other.root_sum();
    });
    expect(dx, last ? ((image * p.h + row) * p.w + column) * p.c + channel : slice * p.w + column, sum.sum(), root_sum);
  }
}
DUET_PROBLEM(Conv2dBackwardData);

}  // namespace duet
