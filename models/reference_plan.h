// SPDX-License-Identifier: Apache-2.0
// The reference as a plan on CPU memory: every slice of Problem::reference, stored in whatever dtype its tensors have.
#pragma once
#include "core/registry.h"

namespace duet {

// Tensors may alias as the contract allows. It allocates when run: the judge is not timed.
Plan reference_plan(const Problem& problem);

}  // namespace duet
