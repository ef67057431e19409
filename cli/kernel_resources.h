// SPDX-License-Identifier: Apache-2.0
// What the CUDA compiler made of each kernel, as the build kept it: registers, spills, shared memory.
#pragma once
#include <string>
#include <vector>

namespace duet {

struct KernelResources {
  std::string kernel;    // "softmax_kernel<float, 32, 4>", as KernelProfile::name
  int architecture = 0;  // 90
  int registers = 0, stack_bytes = 0, spill_store_bytes = 0, spill_load_bytes = 0, static_shared_bytes = 0;
};

std::vector<KernelResources> parse_ptxas(const std::string& text);  // of ptxas -v, demangled
const std::vector<KernelResources>& kernel_resources();             // of this build; empty without a CUDA compiler

}  // namespace duet
