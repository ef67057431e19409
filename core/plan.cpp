// SPDX-License-Identifier: Apache-2.0
#include "core/plan.h"

#include <array>

#include "core/error.h"

namespace duet {

void Tensor::refuse(DType wanted, bool constant) const {
  if (wanted != dtype) throw Error("a plan read a {} tensor as {}", name_of(dtype), name_of(wanted));
  throw Error("a plan asked to write to an input tensor (constant view: {})", constant);
}

void Args::refuse(int64_t wanted_bytes) const {
  throw Error("a plan uses {} bytes of workspace, but {} were brought: it must state what it uses (Plan::with)",
              wanted_bytes, workspace_bytes_);
}

void Plan::prepare(Args args) {
  if (!prepare_) return;
  std::array<Tensor, kMaxTensors> seen{};
  for (const Slot& s : prepared_inputs_) seen.at(static_cast<size_t>(s.index)) = args[s];
  prepare_->call(args.with_tensors(seen.data()));
}

std::string Plan::prepared_names() const {
  std::string names;
  for (const Slot& s : prepared_inputs_) names += (names.empty() ? "" : ", ") + std::string(s.name);
  return names;
}

}  // namespace duet
