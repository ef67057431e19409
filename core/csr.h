// SPDX-License-Identifier: Apache-2.0
// Matrices in compressed sparse rows (CSR) that come from outside.
#pragma once
#include "core/fill.h"
#include "core/problem.h"

namespace duet {

// A problem whose attribute `checked` is 0 says that its indices are valid, and libraries read what they point to.
// Throws Error, naming tensor, element, value and what is allowed, unless `row` ascends from 0 to the number of entries
// and each `col` lies in [0, k). Does nothing for other problems.
void require_csr(const Problem& problem, const HostTensors& inputs);

}  // namespace duet
