// SPDX-License-Identifier: Apache-2.0
// Run files that bench_all wrote before schema 2. Other names: foreign_cpu, parts_s, memory_peak, cpu_quota. Steps
// stood beside the jobs, and verdicts were left to the reader.
#pragma once
#include <nlohmann/json_fwd.hpp>

namespace duet::results {

// Brings such a document into the form of schema 2, as far as it is as expected: what is not, reading finds and names.
// Jobs get no verdict, but a reason that says so: set_verdict() decides once they are read.
void upgrade_from_schema_1(nlohmann::ordered_json& document);

}  // namespace duet::results
