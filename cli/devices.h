// SPDX-License-Identifier: Apache-2.0
// The devices of a subcommand: each is opened when first asked for. Also answers which implementations an op has, and
// why one of them is not available here.
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
  // threads: of the CPU; without a value, all it has.
  explicit Devices(std::optional<int> threads) : threads_(threads) {}
  // Null where the device cannot be opened; then `reason` says why.
  Context* open(Device device, std::string& reason);

 private:
  std::optional<int> threads_;
  std::unique_ptr<CpuContext> cpu_;
  std::unique_ptr<Context> gpu_, simt_;
  std::string no_gpu_, no_simt_;
};

// The names of an op's implementations in all build flavours, sorted: those built here and those of the golden list.
std::vector<std::string> known_implementations(const std::string& op);
// The reason why find_implementation() does not find this one.
std::string not_built_reason(const std::string& implementation);
// From the name: cpu.*, cuda.*, simt.*.
Device device_of(const std::string& implementation);
// "softmax_backward", or "" where there is none.
std::string backward_of(const std::string& op);

// Empty when the implementation can run this problem here; otherwise the reason why not.
std::string unavailable_reason(const Problem& problem, const std::string& implementation, Devices& devices);

}  // namespace duet
