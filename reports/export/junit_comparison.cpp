// SPDX-License-Identifier: Apache-2.0
// JUnit XML of a comparison, as `duet compare --json` and `duet gate --json` write it: SLOWER, ERROR and MISSING are
// failures; AMBIGUOUS and NEW, which decide nothing, are skipped. A comparison without a verdict is one error.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "reports/export/export.h"
#include "results/json_node.h"

namespace duet::reports {
namespace {

using results::Allow;
using results::Json;
using results::Node;

constexpr int64_t kSchema = 1;

std::string change_text(double ratio, bool inverse) {
  return fmt::format("{:.4g} times the base, ", inverse ? 1 / ratio : ratio);
}

// inverse: ratios of speedups are stored inverted, so that larger is worse; they are shown as they are read.
std::string test_case(const Node& row, bool inverse, JunitCounts& counts) {
  static constexpr const char* kVerdicts[] = {"SLOWER", "ERROR", "MISSING", "AMBIGUOUS", "NEW", "FASTER", "SAME"};
  const std::string verdict = row.at("verdict").text(kVerdicts);
  const std::string reason = xml_text(row.at("reason").text());
  const auto ratio = row.find("ratio");
  ++counts.tests;
  std::string text = fmt::format("  <testcase name=\"{}\" classname=\"{}\">\n", xml_text(row.at("name").text()),
                                 xml_text(row.at("family").text()));
  const std::string change = ratio ? change_text(ratio->at("value").number(Allow::positive), inverse) : "";
  if (verdict == "SLOWER" || verdict == "ERROR" || verdict == "MISSING") {
    ++counts.failures;
    text += fmt::format("   <failure type=\"{0}\" message=\"{0}: {1}{2}\"/>\n", verdict, change, reason);
  } else if (verdict == "AMBIGUOUS" || verdict == "NEW") {
    ++counts.skipped;
    text += fmt::format("   <skipped message=\"{}: {}{}\"/>\n", verdict, change, reason);
  }
  return text + "  </testcase>\n";
}

}  // namespace

bool is_comparison(const std::string& text) {
  // The member that tells stands first.
  const size_t brace = text.find_first_not_of(" \t\r\n");
  if (brace == std::string::npos || text[brace] != '{') return false;
  const size_t member = text.find_first_not_of(" \t\r\n", brace + 1);
  return member != std::string::npos && text.compare(member, 17, "\"duet_comparison\"") == 0;
}

std::string comparison_junit_text(const std::string& text, const std::string& file) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& e) {
    throw Error("{}: not JSON: {}", file, e.what());
  }
  const results::JsonSource source{file, json};
  const Node root(source), schema = root.at("duet_comparison");
  if (schema.integer(Allow::at_least_one) > kSchema)
    schema.fail(fmt::format("{} is newer than {}, which this program reads", schema.integer(), kSchema));
  const auto metric = root.find("metric");
  const bool inverse = metric && metric->text() == "speedup";
  JunitCounts counts;
  std::string cases;
  if (const auto failure = root.find("failure")) {
    counts.tests = counts.errors = 1;
    cases = fmt::format("  <testcase name=\"{}\">\n   <error message=\"{}\"/>\n  </testcase>\n",
                        xml_text(root.at("title").text()), xml_text(failure->text()));
  }
  for (const Node& row : root.at("rows").items()) cases += test_case(row, inverse, counts);
  const std::string attributes = fmt::format("name=\"{}\" {}", xml_text(root.at("title").text()), to_text(counts));
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {0}>\n <testsuite {0}>\n{1}  "
      "<system-out>{2}</system-out>\n "
      "</testsuite>\n</testsuites>\n",
      attributes, cases, xml_text(root.at("answer").text()));
}

}  // namespace duet::reports
