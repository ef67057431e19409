// SPDX-License-Identifier: Apache-2.0
// Run files that bench_all wrote with earlier schemas, brought into today's form before they are read.
//   1: other names (foreign_cpu, parts_s, memory_peak, cpu_quota); steps stood beside the jobs; no verdicts.
//   2: roofs from the ceilings of the run alone; no state of trust, of the run or of a row.
#pragma once
#include <nlohmann/json_fwd.hpp>

namespace duet::results {

// As far as the document is as expected: what is not, reading finds and names. Jobs of schema 1 get no verdict, but a
// reason that says so; set_verdict() decides once they are read.
void upgrade_from_schema_1(nlohmann::ordered_json& document);
void upgrade_from_schema_2(nlohmann::ordered_json& document);

}  // namespace duet::results
