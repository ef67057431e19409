// SPDX-License-Identifier: Apache-2.0
// Addresses of this program as source lines, for reports and profiles. It asks addr2line.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace duet::simt::host {

// An instruction, as its distance from where the program was loaded.
using Pc = uint32_t;
extern const uintptr_t kLoadAddress;
inline Pc pc_of(const void* return_address) {  // of the call before it
  return static_cast<Pc>(reinterpret_cast<uintptr_t>(return_address) - kLoadAddress - 1);
}

struct Frame {
  std::string function;  // "void duet::simt::softmax_kernel<float, 32, 4>(...)"
  std::string line;      // "kernels/norm/softmax_tuned.cu:38"
};
// Innermost first: each frame was inlined into the next. Without debug information, or without addr2line, it is one
// frame: "pc 0x1234".
const std::vector<Frame>& frames(Pc pc);
void resolve(const std::vector<Pc>& pcs);      // many at once: much faster than one by one
extern bool resolve_lines;                     // false where reports are not printed: they then contain bare addresses
std::string line(Pc pc);                       // "kernels/vector.cuh:140 (in kernels/norm/softmax_tuned.cu:38)"
std::string function_at(const void* address);  // without parameters and namespaces

}  // namespace duet::simt::host
