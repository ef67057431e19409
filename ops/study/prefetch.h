// SPDX-License-Identifier: Apache-2.0
// Lines of 64 bytes gathered from a table, with the next ones asked for `ahead` of their use.
//   x: (rows, 16), index: (n):i32, y: (n, 16), dense.
// On the CPU by software prefetch, `ahead` lines before; with order:sequential the hardware's prefetcher can follow. On
// a GPU by asynchronous copies to shared memory, in `ahead` + 1 stages, 1 to 4.
#pragma once
#include <functional>

#include "ops/study/study.h"

namespace duet {

enum class PrefetchOrder : uint8_t { random, sequential };
inline std::vector<std::string> names_of(PrefetchOrder) { return {"random", "sequential"}; }

struct Prefetch {
  using Order = PrefetchOrder;
  static constexpr const char* name = "study/prefetch";
  static constexpr const char* formula = "y[i,c] = x[index[i],c], c < 16";
  static constexpr Slot x = input(0, "x"), index = input(1, "index"), y = output(2, "y");
  static constexpr bool exact_on_integers = true;
  static constexpr Roofs roofs{.cpu = false, .gpu = false};  // latencies take the time
  static constexpr int64_t kCols = 16, kMaxAhead = 256;

  int64_t rows = 0, n = 0;
  int64_t ahead = 0;
  Order order = Order::random;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("rows", rows, "lines of the table");
    field("n", n, "lines that are gathered");
    field.option("ahead", ahead, "lines, or stages, that are asked for before their use, 0 to 256");
    field.option("order", order, "of the lines in the table");
  }
  std::string invalid() const {
    if (rows == 0 && n > 0) return "rows: 1 or more where lines are gathered, is 0";
    return first_of({within("rows", rows, 0, INT32_MAX), within("ahead", ahead, 0, kMaxAhead), only_f32(dtype)});
  }
  void infer(Shapes s) {
    rows = s[x][0];
    n = s[index][0];
  }
  std::vector<TensorSpec> tensors() const {
    const int64_t read = std::min(rows, n) * kCols;
    return {x.of(dtype, {rows, kCols}).touching(read),
            index.of(DType::i32, {n}, Fill::below(std::max<int64_t>(1, rows))), y.of(dtype, {n, kCols})};
  }
  // In order: line after line, and from the first again behind the last.
  std::function<double(int64_t, uint32_t)> drawn(int slot) const {
    if (slot != index.index || order == Order::random) return {};
    return
        [rows = std::max<int64_t>(1, rows)](int64_t element, uint32_t) { return static_cast<double>(element % rows); };
  }
  double flops() const { return 0; }
  Tolerance tolerance() const { return {}; }
  int64_t slices() const { return ceil_div(n, kChunk / kCols); }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/study/prefetch.cpp

  static Cases cases(Scale scale) {
    const Cases test =
        across({"ahead:0", "ahead:1", "ahead:2", "ahead:3"}, {{"nothing", "rows:1 n:0"},
                                                              {"one line", "rows:1 n:1"},
                                                              {"lines twice", "rows:31 n:67"},
                                                              {"in order", "rows:300 n:257 order:sequential"}});
    const Words aheads{"ahead:0", "ahead:1", "ahead:2", "ahead:3", "ahead:8", "ahead:16", "ahead:32"};
    // As many reads as lines: the indices are those of every run, and lines that a few reads take stay in a cache.
    return by_scale(
        scale, test,
        concat({across(aheads, {{"a table of 64 MiB", "rows:1048576 n:1048576"}}),
                across({"ahead:0", "ahead:8"}, {{"the same in order", "rows:1048576 n:1048576 order:sequential"}})}),
        across(aheads, {{"a table of 1 MiB", "rows:16384 n:131072"}}));
  }
};

}  // namespace duet
