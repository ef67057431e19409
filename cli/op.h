// SPDX-License-Identifier: Apache-2.0
// duet op: one op by one implementation, on the user's tensors or on drawn ones.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace duet {

struct OpOptions {
  std::string op, implementation;
  std::string label;                                     // a case as in job names: f32/rows:64/cols:1000
  std::vector<std::string> attributes, inputs, outputs;  // name=value, tensor=file, tensor=file
  bool list = false, describe = false, check = false, time = false;
  std::optional<uint64_t> seed;  // draws the inputs that no file gives
  std::optional<int> threads;
};

// 0 done, 1 wrong under --check, 77 unsupported or no device. Throws Error on usage that cannot be served.
int run_op(const OpOptions& options);

}  // namespace duet
