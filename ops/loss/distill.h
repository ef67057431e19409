// SPDX-License-Identifier: Apache-2.0
// Knowledge distillation (arXiv:1503.02531), averaged over rows, and its gradient: the divergence of a student's
// softened distribution from its teacher's, and the cross-entropy with the label.
//   x (the student's scores), teacher, dx: (rows, cols), row-major, dense, finite; label: (rows) i32; loss: (1) in f32;
//   dx may be x or teacher.
//   A label outside [0, cols) marks no column: its row has no one-hot term. The loss of no rows is 0.
//   scaled: dx is the gradient of scale times the loss, scale: (1) in f32, which keeps small gradients in the range of
//   f16 (arXiv:1710.03740).
// T^2 keeps the share of the soft targets in the gradient as T changes (section 2 of the paper). Sums are formed as
// ops/summation.h says.
#pragma once
#include <string>

#include "core/problem.h"
#include "ops/bounded_sum.h"
#include "ops/statistic.h"

namespace duet {

struct Distill {
  static constexpr const char* name = "distill";
  static constexpr const char* formula =
      "p[r] = softmax(teacher[r] / T),  q[r] = softmax(x[r] / T),  loss = mean_r (alpha T^2 sum_c p[r,c] log(p[r,c] / "
      "q[r,c]) + (1 - alpha) (log sum_c exp(x[r,c]) - x[r,label[r]]))";
  static constexpr Slot x = input(0, "x"), teacher = input(1, "teacher"), label = input(2, "label"),
                        loss = output(3, "loss");
  static constexpr double kReach = 10;  // scores lie in +-kReach

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;
  double T = 4, alpha = 0.9;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and teacher");
    field("rows", rows, "samples");
    field("cols", cols, "classes");
    field.option("T", T, "temperature, by which scores are divided");
    field.option("alpha", alpha, "share of the teacher in the loss, 0 to 1");
  }
  std::string invalid() const {
    if (!(T >= 0.01 && T <= 1000)) return "T must lie in 0.01 to 1000, is " + std::to_string(T);
    if (!(alpha >= 0 && alpha <= 1)) return "alpha must lie in 0 to 1, is " + std::to_string(alpha);
    return rows > 0 && cols == 0 ? "cols must be at least 1 where there are rows, is 0" : "";
  }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
  }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {rows, cols}, Fill::uniform(-kReach, kReach)),
            teacher.of(dtype, {rows, cols}, Fill::uniform(-kReach, kReach)),
            label.of(DType::i32, {rows}, Fill::below(std::max<int64_t>(1, cols))),
            loss.of(statistic_dtype(dtype), {1})};
  }
  double flops() const { return 15.0 * static_cast<double>(rows) * static_cast<double>(cols); }

  // abs_sum is an error in units of u = 2^-24 (ops/bounded_sum.h).
  //  - The three logarithms of sums of exponentials: the error of the sum relative to it, whose terms have an exp of 2
  //    ulp = 4u with an argument that was rounded (score, 1/T, their product and the difference from the maximum); 4
  //    for a mean of the exp's error; a logarithm of 1 ulp = 2u;
  //    one rounding of the maximum by 1/T.
  //  - The divergence is sum_c p (teacher - x) / T, and the difference of two of the logarithms. A term of the sum has
  //    the errors of p and 4 roundings: the difference, 1/T, and two products.
  //  - loss: the errors of these parts and of the rows are independent of each other, but for a mean of 1u of the
  //    logarithms; the additions over rows, and the division.
  Tolerance tolerance() const { return {.rel = unit_roundoff(DType::f32), .abs_sum = kF32Roundoff}; }
  int64_t slices() const { return 1; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/loss/distill.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one class: the loss is 0", "rows:1 cols:1"},
        {"no rows", "rows:0 cols:7"},
        {"MLP 784-128-10, batch 32", "rows:32 cols:10"},
        {"a lane short of a warp", "rows:3 cols:31 T:1"},
        {"a row over a block", "rows:257 cols:33 T:20 alpha:0.5"},
        {"whole packs, a warp for each row", "rows:9 cols:256"},
        {"whole packs, a block for each row", "rows:2 cols:2048 T:2.5"},
        {"prime, longer than a block", "rows:5 cols:1031"},
        {"long rows, several tasks", "rows:3 cols:20011"},
        {"the teacher alone", "rows:5 cols:67 alpha:1"},
        {"the label alone", "rows:5 cols:67 alpha:0"},
        {"the student is far from the teacher", "rows:5 cols:67 x=-100..100 teacher=-100..100"},
        {"labels beyond the classes", "rows:33 cols:7 label=below:14"},
        {"the lowest number as a label", "rows:3 cols:31 label=-2147483648"},
    };
    const Cases standard{
        {"ResNet-50 head, batch 256", "rows:256 cols:1000"},
        {"DistilBERT, 256 masked tokens", "rows:256 cols:30522 T:2 alpha:0.5"},
    };
    const Cases more{
        {"GPT-2 vocabulary, 8192 tokens", "rows:8192 cols:50257 T:2 alpha:0.5"},
    };
    return across(kFloatTypes, by_scale(scale, test, standard, more));
  }
};

