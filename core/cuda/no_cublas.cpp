// SPDX-License-Identifier: Apache-2.0
// Replaces cublas.cpp and cublas_ceilings.cpp where the library is missing. No implementation then needs a handle.
#include "core/cuda/ceilings.h"
#include "core/cuda/versions.h"

namespace duet::cuda {

std::string cublas_version() { return ""; }
std::string cublas_header_version() { return ""; }
std::vector<Ceiling> measure_library_ceilings(GpuContext&, bool) { return {}; }

}  // namespace duet::cuda
