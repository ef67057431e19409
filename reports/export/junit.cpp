// SPDX-License-Identifier: Apache-2.0
// JUnit XML: a suite for each op, a test case for each job. A job that failed is a failure; one that was skipped, or
// whose times are no result, is skipped with its reason. The time of a case is how long its measurement took; the times
// that were measured are in its output.
#include <fmt/format.h>

#include "reports/export/export.h"
#include "reports/format.h"

namespace duet::reports {
namespace {

using results::Job;
using results::Status;

double wall_s(const Job& job) {
  double total = 0;
  for (const results::Series& series : job.series)
    for (const results::Repetition& repetition : series.repetitions) total += repetition.wall_s;
  return total;
}

std::string test_case(const Job& job) {
  std::string text = fmt::format("  <testcase name=\"{}\" classname=\"{}\" time=\"{:.6f}\">\n", xml_text(job.name),
                                 xml_text(job.op), wall_s(job));
  if (job.status == Status::failed)
    text += fmt::format("   <failure type=\"failed\" message=\"{}\">{}</failure>\n", xml_text(job.reason),
                        xml_text(job.repro));
  else if (!job.comparable)
    text += fmt::format("   <skipped message=\"{}\"/>\n", xml_text(job.reason));
  if (!job.series.empty()) {
    text += "   <system-out>";
    for (const results::Series& series : job.series)
      text +=
          fmt::format("{} {} {}: {} ({}: {} to {})\n", to_text(series.scope), to_text(series.cache),
                      count_of(static_cast<size_t>(series.threads), "thread"), seconds(series.summary.median_s),
                      xml_text(series.summary.interval), seconds(series.summary.lo_s), seconds(series.summary.hi_s));
    text += "</system-out>\n";
  }
  return text + "  </testcase>\n";
}

struct Suite {
  std::string name, cases;
  JunitCounts counts = {};
  double time_s = 0;
  void add(const Job& job) {
    ++counts.tests;
    counts.failures += job.status == Status::failed;
    counts.skipped += job.status != Status::failed && !job.comparable;
    time_s += wall_s(job);
  }
  std::string attributes() const {
    return fmt::format("name=\"{}\" {} time=\"{:.6f}\"", xml_text(name), to_text(counts), time_s);
  }
};

}  // namespace

// XML forbids most control characters even as entities, and two other characters.
std::string xml_text(const std::string& text) {
  std::string safe = html_escaped(visible(text));
  for (const char* forbidden : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"})
    for (size_t at = safe.find(forbidden); at != std::string::npos; at = safe.find(forbidden, at))
      safe.replace(at, 3, "\\u" + std::string(forbidden[2] == '\xBE' ? "fffe" : "ffff"));
  return safe;
}

std::string to_text(const JunitCounts& counts) {
  return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"", counts.tests, counts.failures,
                     counts.errors, counts.skipped);
}

std::string junit_text(const results::Run& run) {
  Suite all{.name = "duet", .cases = {}};
  std::vector<Suite> suites;
  for (const Job& job : run.jobs) {
    auto suite = suites.begin();
    while (suite != suites.end() && suite->name != job.op) ++suite;
    if (suite == suites.end()) suite = suites.insert(suite, Suite{.name = job.op, .cases = {}});
    suite->add(job);
    suite->cases += test_case(job);
    all.add(job);
  }
  std::string text = fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {}>\n", all.attributes());
  for (const Suite& suite : suites)
    text += fmt::format(" <testsuite {} timestamp=\"{}\" hostname=\"{}\">\n{} </testsuite>\n", suite.attributes(),
                        xml_text(run.invocation.started_at), xml_text(run.context.host_name), suite.cases);
  return text + "</testsuites>\n";
}

}  // namespace duet::reports
