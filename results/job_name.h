// SPDX-License-Identifier: Apache-2.0
// Parts of the names of jobs and cases: "gemm/cpu.tuned/f32/...", "step/mlp/cpu/f32/batch:32", "infer/mlp/cpu/...",
// "study/launch/f32/...".
#pragma once
#include <string>

namespace duet::results {

// Whether an op is a model: a training step, or an inference. It then has its nodes (results::Step).
inline bool is_inference(const std::string& op) { return op.starts_with("infer/"); }
inline bool is_model(const std::string& op) { return op.starts_with("step/") || is_inference(op); }

// The op: what stands before the first '/', and of models and studies, whose names are of two words, before the second.
inline std::string op_of(const std::string& name) {
  const bool two_words = is_model(name) || name.starts_with("study/");
  return name.substr(0, name.find('/', two_words ? name.find('/') + 1 : 0));
}

}  // namespace duet::results
