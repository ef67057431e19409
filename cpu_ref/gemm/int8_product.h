// SPDX-License-Identifier: Apache-2.0
// Products of i8 with sums in i32 on the CPU, for linear_int8 and gemm of i8. int8.h has its micro-kernels.
#pragma once
#include <functional>
#include <string>

#include "core/cpu_context.h"
#include "core/plan.h"
#include "cpu_ref/gemm/int8.h"

namespace duet::int8 {

// x (rows, depth) times the transpose of w (columns, depth), both row-major and dense.
class Product {
 public:
  Product(int64_t rows, int64_t columns, int64_t depth, CpuContext& cpu, WorkspaceLayout& workspace);
  // Takes one piece of the sums. Threads call it at the same time, for pieces that do not overlap.
  using Use = std::function<void(const Finish& piece)>;
  void operator()(const Args& t, const int8_t* x, const int8_t* w, const Use& use) const;
  std::string describe() const;

 private:
  void dot_products(const Args& t, const int8_t* x, const int8_t* w, const Use& use) const;
  template <bool kVnni>
  void tiles(const Args& t, const int8_t* x, const int8_t* w, const Use& use) const;
  int64_t task_lanes() const;

  int64_t rows_, columns_, depth_;
  bool vnni_, dots_, forks_;  // dots_: of few rows; forks_: several threads share the work
  CpuContext* cpu_;
  int64_t step_ = 0;                                            // of a padded row of x, for dot products
  int64_t steps_ = 0, parts_ = 0, task_tiles_ = 0, block_ = 0;  // for tiles: of k; of a strip; of a task; of k
  WorkspacePiece<int8_t> padded_;
  WorkspacePiece<int32_t> packed_, offsets_, sums_;
};

}  // namespace duet::int8
