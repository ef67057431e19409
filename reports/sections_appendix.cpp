// SPDX-License-Identifier: Apache-2.0
// The report's end: jobs without a result and why; then ceilings, every series, formulas and the environment.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "reports/answer.h"
#include "reports/format.h"
#include "reports/join.h"
#include "reports/sections.h"
#include "results/facts.h"
#include "results/job_name.h"

namespace duet::reports {
namespace {

constexpr size_t kMaxVisibleCommands = 12;
constexpr size_t kMaxSeries = 2000;     // in the page; all of them are in the CSV
constexpr size_t kMaxVisibleNames = 3;  // longer lists of jobs are folded: one reason may hold for hundreds

// "gemm 12, softmax 4"
std::string by_op(const std::vector<std::string>& names) {
  std::map<std::string, size_t> count;
  for (const std::string& name : names) ++count[results::op_of(name)];
  std::string text;
  size_t left = count.size();
  for (const auto& [op, n] : count) {
    if (text.size() > 100) return fmt::format("{}, and {} more ops", text, left);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", op, n);
    --left;
  }
  return text;
}

// Each job with the command that shows its failure again.
Cell repro_cell(const std::vector<std::string>& names, const std::map<std::string, std::string>& repro) {
  Cell made;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto command = repro.find(names[i]);
    if (i >= kMaxVisibleCommands) {
      made.folded.push_back(command == repro.end() ? names[i] : command->second);
      continue;
    }
    made.text.push_back(code(names[i]));
    made.text.back().new_line = i > 0;
    if (command == repro.end()) continue;
    made.text.push_back(below(muted("again: ")));
    made.text.push_back(code(command->second));
  }
  if (!made.folded.empty()) made.text.push_back(below(plain(count_of(made.folded.size(), "more job"))));
  return made;
}

Cell names_cell(const std::vector<std::string>& names, const std::map<std::string, std::string>& repro) {
  const bool any =
      std::any_of(names.begin(), names.end(), [&](const std::string& name) { return repro.count(name) > 0; });
  if (any) return repro_cell(names, repro);
  if (names.size() > kMaxVisibleNames)
    return {{plain(fmt::format("{}: {}", count_of(names.size(), "job"), by_op(names)))}, names};
  Cell made;
  for (const std::string& name : names) {
    made.text.push_back(code(name));
    made.text.back().new_line = made.text.size() > 1;
  }
  return made;
}

Tone tone_of(const std::string& status) {
  return status == "failed" || status == "suspect" ? Tone::bad : status == "skipped" ? Tone::warn : Tone::muted;
}

std::vector<Cell> ceiling_cells(const Ceiling& c) {
  return {cell(c.name),
          cell(c.device == "cpu" ? "CPU" : "GPU"),
          cell(c.dtype.empty() ? "–" : c.dtype),
          cell(fmt::format("{}", c.threads)),
          cell(c.footprint_bytes > 0 ? bytes_text(static_cast<double>(c.footprint_bytes)) : "–"),
          cell(c.pattern.empty() ? "–" : c.pattern),
          cell(si(c.value, c.unit))};
}

void add_ceilings(const Run& run, Document& document) {
  Section& section = document.sections.emplace_back(Section{"Ceilings", {}});
  if (run.ceilings.empty()) {
    section.blocks.push_back({Text{plain("No ceiling was measured in this run: there is no share of a roof.")}});
    return;
  }
  const std::vector<Column> columns = {{"ceiling"},         {"device"},  {"dtype"},      {"threads", true},
                                       {"footprint", true}, {"pattern"}, {"value", true}};
  Table chosen{
      .caption = {plain("Measured in this run. Of several of a name: the largest footprint, then most threads.")},
      .columns = columns,
      .rows = {}};
  Table all{.caption = {plain("By footprint and threads.")}, .columns = columns, .rows = {}};
  for (const Ceiling& ceiling : run.ceilings) {
    all.rows.push_back(ceiling_cells(ceiling));
    if (chosen_ceiling(run, ceiling.name) == &ceiling) chosen.rows.push_back(all.rows.back());
  }
  const size_t count = all.rows.size();
  const bool more = count > chosen.rows.size();
  section.blocks.push_back({Fold{count_of(chosen.rows.size(), "ceiling"), {{std::move(chosen)}}}});
  section.conclusion = conclude_ceilings(run);
  if (more) section.blocks.push_back({Fold{fmt::format("All {} ceilings", count), {{std::move(all)}}}});
}

std::string flags_text(const Series& series) {
  std::string text;
  for (const std::string& flag : series.flags) text += (text.empty() ? "" : " ") + flag;
  return text;
}

// "81 to 84 %, min-max of paired repetitions"
std::string interval_text(const Series& s) {
  if (!s.roof) return "–";
  if (s.roof->source == RoofSource::run) return "ceiling of the run";
  return fmt::format("{} to {}, {}", share(s.roof->lo), share(s.roof->hi), s.roof->interval);
}

// How every element was compared, or why not every one was.
std::string compared_by(const Job& job) {
  if (!job.check) return "–";
  return job.check->sampled_reason ? job.check->coverage + ": " + *job.check->sampled_reason : job.check->coverage;
}

void add_series(const Run& run, Document& document) {
  Section& section = document.sections.emplace_back(Section{"All series", {}});
  size_t count = 0;
  for (const Job& job : run.jobs) count += job.series.size();
  if (count > kMaxSeries) {
    section.blocks.push_back({Text{plain(fmt::format("The {} series are in report.csv, one line each.", count))}});
    return;
  }
  Table table{.caption = {plain("Error: largest error divided by its bound.")},
              .columns = {{"job"},
                          {"scope"},
                          {"cache"},
                          {"threads", true},
                          {"median", true},
                          {"interval", true},
                          {"what it is"},
                          {"bandwidth", true},
                          {"rate", true},
                          {"of its roof", true},
                          {"its interval"},
                          {"error", true},
                          {"compared by"},
                          {"flags"}},
              .rows = {}};
  for (const Job& job : run.jobs)
    for (const Series& s : job.series) {
      const double* error = job.check && job.check->max_error_ratio ? &*job.check->max_error_ratio : nullptr;
      table.rows.push_back({cell(named_of(job.name, job.machine), Tone::code), cell(to_text(s.scope)),
                            cell(to_text(s.cache)), cell(fmt::format("{}", s.threads)),
                            cell(seconds(s.summary.median_s)),
                            cell(seconds(s.summary.lo_s) + " to " + seconds(s.summary.hi_s)), cell(s.summary.interval),
                            cell(job.bytes > 0 ? si(byte_per_s(job, s), "B/s") : "–"),
                            cell(job.flops > 0 ? si(flop_per_s(job, s), "FLOP/s") : "–"), Cell{{roof_span(s)}, {}},
                            cell(interval_text(s)), cell(error ? significant(*error, 2) : "not checked"),
                            cell(compared_by(job)), cell(flags_text(s))});
    }
  state_constant_columns(table, {"cache", "what it is", "its interval", "compared by", "flags"});
  if (count == 0)
    section.blocks.push_back({Text{plain("Nothing was timed in this run.")}});
  else
    section.blocks.push_back({Fold{fmt::format("All {} series", count), {{std::move(table)}}}});
}

void add_formulas(const Run& run, Document& document) {
  std::vector<std::string> seen;
  Table table{.caption = {}, .columns = {{"op"}, {"family"}, {"formula"}}, .rows = {}};
  for (const Job& job : run.jobs) {
    if (job.formula.empty() || std::find(seen.begin(), seen.end(), job.op) != seen.end()) continue;
    seen.push_back(job.op);
    table.rows.push_back({cell(job.op), cell(job.family), cell(job.formula, Tone::code)});
  }
  if (table.rows.empty()) return;
  Section& section = document.sections.emplace_back(Section{"Formulas", {}});
  const size_t count = table.rows.size();
  section.blocks.push_back({Fold{count_of(count, "op"), {{std::move(table)}}}});
}

void add_scopes(Document& document) {
  Section& section = document.sections.emplace_back(Section{"Scopes and terms", {}});
  Table table{.caption = {}, .columns = {{"term"}, {"meaning"}}, .rows = {}};
  const auto add = [&](const char* term, std::string meaning) {
    table.rows.push_back({cell(term), cell(std::move(meaning))});
  };
  add("kernel", "Device time of one run on the GPU with resident data. On the CPU the call is its counterpart.");
  add("call", "Wall time of one run; on the GPU launch and wait.");
  add("end to end",
      "On the GPU: upload of the inputs from pinned memory, run, download of the outputs. On the CPU the "
      "same as the call: its data is in host memory.");
  add("of its roof",
      "The time that the device allows, divided by the time measured. A probe of the same access pattern, footprint, "
      "threads, scope and cache state, or multiply-adds of the same dtype, ran between the samples; median of paired "
      "repetitions, or their range where they lie more than 10 points apart. With (run), where there was no such "
      "probe: max(flops / compute ceiling, bytes / bandwidth ceiling) of the run. Of Winograd's minimal filtering, "
      "F(m x m, r x r), only the multiplications count that it has, while its FLOP/s are those of the formula.");
  add("suspect",
      fmt::format("Over {:.0f} % of a roof whose probe was steady, and on a CPU of the run's ceiling of memory, too: "
                  "wrong byte count or broken timing; kept out of every ratio.",
                  100 * results::kSuspectFraction));
  add("disturbed",
      "Other processes ran meanwhile, the CPUs were slower than they had been by a third (two virtual ones may share a "
      "core), or the GPU lowered its clock: the row stands, read it with care. In place of a share of the roof: the "
      "row "
      "was faster than a probe that may not accuse it.");
  add("unchecked",
      fmt::format(
          "All repetitions together, and all the time that was spent on the case, last less than {:.0f} ms: too "
          "short to see other processes. A degree sign stands beside the share of its roof.",
          1e3 * results::kMinContention_s));
  add("compared by",
      "How every element of the timed outputs was compared: with the reference, by projections in double, "
      "or with a second implementation; op by op: each op of a step so; sampled: independent parts of it "
      "only, of a step's ops those that the text names.");
  add("floor",
      "A kernel nearly as short as an empty one, or a call nearly as short as that of one: its share of the roof is "
      "not "
      "interpreted.");
  add("interval of a ratio",
      "Hodges–Lehmann on logarithms with exact Mann–Whitney inversion over medians of "
      "repetitions, within this run; min-max where there are too few for 95 %.");
  section.blocks.push_back({Fold{"What the words mean", {{std::move(table)}}}});
}

std::vector<Block> environment(const Run& run) {
  const std::pair<const char*, Facts> groups[] = {{"run", facts_of(run.invocation)},
                                                  {"machine", facts_of(run.machine)},
                                                  {"build", facts_of(run.build)},
                                                  {"state", facts_of(run.state)},
                                                  {"context", facts_of(run.context)}};
  std::vector<Block> blocks;
  for (const auto& [title, facts] : groups) {
    Table table{.caption = {}, .columns = {{"member"}, {"value"}}, .rows = {}};
    for (const auto& [name, value] : facts) table.rows.push_back({cell(name), cell(value)});
    blocks.push_back({Fold{title, {{std::move(table)}}}});
  }
  return blocks;
}

void add_environment(const Run& run, const std::vector<Run>& files, Document& document) {
  Section& section = document.sections.emplace_back(Section{"Environment", {}});
  if (files.size() < 2) {
    section.blocks = environment(run);
    return;
  }
  for (const Run& file : files) section.blocks.push_back({Fold{file.file, environment(file)}});
}

}  // namespace

void add_missing_section(const Run& run, const Analysis& analysis, Document& document) {
  Section& section = document.sections.emplace_back(Section{"Without a result", {}});
  if (analysis.missing.empty()) {
    section.blocks.push_back({Text{plain(run.jobs.empty() ? "The run has no jobs." : "Every job has a result.")}});
    return;
  }
  Table table{.caption = {plain("Every job of the run is in this report; jobs with the same reason stand together.")},
              .columns = {{"status"}, {"reason"}, {"jobs"}},
              .rows = {}};
  std::map<std::string, std::string> repro;
  for (const Job& job : run.jobs)
    if (!job.repro.empty()) repro[named_of(job.name, job.machine)] = job.repro;
  for (const MissingGroup& group : analysis.missing)
    table.rows.push_back(
        {cell(group.status, tone_of(group.status)), cell(group.reason), names_cell(group.jobs, repro)});
  section.blocks.push_back({std::move(table)});
  section.conclusion = conclude_missing(analysis);
}

void add_appendix(const Run& run, const std::vector<Run>& files, Document& document) {
  add_ceilings(run, document);
  add_series(run, document);
  add_formulas(run, document);
  add_scopes(document);
  add_environment(run, files, document);
}

}  // namespace duet::reports
