// SPDX-License-Identifier: Apache-2.0
// One of the processor's or the kernel's counters (Linux perf_event_open). instructions.cpp counts the instructions of
// the calling thread with it where the machine allows that; meters.h counts all threads and the machine.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace duet::bench {

// Something that counts between start() and stop(). Tests invent their own.
class Tally {
 public:
  virtual ~Tally() = default;
  virtual void start() = 0;                    // from 0
  virtual std::optional<uint64_t> stop() = 0;  // empty where other programs share the counter
};

// type, config: of perf_event_attr. thread: what it counts; 0: the calling one, with those that it starts from then on;
// kMachine: everything on the machine that the counter of processor `cpu` sees, such as its memory controllers.
struct PerfEvent {
  static constexpr int kMachine = -1;
  uint32_t type = 0;
  uint64_t config = 0;
  int thread = 0, cpu = -1;
};

class PerfCounter final : public Tally {
 public:
  // Null where the kernel does not allow it, or the machine has no such counter; then `reason` says which. root: ""
  // for this machine; tests pass the folder of an invented one.
  static std::unique_ptr<PerfCounter> open(const PerfEvent& event, std::string& reason, const std::string& root = {});
  static std::unique_ptr<PerfCounter> of_instructions(std::string& reason);
  PerfCounter(const PerfCounter&) = delete;
  ~PerfCounter() override;

  void start() override;
  std::optional<uint64_t> stop() override;

  // What `work` adds to the count in user mode, without what starting and stopping adds. The least of some repetitions,
  // since an interrupt adds a few and nothing takes some away. Empty where other programs share the counter.
  std::optional<uint64_t> count(const std::function<void()>& before, const std::function<void()>& work);

 private:
  // As read() gives it, by perf_event_attr::read_format.
  struct Reading {
    uint64_t value, enabled_ns, running_ns;
  };
  explicit PerfCounter(int fd) : fd_(fd) {}
  std::optional<Reading> read_now() const;
  int fd_;
  std::optional<Reading> begin_;
};

// Why the kernel refuses a counter, from errno of perf_event_open: names the setting and its value.
std::string perf_refusal(int error, const PerfEvent& event, const std::string& root);

}  // namespace duet::bench
