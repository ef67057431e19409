// SPDX-License-Identifier: Apache-2.0
// How many rows have their label among their k largest elements: top-1 accuracy with k = 1, top-5 with 5.
//   x: (rows, cols), row-major, dense; label: (rows) i32; correct: (1) i32, a number of rows.
//   Elements rank as ranking.h says: among equal elements a label counts as ranked by its column, so that a row of
//   equal scores is right for one label only, and NaN ranks first. A label outside [0, cols) is wrong.
//   k is 1 to cols. Every element is read, also where the label's rank is known before.
#pragma once
#include <functional>
#include <string>

#include "core/problem.h"
#include "ops/reduction/ranking.h"

namespace duet {

struct Accuracy {
  static constexpr const char* name = "accuracy";
  static constexpr const char* formula =
      "correct = the number of r for which fewer than k columns of row r rank above label[r]";
  static constexpr Slot x = input(0, "x"), label = input(1, "label"), correct = output(2, "correct");
  static constexpr bool exact_on_integers = true;

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;
  int64_t k = 1;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x");
    field("rows", rows, "samples");
    field("cols", cols, "classes");
    field.option("k", k, "ranks that count as correct, 1 to cols");
  }
  std::string invalid() const {
    if (rows > INT32_MAX) return "rows must be at most 2147483647, as correct is i32; is " + std::to_string(rows);
    return ranking::invalid_k(rows, cols, k);
  }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
  }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {rows, cols}), label.of(DType::i32, {rows}, Fill::below(std::max<int64_t>(1, cols))),
            correct.of(DType::i32, {1})};
  }
  // As of a trained classifier: one class of each row stands out, and half of the labels are that class.
  std::function<double(int64_t, uint32_t)> drawn(int slot) const {
    const auto class_of = [classes = std::max<int64_t>(1, cols)](int64_t row) { return row * 2654435761 % classes; };
    if (slot == x.index)
      return [class_of, n = std::max<int64_t>(1, cols)](int64_t i, uint32_t bits) {
        return std::ldexp(bits, -31) - 1 + (i % n == class_of(i / n) ? 2 : 0);
      };
    if (slot == label.index)
      return [class_of, n = std::max<int64_t>(1, cols)](int64_t row, uint32_t bits) {
        return static_cast<double>(bits % 2 == 0 ? class_of(row) : bits / 2 % n);
      };
    return {};
  }
  double flops() const { return 0; }          // comparisons
  Tolerance tolerance() const { return {}; }  // a whole number
  int64_t slices() const { return 1; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/reduction/accuracy.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one class", "rows:1 cols:1"},
        {"no rows", "rows:0 cols:7"},
        {"MLP 784-128-10, batch 32", "rows:32 cols:10"},
        {"every rank counts", "rows:33 cols:7 k:7"},
        {"a lane short of a warp", "rows:3 cols:31 k:3"},
        {"a row over a block", "rows:257 cols:33 k:2"},
        {"whole packs", "rows:9 cols:256 k:5"},
        {"prime, longer than a block", "rows:5 cols:1031 k:500"},
        {"long rows, several tasks", "rows:3 cols:50257 k:25000"},
        {"all equal: the label's column decides", "rows:129 cols:67 k:33 x=0.5"},
        {"the last rank that counts, long rows", "rows:3 cols:1031 k:33 x=0.5 label=32"},
        {"the first rank that does not count", "rows:9 cols:67 k:33 x=0.5 label=33"},
        {"the first rank that does not count, long rows", "rows:3 cols:1031 k:33 x=0.5 label=33"},
        {"many ties", "rows:129 cols:67 k:33 x=below:3"},
        {"infinities and NaN", "rows:129 cols:31 k:11 x=edges+inf+nan"},
        {"subnormals", "rows:65 cols:31 k:11 x=subnormal"},
        {"all NaN", "rows:65 cols:9 k:4 x=nan"},
        {"all negative infinity", "rows:65 cols:9 k:4 x=-inf"},
        {"labels beyond the classes", "rows:33 cols:7 k:7 label=below:14"},
        {"the lowest number as a label", "rows:3 cols:31 label=-2147483648"},
    };
    const Cases standard{
        {"ResNet-50 head, batch 256, top 5", "rows:256 cols:1000 k:5"},
        {"GPT-2 vocabulary, 512 tokens", "rows:512 cols:50257"},
        {"ResNet-50 head, batch 256", "rows:256 cols:1000"},
        {"MLP 784-128-10, batch 512", "rows:512 cols:10"},
    };
    const Cases more{
        {"GPT-2 vocabulary, 8192 tokens", "rows:8192 cols:50257"},
    };
    if (scale == Scale::sweep) return sweep("rows", 1, 16384, "cols:1024");
    return across(kFloatTypes, by_scale(scale, test, standard, more));
  }
};

}  // namespace duet
