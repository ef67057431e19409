// SPDX-License-Identifier: Apache-2.0
// Scratch memory of a plan: a part of its workspace for each thread of its context, so that a run allocates nothing and
// threads share no cache line.
#pragma once
#include "core/cpu_context.h"
#include "core/dtype.h"
#include "core/plan.h"

namespace duet {

class Scratch {
 public:
  Scratch(CpuContext& cpu, WorkspaceLayout& workspace, int64_t floats)
      : each_(ceil_div(floats, kLine) * kLine + kLine), all_(workspace.add<float>(each_ * cpu.threads())) {}
  float* of_this_thread(const Args& args) const { return args.workspace(all_) + CpuContext::thread_index() * each_; }

 private:
  static constexpr int64_t kLine = 16;  // floats of a cache line
  int64_t each_;
  WorkspacePiece<float> all_;
};

}  // namespace duet
