// SPDX-License-Identifier: Apache-2.0
// The top of a report, the order of its sections, and the summary.
#include "reports/sections.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/answer.h"
#include "reports/format.h"
#include "reports/gpu_bound.h"

namespace duet::reports {
namespace {

size_t count(const Analysis& analysis, Status status) {
  const auto found = analysis.count.find(status);
  return found == analysis.count.end() ? size_t{0} : found->second;
}

void add_counts(const Analysis& analysis, Document& document) {
  const auto add = [&](size_t n, const char* what, Tone some) {
    document.verdict.push_back({fmt::format("{} {}", n, what), n ? some : Tone::plain});
  };
  add(count(analysis, Status::ok), "measured", Tone::good);
  add(count(analysis, Status::skipped), "skipped", Tone::warn);
  add(count(analysis, Status::failed), "failed", Tone::bad);
  add(analysis.suspect_jobs, "suspect", Tone::bad);
}

std::string cpu_text(const Run& run) {
  const results::Cpu& cpu = run.machine.cpu;
  return fmt::format("{}, {} cores", cpu.name.empty() ? "unknown CPU" : cpu.name, cpu.cores);
}

std::string run_line(const Run& run) {
  return fmt::format("{} · run {} · commit {}{}", run.invocation.started_at, run.invocation.id,
                     run.build.git_sha.empty() ? "unknown" : run.build.git_sha.substr(0, 12),
                     run.build.git_dirty ? " + changes" : "");
}

// Which run, on which devices, of which commit, for each file; everything else is in the section Environment.
Text subtitle(const Run& run, const Analysis& analysis, const std::vector<Run>& files) {
  const std::string no_gpu = fmt::format("GPU: not measured ({})", analysis.no_gpu_reason);
  if (files.size() < 2)
    return {
        muted(fmt::format("{} · {} · {}", cpu_text(run),
                          analysis.gpu_measured && run.machine.gpu ? run.machine.gpu->name : no_gpu, run_line(run)))};
  Text text;
  for (const Run& file : files) {
    text.push_back(muted(fmt::format("{}: {} · {} · {}", file.file, cpu_text(file),
                                     file.machine.gpu ? file.machine.gpu->name : "no GPU", run_line(file))));
    text.back().new_line = text.size() > 1;
  }
  if (!analysis.gpu_measured) text.push_back(below(muted(no_gpu)));
  return text;
}

// Warnings that are always visible, and notes that are folded.
void add_warnings(const Run& run, const Analysis& analysis, Document& document) {
  const auto& own = run.invocation.warnings;
  if (!run.invocation.complete) document.warnings.push_back("the run is not complete");
  document.warnings.insert(document.warnings.end(), own.begin(), own.end());
  for (const std::string& warning : analysis.warnings)
    if (std::find(document.warnings.begin(), document.warnings.end(), warning) == document.warnings.end())
      document.notes.push_back(warning);
}

Document make_head(const Run& run, const Analysis& analysis, const std::string& title, const std::vector<Run>& files) {
  Answer said = answer(run, analysis);
  Document document{.title = title,
                    .headline = std::move(said.headline),
                    .sentences = std::move(said.sentences),
                    .cautions = std::move(said.cautions),
                    .verdict = {},
                    .subtitle = subtitle(run, analysis, files),
                    .warnings = {},
                    .notes = {},
                    .sections = {}};
  add_counts(analysis, document);
  add_warnings(run, analysis, document);
  return document;
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

Document make_document(const Run& run, const Analysis& analysis, const ReportOptions& options,
                       const std::vector<Run>& files) {
  Document document = make_head(run, analysis, options.title, files);
  add_results(analysis, options, document);
  add_gpu_bound(run, analysis, document);
  add_counters(run, document);
  add_missing_section(run, analysis, document);
  add_appendix(run, files, document);
  for (const Mark& m : kMarks) explain_mark(document, m.mark, m.note);
  return document;
}

Document make_summary(const Run& run, const Analysis& analysis, const std::vector<Run>& files) {
  Document document = make_head(run, analysis, ReportOptions().title, files);
  add_summary(run, analysis, document);
  for (const Mark& m : kMarks) explain_mark(document, m.mark, m.note);
  return document;
}

}  // namespace duet::reports
