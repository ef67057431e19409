// SPDX-License-Identifier: Apache-2.0
// A kernel launch with its limits checked. Kernels reach it through simt/launch.h.
#pragma once
#include "core/grid.h"

namespace duet::cuda {

// Enqueues kernel(*args[0], *args[1], ...). Nothing happens for an empty grid. Allows more than 48 KiB of dynamic shared
// memory where asked. Throws Error that names the limit when the grid breaks one.
void launch_kernel(const void* kernel, const Grid& grid, void** args);

}  // namespace duet::cuda
