// SPDX-License-Identifier: Apache-2.0
// The reference as a plan on CPU memory, for tapes with the preference "reference": it computes every slice by
// Problem::reference and stores the results in the dtypes that the tensors have.
#pragma once
#include "core/registry.h"

namespace duet {

// Tensors may alias as the contract allows. Unlike other plans it allocates when it runs, since the reference is not
// timed.
Plan reference_plan(const Problem& problem);

}  // namespace duet
