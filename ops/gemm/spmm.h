// SPDX-License-Identifier: Apache-2.0
// A sparse matrix times a dense one. a: (m, k) in compressed sparse rows: the entries of row i are value[e] in column
// col[e] for row[i] <= e < row[i + 1]. value: (nnz), col: (nnz), row: (m + 1), b: (k, n), c: (m, n); row-major, dense.
// c is overwritten; a row without entries gives 0. Sums are formed in f32 or better.
//   Columns need not ascend within a row, and equal ones add up; but there are at most m k entries.
//   checked = 1: nothing is read outside of a tensor whatever the indices are: an entry whose column is outside [0, k)
//   adds nothing, and a bound of a row counts as the nearest number in [0, nnz]. `duet op` refuses files with such a
//   column. checked = 0: columns lie in [0, k), and row ascends from 0 to nnz, which `duet op` and bench_all look at
//   first (core/csr.h).
#pragma once
#include <algorithm>
#include <functional>

#include "core/attributes.h"
#include "ops/bounded_sum.h"
#include "ops/gemm/product.h"

namespace duet {

struct Spmm {
  static constexpr const char* name = "spmm";
  static constexpr const char* formula = "c[i,j] = sum_e value[e] * b[col[e],j],  row[i] <= e < row[i+1]";
  static constexpr Slot value = input(0, "value"), col = input(1, "col"), row = input(2, "row"), b = input(3, "b");
  static constexpr Slot c = output(4, "c");
  static constexpr bool exact_on_integers = true;

