// SPDX-License-Identifier: Apache-2.0
// A whole run of bench_all: select, measure, write.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "bench/options.h"
#include "results/run.h"

namespace duet::bench {

// Exit statuses: 0; 1 a job failed; 2 usage; 77 nothing could be measured; 130 interrupted.
inline constexpr int kFailed = 1, kUsage = 2, kNothingMeasured = 77, kInterrupted = 130;

// Returns the exit status. Throws Error on what the user can mend.
int run(const Options& options);

struct Devices;  // case_timer.h
Devices open_devices(const Options& options);

// Writes the result of --processes from the run file of each process. Returns the exit status.
int join_processes(const Options& options, const std::vector<std::string>& parts);
int exit_status_of(const results::Run& run);
std::optional<results::Run> complete_run(const std::string& path);  // none: there is none, or it is not complete

}  // namespace duet::bench
