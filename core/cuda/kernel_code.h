// SPDX-License-Identifier: Apache-2.0
// What the runtime says of a kernel's code. Only for questions that have no answer on the host.
#pragma once
#include <cstdint>

namespace duet::cuda {

// Of the compilation of the kernel that the current device runs.
int64_t static_shared_bytes(const void* kernel);

}  // namespace duet::cuda
