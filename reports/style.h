// SPDX-License-Identifier: Apache-2.0
// The look of a report: one palette, light and dark, for the page and for charts that stand alone.
#pragma once
#include <cstddef>
#include <string>

namespace duet::reports {

inline constexpr size_t kMaxStyledColumns = 20;  // a table's further columns have the alignment of most

std::string page_style();   // colours as CSS variables; goes into the page's one <style>
std::string chart_style();  // for an .svg file: literal colours, since viewers other than browsers know no variables

}  // namespace duet::reports
