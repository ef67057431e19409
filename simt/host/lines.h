// SPDX-License-Identifier: Apache-2.0
// Addresses of this program as source lines.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace duet::simt::host {

// An instruction, as its distance from where the program was loaded.
using Pc = uint32_t;
Pc pc_of(const void* return_address);  // of the call before it

struct Frame {
  std::string function,
      line;  // "void duet::simt::softmax_kernel<float, 32, 4>(...)", "kernels/norm/softmax_tuned.cu:38"
};
// Innermost first: what was inlined into what. Without debug information, or without addr2line, one frame: "pc 0x1234".
const std::vector<Frame>& frames(Pc pc);
void resolve(const std::vector<Pc>& pcs);      // many at once is much faster than one by one
extern bool resolve_lines;                     // false: reports are made for nobody to read, and hold bare addresses
std::string line(Pc pc);                       // "kernels/vector.cuh:140 (in kernels/norm/softmax_tuned.cu:38)"
std::string function_at(const void* address);  // without parameters and namespaces

}  // namespace duet::simt::host
