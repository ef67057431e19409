// SPDX-License-Identifier: Apache-2.0
#include "bench/perf_counter.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace duet::bench {
namespace {

constexpr int kRepetitions = 5;

}  // namespace

std::string perf_refusal(int error, const PerfEvent& event, const std::string& root) {
  constexpr const char* kSetting = "kernel.perf_event_paranoid";
  if (error == ENOENT || error == ENODEV || error == EOPNOTSUPP)
    return "this machine has no such counter, as most virtual ones";
  if (error != EACCES && error != EPERM) return fmt::format("perf_event_open: {}", std::strerror(error));
  const int allowed = event.thread == PerfEvent::kMachine ? 0 : 2;
  std::ifstream file(root + "/proc/sys/kernel/perf_event_paranoid");
  int paranoid = 0;
  if (!(file >> paranoid)) return fmt::format("perf is not allowed, and {} cannot be read", kSetting);
  if (paranoid > allowed)
    return fmt::format("perf is not allowed: {} is {}, and has to be {} or less", kSetting, paranoid, allowed);
  return fmt::format("perf is not allowed, though {} is {}: the container forbids it", kSetting, paranoid);
}

std::unique_ptr<PerfCounter> PerfCounter::open(const PerfEvent& event, std::string& reason, const std::string& root) {
  const bool machine = event.thread == PerfEvent::kMachine;
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = event.type;
  attributes.config = event.config;
  attributes.disabled = 1;
  // Counters of the machine know no modes: the kernel refuses them with these.
  attributes.exclude_kernel = !machine;
  attributes.exclude_hv = !machine;
  attributes.inherit = !machine;
  attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  const long fd = syscall(SYS_perf_event_open, &attributes, event.thread, event.cpu, -1, PERF_FLAG_FD_CLOEXEC);
  if (fd >= 0) return std::unique_ptr<PerfCounter>(new PerfCounter(static_cast<int>(fd)));
  reason = perf_refusal(errno, event, root);
  return nullptr;
}

std::unique_ptr<PerfCounter> PerfCounter::of_instructions(std::string& reason) {
  return open({.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_INSTRUCTIONS}, reason);
}

PerfCounter::~PerfCounter() { close(fd_); }

std::optional<PerfCounter::Reading> PerfCounter::read_now() const {
  Reading now{};
  return read(fd_, &now, sizeof now) == sizeof now ? std::optional(now) : std::nullopt;
}

void PerfCounter::start() {
  begin_ = read_now();
  ioctl(fd_, PERF_EVENT_IOC_ENABLE, 0);
}

std::optional<uint64_t> PerfCounter::stop() {
  ioctl(fd_, PERF_EVENT_IOC_DISABLE, 0);
  const std::optional<Reading> end = read_now();
  if (!begin_ || !end) return {};
  // Where there are more events than counters, the kernel lets them take turns and the value is a part of the count.
  if (end->enabled_ns - begin_->enabled_ns != end->running_ns - begin_->running_ns) return {};
  return end->value - begin_->value;
}

std::optional<uint64_t> PerfCounter::count(const std::function<void()>& before, const std::function<void()>& work) {
  std::optional<uint64_t> least, nothing;
  const auto lower = [](std::optional<uint64_t>& least, std::optional<uint64_t> value) {
    if (value) least = std::min(least.value_or(*value), *value);
  };
  for (int i = 0; i < kRepetitions; ++i) {
    before();
    start();
    work();
    lower(least, stop());
    start();
    lower(nothing, stop());
  }
  if (!least || !nothing) return {};
  return *least - std::min(*least, *nothing);
}

}  // namespace duet::bench
