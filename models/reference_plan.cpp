// SPDX-License-Identifier: Apache-2.0
#include "models/reference_plan.h"

#include <cstring>

namespace duet {
namespace {

// Collects the results and writes them at the end: the reference may still read a tensor of which it has computed
// elements (an inout tensor, or an output that is an input as well).
class StagedResults final : public Expect {
 public:
  StagedResults(const std::vector<TensorSpec>& specs, const std::vector<Tensor>& tensors)
      : specs_(specs), tensors_(tensors) {
    for (size_t s = 0; s < specs.size(); ++s)
      results_.emplace_back(specs[s].role == Role::in ? 0 : static_cast<size_t>(bytes(s)), 0xFF);
  }
  void commit() const {
    for (size_t s = 0; s < results_.size(); ++s)
      if (!results_[s].empty()) std::memcpy(tensors_[s].data, results_[s].data(), results_[s].size());
  }

 private:
  int64_t bytes(size_t s) const { return specs_[s].elements() * size_of(tensors_[s].dtype); }
  void claim(int slot, int64_t index, double want, double) override {
    const auto s = static_cast<size_t>(slot);
    store_double(results_[s].data(), tensors_[s].dtype, index, want);
  }
  const std::vector<TensorSpec>& specs_;
  const std::vector<Tensor>& tensors_;
  std::vector<std::vector<unsigned char>> results_;
};

}  // namespace

Plan reference_plan(const Problem& problem) {
  return [problem, specs = problem.tensors()](Args args) {
    std::vector<Tensor> tensors;
    std::vector<Inputs::Values> values;
    for (size_t s = 0; s < specs.size(); ++s) {
      tensors.push_back(args[Slot{static_cast<int>(s), specs[s].name, specs[s].role}]);
      values.push_back({tensors[s].data, tensors[s].dtype});
    }
    StagedResults staged(specs, tensors);
    for (int64_t slice = 0; slice < problem.slices(); ++slice) problem.reference(Inputs(values), slice, staged);
    staged.commit();
  };
}

}  // namespace duet
