// SPDX-License-Identifier: Apache-2.0
// Checks every element of a product at a fraction of its cost, as R. Freivalds does (Probabilistic machines can use
// less running time, 1977). A contract names a dimension along which its outputs are linear (LinearAxis), such as the
// columns of a matrix product c = a b. Blocks of its entries are summed with signs r of +-1: c r must be a (b r), which
// is the answer of a smaller problem. The reference computes that, in double.
//
// What is seen. A correct output differs from c r by the sum of its roundings in a block, whose signs are random. With
// blocks of some 8 to 64 entries that is far below the bound of one element: the bound of a sum of k terms covers the
// worst case, k roundings of one sign, and typical errors are smaller by a factor near sqrt(k) or more. The error of
// one wrong element stands undiminished beside it. So a block that is off by more than half of the bound of a typical
// element is looked at again: its entries are selected instead of summed, the reference computes each, and each is
// compared with its own bound. The verdict is always the reference's, so that a correct output never fails. Where
// roundings alone are that large (short sums, 16-bit outputs), the worst blocks are looked at, and errors that
// disappear in these roundings stay unseen: core/coverage.h compares 16-bit outputs with those in f32, which were
// checked here.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/answer.h"

namespace duet {

class Projection {
 public:
  // Of a problem with a linear axis. `inputs` are kept by reference. Computes the answer of the smaller problem.
  Projection(const Problem& problem, const HostTensors& inputs, uint64_t seed);
  static bool applies(const Problem& problem) { return problem.linear_axis().has_value(); }
  // Seconds that it takes, where the whole reference takes `reference_s`.
  static double seconds(const Problem& problem, double reference_s);

  // Compares the outputs of `compared`: the problem, or the same in another dtype with inputs of equal values.
  Check compare(const Problem& compared, const HostTensors& got) const;

 private:
  struct Blocks {
    int64_t size = 1, count = 0;  // entries of a block; blocks of a group
  };
  static Blocks blocks_of(const LinearAxis& axis);
  // The problem in double with `entries` entries in each group.
  Problem smaller(int64_t entries) const;
  // A tensor of `from` in double, where each group of its axis has the sums of blocks, or the entries [first, last).
  void sum_blocks(const HostTensors& from, size_t slot, HostTensors& to) const;
  void select(const HostTensors& from, size_t slot, int64_t first, int64_t last, HostTensors& to) const;
  Check compare_block(const Problem& compared, const HostTensors& got, int64_t block) const;
  std::optional<size_t> axis_of(size_t slot) const;

  Problem problem_;
  const HostTensors* inputs_;
  LinearAxis axis_;
  Blocks blocks_;
  std::vector<float> signs_;  // of the entries of a group
  std::optional<Answer> sums_;
};

}  // namespace duet
