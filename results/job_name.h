// SPDX-License-Identifier: Apache-2.0
// Parts of the names of jobs and cases: "gemm/cpu.tuned/f32/...", "step/mlp/cpu/f32/batch:32", "study/launch/f32/...".
#pragma once
#include <string>

namespace duet::results {

// The op: what stands before the first '/', and of steps and studies, whose names are of two words, before the second.
inline std::string op_of(const std::string& name) {
  const bool two_words = name.starts_with("step/") || name.starts_with("study/");
  return name.substr(0, name.find('/', two_words ? name.find('/') + 1 : 0));
}

}  // namespace duet::results
