// SPDX-License-Identifier: Apache-2.0
// Reads that lie `stride` accesses apart, beginning at element `offset`, each of `width` bytes; writes are dense.
//   x: (offset + everything between the first and the last access), y: (n), n a multiple of the elements of an access.
// The compulsory bytes are those that are asked for. Beyond a stride of 1, sectors and lines carry others as well.
#pragma once
#include <algorithm>

#include "ops/study/study.h"

namespace duet {

struct Coalescing {
  static constexpr const char* name = "study/coalescing";
  static constexpr const char* formula = "y[g w + e] = x[offset + g stride w + e], e < w = width / 4";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");
  static constexpr bool exact_on_integers = true;
  static constexpr int64_t kMaxStride = 1 << 20;

  int64_t n = 0;
  int64_t stride = 1, offset = 0, width = 4;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("n", n, "elements of y");
    field.option("stride", stride, "accesses from one that is made to the next, from 1 on");
    field.option("offset", offset, "the first element that is read");
    field.option("width", width, "bytes of an access: 4, 8 or 16");
  }
  int64_t elements() const {
    return std::max<int64_t>(1, width / 4);
  }  // of an access; invalid() refuses widths below 4
  std::string invalid() const {
    if (width != 4 && width != 8 && width != 16) return "width: 4, 8 or 16 bytes, is " + std::to_string(width);
    if (n % elements() != 0) return "n: a multiple of " + std::to_string(elements()) + ", is " + std::to_string(n);
    if (offset % elements() != 0)
      return "offset: a multiple of " + std::to_string(elements()) + " for this width, is " + std::to_string(offset);
    return first_of({within("stride", stride, 1, kMaxStride), within("offset", offset, 0, kMaxStride),
                     within("n", n, 0, int64_t{1} << 40), only_f32(dtype)});
  }
  // The accesses that fit: nothing has to lie behind the last one.
  void infer(Shapes s) {
    const int64_t length = s[x][0] - offset, e = elements();
    n = stride > 0 && length >= e ? ((length / e - 1) / stride + 1) * e : 0;
  }
  int64_t length() const { return n == 0 ? 0 : offset + ((n / elements() - 1) * stride + 1) * elements(); }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {length()}).touching(n), y.of(dtype, {n})}; }
  double flops() const { return 0; }
  Tolerance tolerance() const { return {}; }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/study/coalescing.cpp

  static Cases cases(Scale scale) {
    const Cases test{{"nothing", "n:0"},
                     {"one access", "n:4 width:16"},
                     {"a lane over a warp", "n:33 stride:3"},
                     {"off a line", "n:1032 offset:31"},
                     {"wide and apart", "n:1032 stride:5 offset:4 width:16"},
                     {"pairs", "n:1032 stride:2 offset:6 width:8"}};
    const Words strides{"stride:1", "stride:2", "stride:4", "stride:8", "stride:16", "stride:32"};
    const Words offsets{"offset:1", "offset:8", "offset:16", "offset:31"};
    const Words wide{"width:8", "width:16"};
    const Cases dense{{"4 MiB of y", "n:1048576"}};
    const Cases wider = across(wide, across({"stride:1", "stride:8"}, dense));
    return by_scale(scale, test, concat({across(strides, dense), across(offsets, dense), wider}),
                    across({"stride:2", "stride:4", "stride:16", "stride:32"}, across(wide, dense)));
  }
};

}  // namespace duet
