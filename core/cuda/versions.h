// SPDX-License-Identifier: Apache-2.0
// Versions of the optional libraries: "" where this build has none, "unavailable" where the library does not answer.
#pragma once
#include <string>

namespace duet::cuda {

std::string cublas_version();         // of the library that was loaded
std::string cublas_header_version();  // of the one that was compiled against
std::string cudnn_version();
std::string cudnn_header_version();

}  // namespace duet::cuda
