// SPDX-License-Identifier: Apache-2.0
// A kernel launch with its limits checked. Kernels reach it through simt/launch.h.
#pragma once
#include "core/grid.h"

namespace duet::cuda {

// Enqueues kernel(*args[0], *args[1], ...); does nothing for an empty grid. Raises the kernel's limit of dynamic shared
// memory where the grid has more than 48 KiB. Throws Error that names the limit when the grid exceeds one.
void launch_kernel(const void* kernel, const Grid& grid, void** args);

}  // namespace duet::cuda
