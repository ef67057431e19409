// SPDX-License-Identifier: Apache-2.0
// One of the processor's or the kernel's counters, for the calling thread (Linux perf_event_open). instructions.cpp
// counts instructions with it where the machine allows that.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace duet::bench {

class PerfCounter {
 public:
  // type, config: of perf_event_attr. Null where the kernel does not allow it, or the machine has no such counter; then
  // `reason` says which.
  static std::unique_ptr<PerfCounter> open(uint32_t type, uint64_t config, std::string& reason);
  static std::unique_ptr<PerfCounter> of_instructions(std::string& reason);
  PerfCounter(const PerfCounter&) = delete;
  ~PerfCounter();

  // What `work` adds to the count in user mode, without what starting and stopping adds. The least of some repetitions,
  // since an interrupt adds a few and nothing takes some away. Empty where other programs share the counter.
  std::optional<uint64_t> count(const std::function<void()>& before, const std::function<void()>& work) const;

 private:
  explicit PerfCounter(int fd) : fd_(fd) {}
  std::optional<uint64_t> count_once(const std::function<void()>& work) const;
  int fd_;
};

}  // namespace duet::bench
