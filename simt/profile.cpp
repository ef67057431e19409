// SPDX-License-Identifier: Apache-2.0
// Sums over a kernel's profile; also built where kernels do not run on the host.
#include "simt/profile.h"

namespace duet {

double KernelProfile::warp_efficiency() const {
  return block_executions ? static_cast<double>(block_lanes) / (32 * static_cast<double>(block_executions)) : 1;
}

KernelProfile::Sum KernelProfile::sum(bool shared, MemoryOp op) const {
  Sum sum;
  for (const AccessLine& l : lines)
    if (l.shared == shared && l.op == op) {
      sum.requests += l.requests;
      sum.cost += l.cost;
      sum.ideal += l.ideal;
    }
  return sum;
}

}  // namespace duet
