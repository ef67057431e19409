// SPDX-License-Identifier: Apache-2.0
// Any of the run file's types as a flat list of texts, for tables and messages: {"cpu.cores", "16"}.
#pragma once
#include "results/run.h"

namespace duet::results {

Facts facts_of(const BenchmarkContext&);
Facts facts_of(const Invocation&);
Facts facts_of(const Selection&);
Facts facts_of(const Build&);
Facts facts_of(const Machine&);
Facts facts_of(const State&);

// What of a build may change a time or a count: not its commit, and no library that only reads, writes or tests.
Facts timed_facts_of(const Build&);

// Of a series, in `benchmarks` of the run file and wherever runs are compared:
// "relu/cpu.tuned/f32/n:64/call/warm/threads:4".
std::string row_name(const Job& job, const Series& series);

std::string text_of(const Value& value);  // as in a job's label

}  // namespace duet::results
