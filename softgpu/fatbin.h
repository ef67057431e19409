// SPDX-License-Identifier: Apache-2.0
// The PTX that nvcc keeps in an object beside the machine code.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace duet::softgpu {

struct PtxText {
  int capability;  // 90: written for compute_90 or compute_90a
  std::string text;
};

// Every PTX text of a fat binary, as a program passes it to __cudaRegisterFatBinary (a wrapper that points at it).
// Throws Error for a form that this reader does not know.
std::vector<PtxText> ptx_of(const void* wrapper);

}  // namespace duet::softgpu
