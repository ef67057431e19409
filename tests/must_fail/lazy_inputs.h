// SPDX-License-Identifier: Apache-2.0
// The inputs of a case as draw_inputs() draws them, but each part only when it is read: the reference of some slices
// reads little of a large case. A tensor's memory has no access at first; the handler of the fault draws a granule
// into a second mapping of the same memory and then lets it be read.
#pragma once
#include <memory>
#include <vector>

#include "core/fill.h"

namespace duet::must_fail {

class LazyInputs {
 public:
  LazyInputs(const Problem& problem, uint64_t seed);
  ~LazyInputs();
  LazyInputs(const LazyInputs&) = delete;
  LazyInputs& operator=(const LazyInputs&) = delete;

  const std::vector<TensorSpec>& specs() const { return specs_; }
  const std::vector<Inputs::Values>& values() const { return values_; }  // null for outputs
  int64_t drawn_bytes() const;

 private:
  class Tensor;
  std::vector<TensorSpec> specs_;
  std::vector<Inputs::Values> values_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
};

}  // namespace duet::must_fail
