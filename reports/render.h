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

// Every chart, folded ones too.
std::vector<Chart> charts_of(const Document& document);

// Columns aligned by spaces, headed by their titles; only the text of cells.
std::string render_text(const Table& table);

}  // namespace duet::reports
