// SPDX-License-Identifier: Apache-2.0
// Working memory of a plan, a piece for every thread of its context, so that running allocates nothing.
#pragma once
#include "core/cpu_context.h"
#include "core/dtype.h"

namespace duet {

class Scratch {
 public:
  Scratch(CpuContext& cpu, int64_t floats)
      : each_(ceil_div(floats, kLine) * kLine + kLine), memory_(cpu, each_ * cpu.threads() * int64_t{sizeof(float)}) {}
  float* mine() {  // the calling thread's
    return memory_.as<float>() + CpuContext::thread_index() * each_;
  }

 private:
  static constexpr int64_t kLine = 16;  // floats of a cache line: threads share none
  int64_t each_;
  Workspace memory_;
};

}  // namespace duet
