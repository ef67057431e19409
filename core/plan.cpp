// SPDX-License-Identifier: Apache-2.0
#include "core/plan.h"

#include "core/error.h"

namespace duet {

void Tensor::refuse(DType wanted, bool constant) const {
  if (wanted != dtype) throw Error("a plan read a {} tensor as {}", name_of(dtype), name_of(wanted));
  throw Error("a plan asked to write to an input tensor (constant view: {})", constant);
}

}  // namespace duet