struct DistillBackward {
  static constexpr const char* name = "distill_backward";
  static constexpr const char* formula =
      "dx[r,c] = (alpha T (softmax(x[r] / T)[c] - softmax(teacher[r] / T)[c]) + (1 - alpha) (softmax(x[r])[c] - [c = "
      "label[r]])) / rows;  scaled: dx = scale dx";
  static constexpr Slot x = input(0, "x"), teacher = input(1, "teacher"), label = input(2, "label");
  static constexpr Slot dx = output(3, "dx").may_be(x, teacher);
  static constexpr Slot scale = input(4, "scale");  // with scaled
  static constexpr double kReach = Distill::kReach;

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;
  double T = 4, alpha = 0.9;
  bool scaled = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x, teacher and dx");
    field("rows", rows, "samples");
    field("cols", cols, "classes");
    field.option("T", T, "temperature, by which scores are divided");
    field.option("alpha", alpha, "share of the teacher in the loss, 0 to 1");
    field.option("scaled", scaled, "the loss is multiplied by scale");
  }
  std::string invalid() const { return Distill{rows, cols, dtype, T, alpha}.invalid(); }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
  }
  std::vector<TensorSpec> tensors() const {
    std::vector<TensorSpec> all{x.of(dtype, {rows, cols}, Fill::uniform(-kReach, kReach)),
                                teacher.of(dtype, {rows, cols}, Fill::uniform(-kReach, kReach)),
                                label.of(DType::i32, {rows}, Fill::below(std::max<int64_t>(1, cols))),
                                dx.of(dtype, {rows, cols})};
    if (scaled) all.push_back(scale.of(statistic_dtype(dtype), {1}, Fill::uniform(1000, 2000)));
    return all;
  }
  double flops() const { return 13.0 * static_cast<double>(rows) * static_cast<double>(cols); }

  // abs_sum is an error in units of u = 2^-24. A probability has an exp of 2 ulp = 4u, whose argument v - lse was
  // rounded, and whose v was multiplied by a rounded 1/T: |v - lse| + 2 |v|; the error of lse, of which a difference of
  // v and a rounded lse leaves |lse|; 8 for the sum of the exponentials and a division by it. Each is multiplied by a
  // factor of 2 roundings; then two differences, and the factor scale / rows: 5. Then dx is rounded to dtype.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype), .abs_sum = kF32Roundoff, .abs = underflow(dtype)};
  }
  int64_t slices() const { return rows; }
  void reference(Inputs in, int64_t row, Expect& expect) const;  // cpu_ref/loss/distill.cpp

  static Cases cases(Scale scale) {  // those of Distill, and scaled
    const Cases test{
        {"scaled", "rows:257 cols:33 scaled:1"},
        {"scaled, longer than a block", "rows:5 cols:1031 scaled:1"},
    };
    if (scale == Scale::test) return concat({Distill::cases(scale), across(kFloatTypes, test)});
    // An n-th of a gradient would be below the range of f16.
    Cases all = Distill::cases(scale);
    for (Case& c : all)
      if (c.text.find("dtype:f16") != c.text.npos) c.text += " scaled:1";
    return all;
  }
};

}  // namespace duet
