// SPDX-License-Identifier: Apache-2.0
// The top of a report, and the order of its sections.
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
  const results::Cpu& cpu = run.machine.cpu;
  const auto& gpu = run.machine.gpu;
  add(fmt::format("{}, {} cores{}", cpu.name.empty() ? "unknown CPU" : cpu.name, cpu.cores,
                  cpu.isa.empty() ? "" : ", " + cpu.isa));
  if (gpu) add(gpu->name + (gpu->sm.empty() ? "" : ", sm " + gpu->sm));
  if (!analysis.gpu_measured) add(fmt::format("GPU: not measured ({})", analysis.no_gpu_reason), Tone::warn);
  const results::Build& build = run.build;
  add("commit " + (build.git_sha.empty() ? "unknown" : build.git_sha.substr(0, 12)) +
          (build.git_dirty ? " + changes" : ""),
      build.git_dirty ? Tone::warn : Tone::plain);
  add(build.compiler + (build.cuda.empty() ? "" : ", CUDA " + build.cuda));
  add(joined(build.libraries));
  if (!run.state.governor.empty()) add("governor " + run.state.governor);
}

}  // namespace

std::string unbroken(std::string text) {
  for (size_t at = text.find(' '); at != std::string::npos; at = text.find(' ', at)) text.replace(at, 1, "\u00a0");
  return text;
}

Span roof_span(const Series& series) {
  const std::string text = unbroken(roof_text(series));
  Tone tone = Tone::plain;
  if (is_suspect(series))
    tone = Tone::bad;
  else if (far_below_roof(series))
    tone = Tone::warn;
  return {text, tone};
}

Document make_document(const Run& run, const Analysis& analysis, const ReportOptions& options) {
  Document document{
      .title = options.title, .subtitle = {}, .verdict = {}, .warnings = analysis.warnings, .sections = {}};
  document.subtitle = {muted(run.invocation.started_at + " · run " + run.invocation.id)};
  add_verdict(run, analysis, document);
  add_results(analysis, options, document);
  add_missing_section(run, analysis, document);
  add_appendix(run, document);
  return document;
}

}  // namespace duet::reports
