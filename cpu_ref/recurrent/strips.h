// SPDX-License-Identifier: Apache-2.0
// Products of few rows with a matrix that many steps have in common. The columns of the matrix are packed once, as
// strips for the register tiles of the matrix engine (gemm/engine.h); then each step multiplies without packing
// anything. Used by the four forward_by_* and backward_by_* files.
#pragma once
#include <algorithm>
#include <functional>

#include "cpu_ref/gemm/engine.h"

namespace duet::recurrent {

// A packed matrix of k rows and `lines` columns, which are padded to whole vectors. With pairs, a row has pairs of
// bf16, which take the place of a float each.
struct Strips {
  int64_t lines, k;
  bool pairs = false;
  engine::KernelShape kernel = engine::kernel_shape();

  int64_t columns() const { return ceil_div(lines, kernel.lanes) * kernel.lanes; }
  int64_t count() const { return ceil_div(lines, kernel.columns); }
  int64_t width(int64_t s) const { return std::min(kernel.columns, columns() - s * kernel.columns); }
  int64_t step(int64_t s) const {
    return width(s) <= kernel.lanes ? kernel.lanes : kernel.columns;
  }  // from one k to the next
  int64_t strip_floats() const { return kernel.columns * k; }
  int64_t floats() const { return count() * strip_floats(); }

  // How many rows `values` of k take.
  int64_t depth(int64_t values) const { return pairs ? ceil_div(values, 2) : values; }

  // Packs the rows of strip s from row `first` on, from the k values [0, values) of `from`, whose lines are the
  // columns.
  void pack(const engine::Operand& from, int64_t s, int64_t first, int64_t values, float* strip) const {
    const int64_t line = s * kernel.columns, exist = std::clamp<int64_t>(lines - line, 0, step(s));
    float* const to = strip + first * step(s);
    if (pairs)
      from.pack_pairs(line, exist, step(s), 0, depth(values), values, to);
    else
      from.pack(line, exist, step(s), 0, values, to);
  }
};

// to[i][j] = sum_k a(i, k) b[k][j], plus bias[j] if there is one, plus to[i][j] with `add`. j runs over `width`
// columns: whole vectors, at most a strip. Value k of row i of a lies at a[i * a_row + k * a_k], one of which is 1; row
// k of b at b + k * b_k. With pairs, k counts them in a and b, and a_k is 1.
struct StripProduct {
  const float* a;
  int64_t a_row, a_k;
  const float* b;
  int64_t b_k, width;
  float* to;
  int64_t to_pitch;
  const float* bias = nullptr;
  bool add = false, pairs = false;
};
void multiply(const engine::KernelShape& kernel, const StripProduct& p, int64_t rows, int64_t k);

// Whether a layer multiplies pairs of bf16 in place of f32.
inline bool multiplies_pairs(DType dtype) { return dtype == DType::bf16 && engine::pairs_are_faster(); }

// Two matrices joined along k: values below `split` are those of `first`, the others those of `second`.
class Spliced final : public engine::Operand {
 public:
  Spliced(const engine::Matrix& first, const engine::Matrix& second, int64_t split)
      : first_(first), second_(second), split_(split) {}
  void pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const override;

 private:
  engine::Matrix first_, second_;
  int64_t split_;
};

// A matrix whose rows lie anywhere in memory: row(i) begins at the address that it returns; null: zeros. A line of the
// operand is a column, and its values along k are those of the rows.
class GatheredRows final : public engine::Operand {
 public:
  using Row = std::function<const void*(int64_t)>;
  GatheredRows(Row row, DType type) : row_(std::move(row)), type_(type) {}
  void pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const override;

 private:
  Row row_;
  DType type_;
};

// The same with f32 and rows as lines. `split` values of a line come from each part, one part after the other; each
// row has an address.
class GatheredLines final : public engine::Operand {
 public:
  using Line = std::function<const float*(int64_t line, int64_t part)>;
  GatheredLines(Line line, int64_t split) : line_(std::move(line)), split_(split) {}
  void pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const override;

 private:
  Line line_;
  int64_t split_;
};

}  // namespace duet::recurrent
