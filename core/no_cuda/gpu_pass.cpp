// SPDX-License-Identifier: Apache-2.0
#include "core/pass.h"

namespace duet {

std::unique_ptr<Passes> gpu_passes(Context&) { return nullptr; }

}  // namespace duet
