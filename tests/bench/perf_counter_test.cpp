// SPDX-License-Identifier: Apache-2.0
// The counter by an event that every kernel has (page faults), and by instructions where the machine has them.
#include "bench/perf_counter.h"

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <unistd.h>

namespace duet::bench {
namespace {

TEST(PerfCounter, CountsTheWorkAndNothingElse) {
  std::string reason;
  const auto faults = PerfCounter::open({.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_PAGE_FAULTS}, reason);
  if (!faults) GTEST_SKIP() << reason;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  constexpr size_t kPages = 50;
  volatile char* memory = nullptr;
  const auto fresh = [&] {
    if (memory) munmap(const_cast<char*>(memory), kPages * page);
    void* const mapped = mmap(nullptr, kPages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    madvise(mapped, kPages * page, MADV_NOHUGEPAGE);
    memory = static_cast<volatile char*>(mapped);
    memory[0] = 1;  // a fault outside of the work
  };
  const auto touch = [&](size_t pages) {
    // ThreadSanitizer would note each access in pages of its own.
    return faults->count(
        fresh, [&]() __attribute__((no_sanitize("thread"))) {
          for (size_t i = 1; i <= pages; ++i) memory[i * page] = 1;
        });
  };
  EXPECT_EQ(touch(40), 40);
  EXPECT_EQ(touch(10), 10);
  EXPECT_EQ(touch(0), 0);
}

TEST(PerfCounter, CountsOfInstructionsAreExact) {
  std::string reason;
  const auto counter = PerfCounter::of_instructions(reason);
  if (!counter) {
    EXPECT_NE(reason, "");
    GTEST_SKIP() << reason;
  }
  const auto loop = [&](int turns) {
    return counter->count([] {},
                          [turns] {
                            for (int i = 0; i < turns; ++i) asm volatile("nop\nnop\nnop\nnop\nnop\nnop\nnop\nnop");
                          });
  };
  const auto few = loop(10000), many = loop(20000), again = loop(20000);
  ASSERT_TRUE(few && many && again);
  EXPECT_NEAR(static_cast<double>(*many), static_cast<double>(*again), 0.001 * static_cast<double>(*many));
  EXPECT_GT(*many, 160000);
  EXPECT_GT(*many - *few, 80000);
  EXPECT_LT(*many - *few, 160000);
}

TEST(PerfCounter, WhatTheMachineLacksHasAReason) {
  std::string reason;
  EXPECT_EQ(PerfCounter::open({.type = PERF_TYPE_SOFTWARE, .config = 1 << 20}, reason), nullptr);
  EXPECT_NE(reason, "");
}

}  // namespace
}  // namespace duet::bench
