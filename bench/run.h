// SPDX-License-Identifier: Apache-2.0
// A whole run of bench_all: select, measure, write.
#pragma once
#include "bench/options.h"

namespace duet::bench {

// Exit statuses: 0; 1 a job failed; 2 usage; 77 nothing could be measured; 130 interrupted.
inline constexpr int kFailed = 1, kUsage = 2, kNothingMeasured = 77, kInterrupted = 130;

// Returns the exit status. Throws Error on what the user can mend.
int run(const Options& options);

}  // namespace duet::bench
