// SPDX-License-Identifier: Apache-2.0
// Runs bench_all's jobs in a worker process and watches it. A job that crashes, hangs or exhausts the memory costs its
// own row: it is written to the journal as failed, with the reason, and a fresh worker goes on with the run. main.cpp
// calls supervise(); what the two processes share is in worker.h. This process measures nothing: it starts no threads
// and touches no GPU.
#pragma once
#include "bench/options.h"

namespace duet::bench {

// Returns the exit status of the run. Throws Error where no worker can be started.
int supervise(const Options& options, char** argv);

}  // namespace duet::bench
