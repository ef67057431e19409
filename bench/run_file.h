// SPDX-License-Identifier: Apache-2.0
// The run file: Google Benchmark's members for tools that know it, plus `duet` with everything (reports/run.schema.json).
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/cases.h"
#include "bench/record.h"
#include "core/ceiling.h"

namespace duet::bench {

using Json = nlohmann::ordered_json;

struct RunFacts {
  const Options* options;
  int threads = 1;
  Context* gpu = nullptr;
  std::string no_gpu, started_at, id;
  std::vector<Ceiling> ceilings;
  std::vector<std::string> warnings;
  double wall_s = 0, overhead_s = 0;
  bool complete = false;
};

Json job_json(const BenchCase& c, const JobRecord& job);
Json step_json(const JobRecord& job);  // an entry of duet.steps
Json skipped_json(const BenchCase& c, const Side& side, const std::string& reason);
Json failed_json(const BenchCase& c, const Side& side, const std::string& reason);

// Writes each series' roof and the flags that follow from it (suspect, weak_cpu, floor) into a job, over what was there.
void hold_against(const std::vector<Ceiling>& ceilings, Json& job);

// jobs, steps: as made above; `benchmarks` is derived from the jobs. Throws Error on a number that is not finite.
Json document(const RunFacts& facts, const std::vector<Json>& jobs, const std::vector<Json>& steps);
void require_finite(const Json& json, const std::string& where);
Json listing(const Cases& cases);  // for --list --json

void make_folder_of(const std::string& path);                    // where it fails, opening the file says why
void write_run_file(const std::string& path, const Json& json);  // all of it or nothing; throws Error

}  // namespace duet::bench
