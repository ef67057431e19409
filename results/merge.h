// SPDX-License-Identifier: Apache-2.0
// Joins the runs of several fresh processes (bench_all --processes) into one, whose intervals cover how much a time
// differs from process to process.
#pragma once
#include <vector>

#include "results/run.h"

namespace duet::results {

// Of the same jobs, in the order of the processes; at least one. Each repetition says which process took it, and
// summaries are over the processes. A job counts as failed where one process saw it fail. Roofs, flags and verdicts are
// left for bench to decide anew. Throws Error where the runs do not fit together.
Run merge(std::vector<Run> processes);

}  // namespace duet::results
