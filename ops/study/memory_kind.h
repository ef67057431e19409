// SPDX-License-Identifier: Apache-2.0
// The same work through each kind of memory: a filter, whose reads overlap, and a lookup in a table.
//   filter: x: (h + 4, w + 4), weight: (5, 5), y: (h, w), dense
//   lookup: table: (size), index: (n):i32, y: (n), dense
// A lookup is uniform where the 32 lanes of a warp read one element, else divergent. On the CPU the size of the table,
// or of the image, decides whether L1, L2, L3 or memory serves it.
// What each run copies to another memory first (to shared memory by each block, to constant memory by a copy of the
// device) belongs to its time: a run may bring other values than the one before.
// Values are whole numbers and the sums of the filter exact: at most 25 * 255 * 15.
#pragma once
#include <functional>

#include "ops/study/study.h"

namespace duet {

struct MemoryKindFilter {
  static constexpr const char* name = "study/memory_kind_filter";
  static constexpr const char* formula = "y[i,j] = sum_{r,s < 5} weight[r,s] x[i + r,j + s]";
  static constexpr Slot x = input(0, "x"), weight = input(1, "weight"), y = output(2, "y");
  static constexpr bool exact_on_integers = true;
  static constexpr int64_t kSide = 5;

  int64_t h = 0, w = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x, weight and y");
    field("h", h, "rows of y");
    field("w", w, "columns of y");
  }
  std::string invalid() const {
    constexpr int64_t kMax = 1 << 20;
    return first_of({within("h", h, 0, kMax), within("w", w, 0, kMax), only_f32(dtype)});
  }
  void infer(Shapes s) {
    h = s[x][0] - kSide + 1;
    w = s[x][1] - kSide + 1;
  }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {h + kSide - 1, w + kSide - 1}, Fill::below(256)),
            weight.of(dtype, {kSide, kSide}, Fill::below(16)), y.of(dtype, {h, w})};
  }
  double flops() const { return 2.0 * kSide * kSide * static_cast<double>(h * w); }
  Tolerance tolerance() const { return {}; }
  int64_t slices() const { return h; }
  void reference(Inputs in, int64_t row, Expect& expect) const;  // cpu_ref/study/memory_kind.cpp

  static Cases cases(Scale scale) {
    return by_scale(
        scale, {{"no rows", "h:0 w:5"}, {"one output", "h:1 w:1"}, {"tiles, the last short", "h:19 w:70"}},
        {{"4 MiB", "h:1024 w:1024"}, {"in the first cache: 16 KiB", "h:60 w:60"}, {"256 KiB", "h:256 w:256"}},
        {{"64 MiB", "h:4096 w:4096"}});
  }
};

struct MemoryKindLookup {
  static constexpr const char* name = "study/memory_kind_lookup";
  static constexpr const char* formula = "y[i] = table[index[i]]";
  static constexpr Slot table = input(0, "table"), index = input(1, "index"), y = output(2, "y");
  static constexpr bool exact_on_integers = true;
  static constexpr Roofs roofs{.cpu = false, .gpu = false};  // latencies and conflicts take the time

  int64_t size = 0, n = 0;
  bool uniform = false;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of table and y");
    field("size", size, "elements of the table");
    field("n", n, "lookups");
    field.option("uniform", uniform, "32 neighbours look up one element");
  }
  std::string invalid() const {
    if (size == 0 && n > 0) return "size: 1 or more where elements are looked up, is 0";
    return first_of({within("size", size, 0, INT32_MAX), only_f32(dtype)});
  }
  void infer(Shapes s) {
    size = s[table][0];
    n = s[index][0];
  }
  std::vector<TensorSpec> tensors() const {
    return {table.of(dtype, {size}).touching(std::min(size, n)),
            index.of(DType::i32, {n}, Fill::below(std::max<int64_t>(1, size))), y.of(dtype, {n})};
  }
  std::function<double(int64_t, uint32_t)> drawn(int slot) const {
    if (slot != index.index || !uniform) return {};
    return [most = static_cast<uint64_t>(std::max<int64_t>(1, size))](int64_t element, uint32_t) {
      const uint64_t mixed = (static_cast<uint64_t>(element / 32) + 1) * 0x9E3779B97F4A7C15u >> 32;
      return static_cast<double>(mixed % most);
    };
  }
  double flops() const { return 0; }
  Tolerance tolerance() const { return {}; }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/study/memory_kind.cpp

  static Cases cases(Scale scale) {
    const Words ways{"uniform:0", "uniform:1"};
    const Cases test{{"nothing", "size:1 n:0"}, {"one", "size:1 n:1"}, {"prime", "size:61 n:1031"}};
    const Cases small{{"4 KiB: in the first cache, in shared and constant memory", "size:1024 n:1048576"}};
    const Cases large{{"256 KiB: in the second cache", "size:65536 n:1048576"},
                      {"4 MiB", "size:1048576 n:1048576"},
                      {"64 MiB", "size:16777216 n:1048576"}};
    return by_scale(scale, across(ways, test), concat({across(ways, small), large}),
                    {{"512 MiB: in memory", "size:134217728 n:1048576"}});
  }
};

}  // namespace duet
