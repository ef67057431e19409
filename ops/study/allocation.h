// SPDX-License-Identifier: Apache-2.0
// Memory of `pages` pages of 4 KiB: it is obtained, each page is touched for the first time and read again, and it is
// given back. x, y: (pages), dense: what is written to the pages, and what was read from them.
// Each implementation is a way to obtain memory. The arena's was obtained before and is used again; malloc's may
// be what an earlier run freed.
#pragma once
#include "ops/study/study.h"

namespace duet {

struct Allocation {
  static constexpr const char* name = "study/allocation";
  static constexpr const char* formula = "memory[4096 p] = x[p]; y[p] = memory[4096 p], in memory that is new";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");
  static constexpr bool exact_on_integers = true;
  static constexpr Roofs roofs{.cpu = false, .gpu = false};  // the system takes the time
  static constexpr int64_t kPageBytes = 4096;

  int64_t pages = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("pages", pages, "pages of 4 KiB");
  }
  std::string invalid() const {
    constexpr int64_t kMaxPages = int64_t{1} << 28;  // 1 TiB
    return first_of({within("pages", pages, 0, kMaxPages), only_f32(dtype)});
  }
  void infer(Shapes s) { pages = s[x][0]; }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {pages}), y.of(dtype, {pages})}; }
  double flops() const { return 0; }
  Tolerance tolerance() const { return {}; }
  int64_t slices() const { return chunks(pages); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/study/allocation.cpp

  static Cases cases(Scale scale) {
    const Cases test{{"nothing", "pages:0"}, {"a page", "pages:1"}, {"over a huge page", "pages:1031"}};
    const Cases standard{{"4 MiB", "pages:1024"}, {"4 KiB", "pages:1"},     {"64 KiB", "pages:16"},
                         {"1 MiB", "pages:256"},  {"16 MiB", "pages:4096"}, {"64 MiB", "pages:16384"}};
    return by_scale(scale, test, standard, {{"256 MiB", "pages:65536"}, {"1 GiB", "pages:262144"}});
  }
};

}  // namespace duet
