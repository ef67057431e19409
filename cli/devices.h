// SPDX-License-Identifier: Apache-2.0
// Devices as the subcommands see them: opened when first asked for, or the reason why not.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cpu_context.h"
#include "core/registry.h"

namespace duet {

class Devices {
 public:
  explicit Devices(std::optional<int> threads) : threads_(threads) {}  // of the CPU; none: all it has
  Context* open(Device device, std::string& reason);                   // null: reason says why

 private:
  std::optional<int> threads_;
  std::unique_ptr<CpuContext> cpu_;
  std::unique_ptr<Context> gpu_, simt_;
  std::string no_gpu_, no_simt_;
};

// The implementations of an op in every flavour, in order of name: what is built here and what the golden list knows.
std::vector<std::string> known_implementations(const std::string& op);
std::string why_not_built(const std::string& implementation);  // of one that find_implementation() does not find
Device device_of(const std::string& implementation);           // from its name
std::string backward_of(const std::string& op);                // "softmax_backward", or "" where there is none

// Empty when the implementation can run this problem here; otherwise why not.
std::string why_unavailable(const Problem& problem, const std::string& implementation, Devices& devices);

}  // namespace duet
