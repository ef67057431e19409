// SPDX-License-Identifier: Apache-2.0
// A part of a plan's workspace for every thread of its context.
#pragma once
#include "core/cpu_context.h"
#include "core/dtype.h"
#include "core/plan.h"

namespace duet {

class Scratch {
 public:
  Scratch(CpuContext& cpu, WorkspaceLayout& workspace, int64_t floats)
      : each_(ceil_div(floats, kLine) * kLine + kLine), all_(workspace.add<float>(each_ * cpu.threads())) {}
  float* mine(const Args& args) const {  // the calling thread's
    return args.workspace(all_) + CpuContext::thread_index() * each_;
  }

 private:
  static constexpr int64_t kLine = 16;  // floats of a cache line: threads share none
  int64_t each_;
  WorkspacePiece<float> all_;
};

}  // namespace duet
