// SPDX-License-Identifier: Apache-2.0
// A plan of parts: plans of other problems that run one after the other, on the tensors of the whole and on memory of
// its workspace between them. An op that holds several passes is composed of the plans that these have by themselves:
//   ComposedPlan plan;
//   const auto between = plan.between(spec);
//   plan.add(first, its.tensors(), {Whole::x, between});
//   plan.add(second, its.tensors(), {between, Whole::y});
//   return std::move(plan).plan();
#pragma once
#include <string_view>
#include <vector>

#include "core/context.h"
#include "core/plan.h"

namespace duet {

class ComposedPlan {
 public:
  // Where a part finds a tensor: the whole's tensor of this slot, or memory between the parts.
  class Source {
   public:
    Source(Slot slot);  // throws Error where the problem has no such tensor
    // So many bytes behind its beginning: the part of a layer in the weights of several.
    Source from(int64_t bytes) const;

   private:
    friend ComposedPlan;
    explicit Source(WorkspacePiece<void> piece) : piece_(piece) {}
    int slot_ = -1;
    int64_t bytes_ = 0;
    WorkspacePiece<void> piece_;
  };

  Source between(const TensorSpec& spec);
  // tensors: of the part's problem; sources: of each of them. Once a part is not supported, the whole is not. What a
  // part could prepare (Plan::prepared) it prepares in every run.
  void add(Plan part, const std::vector<TensorSpec>& tensors, std::vector<Source> sources);
  Plan plan() &&;

 private:
  struct Part {
    Plan plan;
    WorkspacePiece<void> workspace;
    std::vector<Source> sources;
    std::vector<Tensor> tensors;  // without addresses
  };
  void run(const Args& args);
  std::vector<Part> parts_;
  WorkspaceLayout layout_;
  std::string unsupported_reason_, algorithm_;
  bool varies_ = false;
};

// For a part: the plan of another op by its registered implementation of this device. Throws Error where there is none.
Plan registered_plan(std::string_view op, std::string_view variant, const void* problem, Context& context);
template <class P>
Plan registered_plan(const P& problem, std::string_view variant, Context& context) {
  return registered_plan(P::name, variant, &problem, context);
}

}  // namespace duet
