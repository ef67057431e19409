// SPDX-License-Identifier: Apache-2.0
// The calls of NVTX, for nvtx.cpp alone. nvtx_tool.cpp makes them; no_nvtx_tool.cpp stands in for it where the build
// found no NVTX. A profiler is attached by the environment: NVTX loads it at the first of these calls.
#pragma once
#include <cstdint>
#include <string>

namespace duet::nvtx_tool {

struct Payload {
  uint64_t bytes;
  double flops;
};

void* register_string(const std::string& text);
uint32_t category(const std::string& name);                        // the same number for the same name
void push(void* text, uint32_t category, const Payload* payload);  // payload: null for none
void pop();
void name_thread(const std::string& name);
bool built();

}  // namespace duet::nvtx_tool
