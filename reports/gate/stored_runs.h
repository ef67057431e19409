// SPDX-License-Identifier: Apache-2.0
// The runs of a gate that were measured before: of files, or of a history.
#pragma once
#include <string>
#include <vector>

#include "reports/gate/gate.h"

namespace duet::reports {

struct StoredRuns {
  std::vector<MeasuredRun> base, head;  // empty where a program runs, and of past runs before choose_base()
  std::vector<std::string> warnings;    // which runs are left out, and why
};

// Throws Error where a run is given twice: it would count as two processes.
StoredRuns load_stored(const GateOptions& options);

// Fills base with past runs where the options have them, and keeps of base what can be compared with head: runs of
// another machine or build say nothing about it, and one of them must not hide the others. head: the first run of that
// side. Throws NotComparable where none is left.
void choose_base(const GateOptions& options, const MeasuredRun& head, StoredRuns& stored);

// Throws NotComparable, naming both files, where keys differ that may not.
void require_alike(const GateOptions& options, const std::vector<Difference>& all, const std::string& base,
                   const std::string& head);

// Why no row can be significant with so few runs; empty where one can.
std::string too_few(const StoredRuns& stored, double q);

}  // namespace duet::reports
