// SPDX-License-Identifier: Apache-2.0
// How many instructions the machine code of each kernel has that is in this program: equal sources and compilers give
// equal numbers. Used by kernel_profile.cpp. tools/sass_profile reads the same code in detail, with a disassembler.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace duet {

struct KernelCode {
  std::string kernel;  // "softmax_kernel<float, 32, 4>", as KernelProfile::name
  int architecture = 0;
  int64_t instructions = 0;  // in the code, not executed; without padding
};

// section: .nv_fatbin of an ELF file, as nvcc writes it for compute capabilities from 7.0 on. What it cannot read, such
// as compressed code, is left out.
std::vector<KernelCode> parse_fat_binaries(std::span<const uint8_t> section);
// Of this program; empty where it has no CUDA side.
const std::vector<KernelCode>& kernel_code();

}  // namespace duet
