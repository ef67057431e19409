// SPDX-License-Identifier: Apache-2.0
#include "core/composed_plan.h"

#include "core/error.h"
#include "core/registry.h"

namespace duet {

ComposedPlan::Source::Source(Slot slot) : slot_(slot.index) {
  if (slot.index < 0) throw Error("a part of a plan: the whole has no {}", slot.name);
}

ComposedPlan::Source ComposedPlan::Source::from(int64_t bytes) const {
  Source part = *this;
  part.bytes_ += bytes;
  return part;
}

ComposedPlan::Source ComposedPlan::between(const TensorSpec& spec) { return Source(layout_.add_bytes(spec.bytes())); }

void ComposedPlan::add(Plan part, const std::vector<TensorSpec>& tensors, std::vector<Source> sources) {
  if (sources.size() != tensors.size())
    throw Error("a part of a plan: {} sources of {} tensors", sources.size(), tensors.size());
  if (!part) {
    if (unsupported_reason_.empty()) unsupported_reason_ = part.reason();
    return;
  }
  if (!algorithm_.ends_with(part.algorithm)) algorithm_ += (algorithm_.empty() ? "" : "; ") + part.algorithm;
  varies_ |= part.varies;
  const WorkspacePiece<void> workspace = layout_.add(part.workspace);
  std::vector<Tensor> views;
  for (const TensorSpec& spec : tensors) views.push_back({nullptr, spec.dtype, spec.role});
  parts_.push_back({std::move(part), workspace, std::move(sources), std::move(views)});
}

void ComposedPlan::run(const Args& args) {
  for (Part& part : parts_) {
    for (size_t i = 0; i < part.sources.size(); ++i) {
      const Source& source = part.sources[i];
      void* const data = source.slot_ < 0 ? args.workspace(source.piece_) : args[Slot{source.slot_, "", Role::in}].data;
      part.tensors[i].data = static_cast<char*>(data) + source.bytes_;
    }
    part.plan(Args(part.tensors.data(), args.workspace(part.workspace), part.workspace.bytes()));
  }
}

Plan ComposedPlan::plan() && {
  if (!unsupported_reason_.empty()) return Unsupported{unsupported_reason_};
  std::string algorithm = algorithm_;
  WorkspaceLayout layout = layout_;
  const bool varies = varies_;
  return Plan([whole = std::move(*this)](const Args& args) mutable { whole.run(args); })
      .with(std::move(algorithm), std::move(layout))
      .varying(varies);
}

Plan registered_plan(std::string_view op, std::string_view variant, const void* problem, Context& context) {
  const std::string name = std::string(name_of(context.device())) + "." + std::string(variant);
  const Implementation* implementation = find_implementation(op, name);
  if (!implementation) throw Error("a part of a plan: no {} of {}", name, op);
  return implementation->function.call(implementation->function.function, problem, context);
}

}  // namespace duet
