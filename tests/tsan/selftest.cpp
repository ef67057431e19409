// SPDX-License-Identifier: Apache-2.0
// What ThreadSanitizer sees of oneTBB through core/tbb_tsan.cpp. CMake runs both cases: `ordered`, in which nothing
// races and nothing may be reported, and `race`, in which two bodies of one loop write one number.
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_reduce.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "core/cpu_context.h"
#include "core/machine.h"

namespace {
constexpr int64_t kLength = 4096, kRounds = 200;

// Each chunk writes what its caller has read and written, and the caller reads it afterwards.
bool loops(duet::CpuContext& cpu) {
  std::vector<int64_t> values(kLength, 1);
  bool right = true;
  for (int64_t round = 0; round < kRounds; ++round) {
    values[0] = 1;
    cpu.enter([&] {
      cpu.parallel_for(kLength, 16, [&](int64_t first, int64_t last) {
        cpu.parallel_for(last - first, 4, [&](int64_t a, int64_t b) {
          for (int64_t i = first + a; i < first + b; ++i) values[static_cast<size_t>(i)] = i;
        });
      });
    });
    const int64_t serial = std::accumulate(values.begin(), values.end(), int64_t{0});
    const int64_t parallel = tbb::parallel_reduce(
        tbb::blocked_range<size_t>(0, values.size(), 16), int64_t{0},
        [&](const auto& r, int64_t sum) {
          return std::accumulate(values.begin() + r.begin(), values.begin() + r.end(), sum);
        },
        std::plus<>{});
    right = right && serial == kLength * (kLength - 1) / 2 && parallel == serial;
  }
  return right;
}

// The first body that throws ends the loop; its caller reads what the others have written.
bool throwing_loop(duet::CpuContext& cpu) {
  std::vector<int64_t> values(kLength);
  try {
    cpu.enter([&] {
      cpu.parallel_for(kLength, 16, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) values[static_cast<size_t>(i)] = i;
        if (last > kLength / 2) throw std::runtime_error("in the middle");
      });
    });
  } catch (const std::runtime_error& e) {
    return std::string_view(e.what()) == "in the middle" &&
           std::accumulate(values.begin(), values.end(), int64_t{0}) > 0;
  }
  return false;
}

// Two callers at once: the arena keeps room for one, and may have a thread of its own do the other's work.
bool two_callers(duet::CpuContext& cpu) {
  bool other = false;
  std::thread thread([&] { other = loops(cpu); });
  const bool own = loops(cpu);
  thread.join();
  return own && other;
}

// Both bodies run at the same time, since neither goes on before the other has begun. Relaxed operations order nothing.
void race(duet::CpuContext& cpu) {
  std::atomic<int> begun = 0;
  int number = 0;
  cpu.enter([&] {
    cpu.parallel_for(2, 1, [&](int64_t, int64_t) {
      begun.fetch_add(1, std::memory_order_relaxed);
      while (begun.load(std::memory_order_relaxed) < 2) std::this_thread::yield();
      ++number;
    });
  });
  std::printf("%d\n", number);
}
}  // namespace

int main(int argc, char** argv) {
  if (duet::usable_threads() < 2) {
    std::puts("skipped: one CPU");
    return 77;
  }
  duet::CpuContext cpu(2);
  if (argc == 2 && std::string_view(argv[1]) == "race") {
    race(cpu);
    return 0;
  }
  bool right = loops(cpu) && two_callers(cpu);
  for (int64_t round = 0; round < kRounds; ++round) right = right && throwing_loop(cpu);
  return right ? 0 : 1;
}
