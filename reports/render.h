// SPDX-License-Identifier: Apache-2.0
// A document in each format.
#pragma once
#include "reports/analysis.h"
#include "reports/document.h"

namespace duet::reports {

// One page, complete without scripts, network or further files.
std::string render_html(const Document& document);

// GitHub's dialect; charts are links to <stem>.svg beside the file.
std::string render_markdown(const Document& document);

// One line per series, and one per job that has none. RFC 4180, with a header.
std::string render_csv(const Run& run);

std::string svg_inline(const Chart& chart);  // for HTML
std::string svg_file(const Chart& chart);    // stands alone

// Every chart, including folded ones.
std::vector<Chart> charts_of(const Document& document);

// Plain text: columns aligned by spaces under their titles.
std::string render_text(const Table& table);

}  // namespace duet::reports
