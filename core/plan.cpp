// SPDX-License-Identifier: Apache-2.0
#include "core/plan.h"

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

}  // namespace duet
