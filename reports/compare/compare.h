// SPDX-License-Identifier: Apache-2.0
// Two runs row by row: how many times longer each series took, with an interval and a verdict. `duet compare` decides
// on two files by decide_by_values(); the gate (reports/gate/) fills the same types with verdicts of its own.
#pragma once
#include <string>
#include <vector>

#include "core/error.h"
#include "reports/compare/rows.h"
#include "reports/document.h"
#include "results/statistics.h"

namespace duet::reports {

// slower and faster: more than chance and more than the smallest effect that counts. ambiguous: a shift that the data
// neither prove nor rule out. added: only in head. error: failed in head.
enum class Verdict : uint8_t { slower, error, missing, ambiguous, faster, added, same };
const char* name_of(Verdict);  // "SLOWER", "NEW", ...

struct ComparedRow {
  std::string name, job, family, device, scope;
  Verdict verdict = Verdict::same;
  std::string code;    // of the reason: "beyond_floor", "one_process", "not_in_head", ...
  std::string detail;  // the reason for a reader; empty where the code's text says it all
  size_t base_values = 0, head_values = 0;
  double base = 0, head = 0;  // medians; 0: none
  results::Interval ratio;    // head / base, so that above 1 is worse; without a label: none
  double floor = 0;           // smallest effect that counts
  std::optional<double> p, q;
  std::string note;
  bool has_ratio() const { return !ratio.label.empty(); }
};
std::string text_of_code(const std::string& code);

// All rows of a family, device and scope with a ratio.
struct FamilySum {
  std::string family, device, scope;
  size_t rows = 0;
  double geometric_mean = 1, base = 0, head = 0;  // totals of the medians
};

struct RunFacts {
  std::string file, kind, commit, started_at;
  int64_t processes = 1;
};

struct Comparison {
  std::string title = "Comparison";
  Metric metric = Metric::time;
  std::string unit = "s";  // of the values; empty: a count, or a ratio
  RunFacts base, head;
  std::string failure;                // why there is no verdict about any row; empty where there is
  std::vector<Difference> allowed;    // keys that differ, and were allowed to
  std::vector<std::string> warnings;  // about the data
  std::vector<std::string> method;    // how verdicts were reached, a sentence each
  size_t without_result = 0;          // jobs that have one on neither side
  std::vector<ComparedRow> rows;      // worst first
  std::vector<FamilySum> families;
  size_t count(Verdict verdict) const;
  size_t compared() const;  // rows with a count or time on both sides
};

struct CompareRule {
  double floor = 0.03;              // smaller shifts are no difference
  double one_process_floor = 0.10;  // where a side is of one process: what processes may differ by is not known
};

// Runs of unlike machines, builds or settings.
struct NotComparable : Error {
  using Error::Error;
};

// Throws NotComparable where keys differ that are not allowed to.
Comparison compare_runs(const MeasuredRun& base, const MeasuredRun& head, const CompareRule& rule,
                        const std::vector<std::string>& allowed);

// Steps of it that the gate uses, too.
// Pairs the rows by name. What one side lacks has its verdict already; the others have none, and pairs of values.
struct RowPair {
  const MeasuredRow* base = nullptr;
  const MeasuredRow* head = nullptr;
  ComparedRow row;
  bool decided = false;
};
std::vector<RowPair> pair_rows(const MeasuredRun& base, const MeasuredRun& head, size_t& without_result);
void decide_by_values(RowPair& pair, const CompareRule& rule, bool several_processes);
void finish(Comparison& comparison);  // order of the rows, sums of families

// --- output (output.cpp)

std::string answer(const Comparison& comparison);  // in a sentence or two
bool is_undecided(const ComparedRow& row);         // a suspect of the gate that the budget left without a verdict
Document comparison_document(const Comparison& comparison);
std::string comparison_json(const Comparison& comparison);
std::string comparison_text(const Comparison& comparison,
                            bool all);  // for a terminal; all: rows that are the same, too

}  // namespace duet::reports
