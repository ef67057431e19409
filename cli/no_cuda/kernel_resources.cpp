// SPDX-License-Identifier: Apache-2.0
// Without a CUDA compiler nobody knows what it would make of the kernels.
namespace duet {
extern const char* const duet_kernel_resources;
const char* const duet_kernel_resources = "";
}  // namespace duet
