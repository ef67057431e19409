// SPDX-License-Identifier: Apache-2.0
#include "reports/sections.h"

#include <fmt/format.h>

#include "reports/format.h"

namespace duet::reports {
namespace {

std::string joined(const Facts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) text += (text.empty() ? "" : ", ") + name + " " + value;
  return text;
}

void add_verdict(const Run& run, const Analysis& analysis, Document& document) {
  auto& bar = document.verdict;
  const auto add = [&](std::string text, Tone tone = Tone::plain) {
    if (!text.empty()) bar.push_back({std::move(text), tone});
  };
  const auto count = [&](Status status) {
    const auto found = analysis.count.find(status);
    return found == analysis.count.end() ? size_t{0} : found->second;
  };
  const auto add_count = [&](size_t n, const char* what, Tone some) {
    add(fmt::format("{} {}", n, what), n ? some : Tone::plain);
  };
  add_count(count(Status::ok), "measured", Tone::good);
  add_count(count(Status::skipped), "skipped", Tone::warn);
  add_count(count(Status::failed), "failed", Tone::bad);
  add_count(analysis.suspect_jobs, "suspect", Tone::bad);
  std::string cpu = run.cpu_name;
  if (!run.cpu_cores.empty()) cpu += ", " + run.cpu_cores + " cores";
  if (!run.cpu_isa.empty()) cpu += ", " + run.cpu_isa;
  add(cpu);
  if (run.has_gpu) add(run.gpu_name + (run.gpu_sm.empty() ? "" : ", sm " + run.gpu_sm));
  if (!analysis.gpu_measured) add(fmt::format("GPU: not measured ({})", analysis.no_gpu_reason), Tone::warn);
  add("commit " + (run.git_sha.empty() ? "unknown" : run.git_sha.substr(0, 12)) + (run.git_dirty ? " + changes" : ""),
      run.git_dirty ? Tone::warn : Tone::plain);
  add(run.compiler + (run.cuda.empty() ? "" : ", CUDA " + run.cuda));
  add(joined(run.libraries));
  if (!run.governor.empty()) add("governor " + run.governor);
}

}  // namespace

std::string unbroken(std::string text) {
  for (size_t at = text.find(' '); at != std::string::npos; at = text.find(' ', at)) text.replace(at, 1, "\u00a0");
  return text;
}

Span roof_span(const Series& series) {
  const std::string text = unbroken(roof_text(series));
  Tone tone = Tone::plain;
  if (!suspicion(series).empty())
    tone = Tone::bad;
  else if (series.roof && !series.has_flag("floor") && series.roof->fraction < kLowRoof)
    tone = Tone::warn;
  return {text, tone};
}

Document make_document(const Run& run, const Analysis& analysis, const ReportOptions& options) {
  Document document{
      .title = options.title, .subtitle = {}, .verdict = {}, .warnings = analysis.warnings, .sections = {}};
  document.subtitle = {muted(run.started_at + " · run " + run.id)};
  if (!run.note.empty()) document.subtitle.push_back({" · " + run.note, Tone::warn});
  add_verdict(run, analysis, document);
  add_results(analysis, options, document);
  add_missing_section(run, analysis, document);
  add_appendix(run, document);
  return document;
}

}  // namespace duet::reports
