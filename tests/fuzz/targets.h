// SPDX-License-Identifier: Apache-2.0
// What is fuzzed: every reader of input that others wrote. main.cpp mutates the files of corpus/<target>/ and runs
// them.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace duet::fuzz {

using Input = std::span<const uint8_t>;

// run() may throw Error, which is how a reader refuses. Anything else is a failure: another exception, a crash, what a
// sanitizer reports, more than a second.
struct Target {
  const char* name;  // of its folder
  void (*run)(Input input);
};
const std::vector<Target>& targets();

}  // namespace duet::fuzz
