// SPDX-License-Identifier: Apache-2.0
// Copies every `stride`-th element, from element `offset` on. x: (offset + (n - 1) stride + 1), or (0) where n is 0;
// y: (n); dense; they do not overlap.
#pragma once
#include <string>

#include "core/problem.h"
#include "ops/elementwise/chunk.h"

namespace duet {

struct StridedCopy {
  static constexpr const char* name = "strided_copy";
  static constexpr const char* formula = "y[i] = x[offset + i stride]";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");
  static constexpr bool exact_on_integers = true;

  int64_t n = 0;
  int64_t stride = 1, offset = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("n", n, "elements of y");
    field.option("stride", stride, "elements from one that is copied to the next, from 1 on");
    field.option("offset", offset, "the first element that is copied");
  }
  std::string invalid() const {
    if (stride < 1) return "stride: 1 or more, is " + std::to_string(stride);
    if (offset < 0) return "offset: 0 or more, is " + std::to_string(offset);
    int64_t last;
    if (n > 0 && (__builtin_mul_overflow(n - 1, stride, &last) || __builtin_add_overflow(last, offset, &last) ||
                  last == INT64_MAX))
      return "offset + (n - 1) stride overflows; at most 2^50 elements are allowed";
    return "";
  }
  void infer(Shapes s) { n = s[x][0] > offset && stride > 0 ? (s[x][0] - 1 - offset) / stride + 1 : 0; }
  int64_t length() const {  // of x; -1, which is refused, where it overflows
    int64_t last = 0;
    if (n <= 0) return 0;
    if (__builtin_mul_overflow(n - 1, stride, &last) || __builtin_add_overflow(last, offset, &last) ||
        last == INT64_MAX)
      return -1;
    return last + 1;
  }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {length()}).touching(n), y.of(dtype, {n})}; }
  double flops() const { return 0; }
  Tolerance tolerance() const { return {}; }  // elements move bit for bit
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/memory/strided_copy.cpp

  static Cases cases(Scale scale) {
    const Cases sizes{
        {"nothing", "n:0"},
        {"one element", "n:1"},
        {"a lane over a warp", "n:33"},
        {"prime, longer than a block", "n:1031"},
    };
    const Words steps{"stride:1", "stride:2 offset:1", "stride:3 offset:5", "stride:4", "stride:33 offset:7"};
    const Cases odd{{"several tasks, the last short", "n:40009 stride:3"},
                    {"edge values, infinities and NaN", "n:1031 stride:2 x=edges+inf+nan"}};
    const Cases published{{"64 MiB of y in f32: beyond the caches", "n:16777216"}};
    const Words strides{"stride:1", "stride:2", "stride:4", "stride:8", "stride:16", "stride:32"};
    const Cases wide = across({"stride:2", "stride:8", "stride:32"}, published);
    return concat({by_scale(scale, across(kFloatTypes, concat({across(steps, sizes), odd})),
                            across({"dtype:f32", "dtype:bf16"}, wide), across(strides, published)),
                   by_scale(scale, {}, {}, {}, sweep("n", 1024, 16777216, "stride:8"))});
  }
};

}  // namespace duet
