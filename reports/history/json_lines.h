// SPDX-License-Identifier: Apache-2.0
// A history as lines of JSON, each an object of one member, so that histories are merged, kept as artefacts of CI and
// compared as text. The order is fixed: equal histories give equal bytes.
//   {"duet_history": 1}                                 the head: version of this form
//   {"machine": {"fingerprint": ..., "facts": {...}}}
//   {"series": {"key": ..., "family": ..., ...}}
//   {"run": {"fingerprint": ..., "host": ..., "id": ..., ..., "results": [...], "failures": [...]}}
//   {"mark": {"key": ..., "fingerprint": ..., "host": ..., "id": ..., "note": ...}}
// A line only names what lines above it hold, so that exports can be joined by `cat`. Called by history.cpp.
#pragma once
#include <string>
#include <string_view>
#include <variant>

#include "reports/history/record.h"

namespace duet::history {

inline constexpr int64_t kLinesVersion = 1;

struct Head {};
using Line = std::variant<Head, MachineInfo, SeriesInfo, RunRecord, Mark>;

std::string line_text(const Line& line);  // with its newline
// Throws Error that starts with `where`, such as "export.jsonl, line 3".
Line parse_line(const std::string& where, std::string_view text);
bool is_export(std::string_view text);  // whether it begins with a head, of any version

// Objects of texts, and lists of times, as the database keeps them, too.
std::string facts_json(const results::Facts& facts);
results::Facts facts_from_json(const std::string& where, const std::string& text);
std::string times_json(const std::vector<double>& times_s);
std::vector<double> times_from_json(const std::string& where, const std::string& text);

}  // namespace duet::history
