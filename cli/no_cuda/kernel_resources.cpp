// SPDX-License-Identifier: Apache-2.0
// Takes the place of the embedded output of ptxas in a build without a CUDA compiler: nothing is known of the kernels.
namespace duet {
extern const char* const duet_kernel_resources;
const char* const duet_kernel_resources = "";
}  // namespace duet
