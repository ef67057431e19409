// SPDX-License-Identifier: Apache-2.0
// Waits until the CPUs run as fast as they can. A hypervisor may put two virtual CPUs on the two threads of one core,
// mostly when one of them wakes up, for a tenth of a second to seconds: each then has half its speed, and no clock and
// no counter of the guest tells. bench waits before it chooses what a roof is probed with and before a repetition.
#pragma once
#include <functional>

#include "core/cpu_context.h"

namespace duet::bench {

class CpuSpeed {
 public:
  explicit CpuSpeed(CpuContext& cpu);  // those with as many threads share the shortest sample of the process
  // seconds: of one sample; now: the time. For tests.
  CpuSpeed(std::function<double()> seconds, std::function<double()> now, double& shortest_s);
  // Runs samples, multiply-adds of tens of microseconds on all threads at once, until one is hardly slower than the
  // shortest so far (results::slowed). Gives up after 0.3 s. All waiting takes 3 s and 3 % of the time since
  // this object was made at most: beside a neighbour that stays, it does not help.
  void wait();

 private:
  std::function<double()> seconds_, now_;
  double& shortest_s_;  // 0: there was none
  double start_s_, waited_s_ = 0;
};

}  // namespace duet::bench
