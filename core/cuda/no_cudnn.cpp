// SPDX-License-Identifier: Apache-2.0
// Replaces cudnn.cpp where the library is missing. No implementation then needs a handle.
#include "core/cuda/versions.h"

namespace duet::cuda {

std::string cudnn_version() { return ""; }
std::string cudnn_header_version() { return ""; }

}  // namespace duet::cuda
