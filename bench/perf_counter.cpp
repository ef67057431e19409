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

namespace duet::bench {
namespace {

constexpr int kRepetitions = 5;

// As read() gives it, by perf_event_attr::read_format.
struct Reading {
  uint64_t value, enabled_ns, running_ns;
};

}  // namespace

std::unique_ptr<PerfCounter> PerfCounter::open(uint32_t type, uint64_t config, std::string& reason) {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = type;
  attributes.config = config;
  attributes.disabled = 1;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  const long fd = syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (fd >= 0) return std::unique_ptr<PerfCounter>(new PerfCounter(static_cast<int>(fd)));
  if (errno == EACCES || errno == EPERM)
    reason = "perf is not allowed: kernel.perf_event_paranoid is above 2, or the container forbids it";
  else if (errno == ENOENT || errno == ENODEV || errno == EOPNOTSUPP)
    reason = "this machine has no such counter, as most virtual ones";
  else
    reason = fmt::format("perf_event_open: {}", std::strerror(errno));
  return nullptr;
}

std::unique_ptr<PerfCounter> PerfCounter::of_instructions(std::string& reason) {
  return open(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, reason);
}

PerfCounter::~PerfCounter() { close(fd_); }

std::optional<uint64_t> PerfCounter::count_once(const std::function<void()>& work) const {
  ioctl(fd_, PERF_EVENT_IOC_RESET, 0);
  Reading begin{};
  if (read(fd_, &begin, sizeof begin) != sizeof begin) return {};
  ioctl(fd_, PERF_EVENT_IOC_ENABLE, 0);
  work();
  ioctl(fd_, PERF_EVENT_IOC_DISABLE, 0);
  Reading end{};
  if (read(fd_, &end, sizeof end) != sizeof end) return {};
  // Where there are more events than counters, the kernel lets them take turns and the value is a part of the count.
  if (end.enabled_ns - begin.enabled_ns != end.running_ns - begin.running_ns) return {};
  return end.value;
}

std::optional<uint64_t> PerfCounter::count(const std::function<void()>& before,
                                           const std::function<void()>& work) const {
  std::optional<uint64_t> least, nothing;
  const auto lower = [](std::optional<uint64_t>& least, std::optional<uint64_t> value) {
    if (value) least = std::min(least.value_or(*value), *value);
  };
  for (int i = 0; i < kRepetitions; ++i) {
    before();
    lower(least, count_once(work));
    lower(nothing, count_once([] {}));
  }
  if (!least || !nothing) return {};
  return *least - std::min(*least, *nothing);
}

}  // namespace duet::bench
