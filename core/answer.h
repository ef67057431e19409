// SPDX-License-Identifier: Apache-2.0
// Every element that the outputs of a case should hold, and the comparison of a whole output with it. core/compare.h
// has the same for sampled slices; core/coverage.h chooses where the answer comes from.
#pragma once
#include <string>
#include <vector>

#include "core/compare.h"
#include "core/fill.h"
#include "core/registry.h"

namespace duet {

class Answer {
 public:
  // The reference, all slices, on all threads. Throws Error where it does not claim each output element once.
  static Answer by_reference(const Problem& problem, const HostTensors& inputs);

  // About how long by_reference() takes, from some milliseconds of each kind of slices, on this thread.
  static double seconds_by_reference(const Problem& problem, const HostTensors& inputs);

  // The outputs of an implementation of `by`, which may be the problem in a wider dtype. They are not exact: the bounds
  // of both are added. max_abs_sums[slot] stands for the abs_sum of each element.
  static Answer by_outputs(const Problem& by, HostTensors outputs, std::vector<double> max_abs_sums);

  // Compares each element of each output, on all threads. Like compare(), but for the search for elements that were
  // never written.
  Check compare(const Problem& problem, const HostTensors& got) const;

  Claim claim(int slot, int64_t index) const;
  int64_t elements() const { return elements_; }

 private:
  struct Tensor {
    HugeVector<double> want;    // by the reference
    HugeVector<float> abs_sum;  // by the reference, where a tolerance asks for it
    Tolerance own;              // of the answer itself; 0 for the reference
  };
  std::vector<Tensor> tensors_;  // by slot
  HostTensors outputs_;
  std::vector<double> max_abs_sums_;
  int64_t elements_ = 0;
};

}  // namespace duet
