// SPDX-License-Identifier: Apache-2.0
// The run file and the journal of an unfinished run as text: written by bench_all (write.cpp), read by everyone else
// (read.cpp). A run file is Google Benchmark's document plus the member "duet", described by run.schema.json. A journal
// is lines of JSON: {"duet_journal": 2, "document": {...}} with a run that has no jobs, twice, then {"job": {...}} for
// each job that finished. Each line ends with a checksum (seal.h), and those that are damaged are left out. Empty lines
// stand between them, so that a damaged newline costs no second line.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "results/run.h"

namespace duet::results {

// Newer files are refused: an older reader might misread them in silence. Older ones are read (older_schemas.h).
inline constexpr int64_t kSchema = 3;
inline constexpr int64_t kJournalVersion = 2;  // 1 had one head and no checksums

// --- writing. Throws Error on a number that is not finite and on rows that contradict each other (rules.h).

std::string run_text(const Run& run);
std::string google_benchmark_text(const Run& run);  // the same document without "duet", for other tools
std::string listing_text(const std::vector<ListedJob>& jobs);
std::string journal_head(const Run& run);  // one line, without its newline
std::string journal_line(const Job& job);
void require_valid(const Job& job);  // throws what run_text() would

// --- reading. All or nothing. Throws Error: one line with file, member, value and what is allowed.

Run load_run(const std::string& path);  // a run file or a journal
// The same, or nothing where the file is another JSON document, such as one of Google Benchmark: it is then in `other`.
std::optional<Run> load_run(const std::string& path, nlohmann::ordered_json& other);

struct JournalContent {
  Run run;
  int64_t whole_bytes = 0;  // of complete lines: another process may go on after them
  bool cut = false;         // whether the last line was cut by a crash
  int64_t damaged = 0;      // lines whose checksum is wrong: their jobs count as not finished
};
JournalContent load_journal(const std::string& path);

}  // namespace duet::results
