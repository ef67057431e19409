// SPDX-License-Identifier: Apache-2.0
// What the parts of softgpu_selftest share. Start reading in main.cpp.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "softgpu/program.h"

namespace duet::softgpu {

constexpr int kWords = 1024;  // of the buffer that every kernel gets

// A kernel of the parameter %out, with %lane, its own 4 bytes at %mine, and registers to use.
std::string kernel_text(const std::string& body, const std::string& declarations = "");

// Runs it with one block and returns the buffer. Word i of each variable in constant memory is 100 + i.
std::vector<uint32_t> run(const std::string& text, const std::vector<uint32_t>& input = {}, uint32_t threads = kLanes,
                          uint32_t dynamic_shared = 0);

struct Tally {
  int passed = 0, all = 0;
  void expect(bool right, const std::string& what);
};

// Runs a product of wgmma, and `behind` it, and returns how many of its sums are right. failure: of the run, if any.
constexpr int kSumsOfWgmma = 384;
constexpr const char* kWaitForSums = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; ";
int right_sums_of_wgmma(const std::string& behind, std::string& failure);  // answers.cpp

void known_answers(Tally& t);     // answers.cpp
void planted_errors(Tally& t);    // kernels.cpp
void planted_programs(Tally& t);  // programs.cpp

}  // namespace duet::softgpu
