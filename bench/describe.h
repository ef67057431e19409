// SPDX-License-Identifier: Apache-2.0
// What this program, this machine and the jobs are, as the run file's types. core/ knows the facts; here they get their
// place in the file.
#pragma once
#include <string>
#include <vector>

#include "bench/cases.h"
#include "results/run.h"

namespace duet::bench {

results::Build describe_build();
results::Machine describe_machine(Context* gpu);  // gpu: null where there is none
results::State describe_state();
results::BenchmarkContext describe_context(const std::string& date);
results::Selection describe_selection(const Options& options);
results::JobDescription describe_job(const BenchCase& c, const Side& side);
// A job that has no times: why it was skipped, or failed.
results::Job job_without_result(const BenchCase& c, const Side& side, results::Status status,
                                const std::string& reason);
std::vector<results::ListedJob> describe_jobs(const Cases& cases);  // for --list

}  // namespace duet::bench
