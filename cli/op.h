// SPDX-License-Identifier: Apache-2.0
// duet op: runs one op by one implementation, on the user's tensors or on drawn ones. Called by main.cpp.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace duet {

struct OpOptions {
  std::string op, implementation;
  std::string case_text;                                 // core/cases.h; dimensions may be left to the inputs
  std::vector<std::string> attributes, inputs, outputs;  // name=value, tensor=file, tensor=file
  bool list = false, describe = false, check = false, time = false;
  std::optional<uint64_t> seed;  // draws every input that has no file
  std::optional<int> threads;
};

// Returns 0, kFailed when --check finds a wrong answer, or kUnsupported. Throws Error on wrong usage.
int run_op(const OpOptions& options);

}  // namespace duet
