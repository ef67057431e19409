// SPDX-License-Identifier: Apache-2.0
// Registers, spills and shared memory of each kernel, as nvcc reported them during the build. Used by
// kernel_profile.cpp.
#pragma once
#include <string>
#include <vector>

namespace duet {

struct KernelResources {
  std::string kernel;    // "softmax_kernel<float, 32, 4>", as KernelProfile::name
  std::string file;      // "softmax_tuned.cu", of the copy (kernel_code.h)
  int architecture = 0;  // 90
  int registers = 0, stack_bytes = 0, spill_store_bytes = 0, spill_load_bytes = 0, static_shared_bytes = 0;
};

// A demangled name as KernelProfile has it: "void duet::cuda::(anonymous namespace)::softmax_kernel<float,
// (int)32>(float const*)" becomes "softmax_kernel<float, 32>".
std::string short_kernel_name(std::string demangled);
// text: what ptxas -v prints, with demangled names; before what it prints of a file, a line "file softmax_tuned.cu".
std::vector<KernelResources> parse_ptxas(const std::string& text);
// Of this build; empty where it was made without a CUDA compiler.
const std::vector<KernelResources>& kernel_resources();

}  // namespace duet
