// SPDX-License-Identifier: Apache-2.0
// Stands in for cudnn.cpp where the library is missing: then no implementation asks for a handle.
#include "core/cuda/versions.h"

namespace duet::cuda {

std::string cudnn_version() { return ""; }
std::string cudnn_header_version() { return ""; }

}  // namespace duet::cuda
