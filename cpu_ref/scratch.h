// Working memory of a plan, a piece for every thread of its context, so that running allocates nothing.
#pragma once
#include <tbb/task_arena.h>

#include <algorithm>
#include <vector>

#include "core/cpu_context.h"
#include "core/dtype.h"

namespace duet {

class Scratch {
 public:
  Scratch(const CpuContext& cpu, int64_t floats) : each_(ceil_div(floats, kLine) * kLine + kLine) {
    memory_.resize(static_cast<size_t>(each_ * cpu.threads() + kLine));
  }
  float* mine() {  // the calling thread's
    const int thread = std::max(0, tbb::this_task_arena::current_thread_index());
    const auto first = reinterpret_cast<uintptr_t>(memory_.data());
    return reinterpret_cast<float*>((first + 63) / 64 * 64) + thread * each_;
  }

 private:
  static constexpr int64_t kLine = 16;  // floats of a cache line: threads share none
  int64_t each_;
  std::vector<float> memory_;
};

}  // namespace duet
