// SPDX-License-Identifier: Apache-2.0
// Versions of the optional libraries: "" where this build lacks the library, "unavailable" where it does not report
// one.
#pragma once
#include <string>

namespace duet::cuda {

std::string cublas_version();         // of the library that is loaded
std::string cublas_header_version();  // of the headers that this build used
std::string cudnn_version();
std::string cudnn_header_version();

}  // namespace duet::cuda
