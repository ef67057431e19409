// SPDX-License-Identifier: Apache-2.0
// How many instructions the machine code of each kernel has that is in this program: equal sources and compilers give
// equal numbers. Used by kernel_profile.cpp. tools/sass_profile reads the same code in detail, with a disassembler.
//
// Kernels of different files may have one short name. Those in an anonymous namespace and static ones are told apart by
// their file. A template of a header has a copy in each file that uses it; the copies are one kernel.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace duet {

struct KernelCode {
  std::string kernel;  // "softmax_kernel<float, 32, 4>", as KernelProfile::name
  std::string file;    // "softmax_tuned.cu", of the copy; empty where the code does not tell
  int architecture = 0;
  int64_t instructions = 0;  // in the code, not executed; without padding
};

// section: .nv_fatbin of an ELF file, as nvcc writes it for compute capabilities from 7.0 on. What it cannot read, such
// as code compressed with zstd, is left out.
std::vector<KernelCode> parse_fat_binaries(std::span<const uint8_t> section);
// Of this program; empty where it has no CUDA side.
const std::vector<KernelCode>& kernel_code();

// "softmax_tuned.cu": the file of a kernel on the host (KernelProfile::function). Empty where several files share it,
// and where this program has no symbols.
std::string source_file_of(const void* function);

// Of `all`, such as kernel_code(), what belongs to a kernel, one for each architecture. file: as source_file_of() says;
// where it is empty, of the copies in several files the one that `larger(a, b)` prefers.
template <class T, class Larger>
std::vector<T> of_kernel(const std::vector<T>& all, const std::string& kernel, const std::string& file,
                         const Larger& larger) {
  std::vector<T> found;
  for (const T& one : all) {
    if (one.kernel != kernel || (!file.empty() && !one.file.empty() && one.file != file)) continue;
    const auto same = std::find_if(found.begin(), found.end(),
                                   [&](const T& other) { return other.architecture == one.architecture; });
    if (same == found.end())
      found.push_back(one);
    else if (larger(one, *same))
      *same = one;
  }
  return found;
}

}  // namespace duet
