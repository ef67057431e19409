// SPDX-License-Identifier: Apache-2.0
// The look of a report: one palette, light and dark, for the page and for charts that stand alone.
#pragma once
#include <string>

namespace duet::reports {

std::string page_style();   // colours as CSS variables; goes into the page's one <style>
std::string chart_style();  // for an .svg file: literal colours, since viewers outside browsers know no variables

// value of a Content-Security-Policy source for an inline style: sha256-<base64>.
std::string style_hash(const std::string& style);

// FIPS 180-4; exposed for its test vectors.
std::string sha256_base64(const std::string& text);

}  // namespace duet::reports