  int64_t m = 0, k = 0, n = 0, nnz = 0;
  DType dtype = DType::f32;
  bool checked = true;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of value, b and c");
    field("m", m, "rows of a and c");
    field("k", k, "columns of a, rows of b");
    field("n", n, "columns of b and c");
    field("nnz", nnz, "entries of a");
    field.option("checked", checked, "indices need not be valid; 0: they are, and need no check");
  }
  void infer(Shapes s) {
    nnz = s[value][0];
    m = s[row][0] - 1;
    k = s[b][0];
    n = s[b][1];
  }
  std::string invalid() const {
    if (std::max({m, k, nnz}) > INT32_MAX) return "m, k and nnz: below 2^31, indices are i32";
    if (nnz > m * k) return "nnz " + std::to_string(nnz) + ": at most m * k = " + std::to_string(m * k);
    return invalid_precision(dtype, Math::ieee);
  }
  std::vector<TensorSpec> tensors() const {
    return {value.of(dtype, {nnz}), col.of(DType::i32, {nnz}, Fill::below(std::max<int64_t>(1, k))),
            row.of(DType::i32, {m + 1}), b.of(dtype, {k, n}), c.of(dtype, {m, n})};
  }
  // The first entry of row i as drawn: rows are alike, but for every second boundary, which lies anywhere between its
  // neighbours where a row has room for that.
  int64_t drawn_row(int64_t i) const {
    if (i <= 0 || m == 0) return 0;
    if (i >= m) return nnz;
    const auto even = [&](int64_t r) { return r * nnz / m; };
    const int64_t before = even(i - 1), after = even(i + 1);
    if (i % 2 == 0 || after - before > k) return even(i);
    const uint64_t bits = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15u >> 33;
    return before + static_cast<int64_t>(bits % static_cast<uint64_t>(after - before + 1));
  }
  // The columns of a row are drawn one from each of as many equal parts of k.
  int64_t drawn_col(int64_t e, uint32_t bits) const {
    int64_t first = 0, last = m;  // drawn_row(first) <= e < drawn_row(last)
    while (last - first > 1) {
      const int64_t middle = (first + last) / 2;
      (drawn_row(middle) <= e ? first : last) = middle;
    }
    const int64_t begin = drawn_row(first), count = drawn_row(first + 1) - begin;
    const int64_t lo = (e - begin) * k / count, hi = (e - begin + 1) * k / count;
    return lo + bits % (hi - lo);
  }
  std::function<double(int64_t, uint32_t)> drawn(int slot) const {
    if (slot == row.index) return [p = *this](int64_t i, uint32_t) { return static_cast<double>(p.drawn_row(i)); };
    if (slot == col.index)
      return [p = *this](int64_t e, uint32_t bits) { return static_cast<double>(p.drawn_col(e, bits)); };
    return {};
  }
  double flops() const { return 2.0 * nnz * n; }
  // abs_sum is an error in units of u = 2^-24 (ops/bounded_sum.h): of the products and their additions. The result is
  // rounded to dtype.
  Tolerance tolerance() const {
    const double u_out = unit_roundoff(dtype);
    return {.rel = u_out > unit_roundoff(DType::f32) ? u_out : 0,
            .abs_sum = kF32Roundoff * (1 + u_out),
            .abs = underflow(dtype)};
  }
  std::optional<LinearAxis> linear_axis() const { return LinearAxis{"n", n, 1, {{b, 1}, {c, 1}}}; }
  int64_t slices() const { return m; }                         // a row of c
  void reference(Inputs in, int64_t i, Expect& expect) const;  // cpu_ref/gemm/spmm.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one entry", "m:1 k:1 n:1 nnz:1"},
        {"no entries", "m:3 k:5 n:7 nnz:0"},
        {"no rows", "m:0 k:3 n:3 nnz:0"},
        {"no columns of b", "m:3 k:5 n:0 nnz:7"},
        {"empty rows", "m:33 k:17 n:3 nnz:9"},
        {"dense", "m:3 k:17 n:33 nnz:51"},
        {"times a vector", "m:65 k:129 n:1 nnz:801"},
        {"two columns of b", "m:17 k:65 n:2 nnz:111"},
        {"times four vectors", "m:17 k:65 n:4 nnz:431"},
        {"times eight vectors", "m:17 k:65 n:8 nnz:431"},
        {"whole packs", "m:33 k:65 n:64 nnz:215"},
        {"beside a vector", "m:17 k:33 n:31 nnz:101"},
        {"more columns than a block", "m:9 k:17 n:301 nnz:31"},
        {"rows longer than a warp", "m:3 k:1031 n:17 nnz:901"},
    };
    const Cases odd{
        {"columns outside of a add nothing", "m:17 k:33 n:5 nnz:101 col=below:60"},
        {"columns outside of a, times a vector", "m:17 k:33 n:1 nnz:101 col=below:60"},
        {"columns outside of a, times four", "m:17 k:33 n:4 nnz:301 col=below:60"},
        {"a few columns outside of a, times four", "m:17 k:33 n:4 nnz:501 col=below:34"},
        {"a few columns outside of a, times eight", "m:17 k:33 n:8 nnz:501 col=below:34"},
        {"columns outside of a, times whole vectors", "m:17 k:33 n:64 nnz:301 col=below:60"},
        {"columns in any order, some twice", "m:17 k:33 n:5 nnz:101 col=below:33"},
        {"no row has entries", "m:17 k:33 n:5 nnz:101 row=1000"},
        {"rows that descend, and reach beyond the entries", "m:17 k:33 n:5 nnz:101 row=-40..150"},
        {"rows that descend, times four", "m:17 k:33 n:4 nnz:101 row=-40..150"},
        {"more columns than a grid is high", "m:1 k:1 n:2097153 nnz:1 value=2"},
    };
    const Cases standard{
        {"DeepBench, sparsity 0.90, times 4 vectors", "m:7680 k:2560 n:4 nnz:1966080"},
        {"DeepBench, sparsity 0.90", "m:7680 k:2560 n:1500 nnz:1966080"},
        {"DeepBench, sparsity 0.95", "m:7680 k:2560 n:1500 nnz:983040"},
    };
    const Cases deepbench = across({"n:1", "n:2", "n:4", "n:1500", "n:3000", "n:6000"},
                                   {{"DeepBench, sparsity 0.90", "m:7680 k:2560 nnz:1966080"},
                                    {"DeepBench, sparsity 0.95", "m:7680 k:2560 nnz:983040"},
                                    {"DeepBench, sparsity 0.90", "m:10752 k:3584 nnz:3853517"},
                                    {"DeepBench, sparsity 0.95", "m:10752 k:3584 nnz:1926758"}});
    const auto both = [](const Cases& cases) { return concat({cases, with("checked:0", cases)}); };
    return by_scale(scale, concat({across(kFloatTypes, both(test)), odd}), across(kF32AndBf16, both(standard)),
                    across(kFloatTypes, both(deepbench)), sweep("n", 1, 4096, "m:7680 k:2560 nnz:1966080"));
  }
};

}  // namespace duet
