// SPDX-License-Identifier: Apache-2.0
// Training steps and inferences: both sides of each model and batch, what a step is made of, and what its nodes do not
// explain.
#include <fmt/format.h>

#include <algorithm>

#include "reports/answer.h"
#include "reports/charts.h"
#include "reports/format.h"
#include "reports/join.h"
#include "reports/sections.h"

namespace duet::reports {
namespace {

std::string percent_of_step(double time_s, const StepRow& row) {
  return fmt::format("{:+.1f} %", 100 * time_s / row.step_s);
}

Cell amounts_cell(const Amounts& amounts) {
  Cell made;
  for (const auto& [name, time_s] : amounts) {
    made.text.push_back(plain(unbroken(name + " " + seconds(time_s))));
    made.text.back().new_line = made.text.size() > 1;
  }
  return made.text.empty() ? cell("–") : made;
}

Cell throughput_cell(const StepRow& row) {
  const Step& step = row.step();
  if (step.samples == 0) return cell("–");
  const auto rate = [&](int64_t count) {
    const double per_s = static_cast<double>(count) / row.step_s;
    return per_s < 1 ? significant(per_s) : si(per_s, "");
  };
  Cell made = cell(rate(step.samples));
  if (step.tokens) made.text.push_back(below(muted(rate(*step.tokens) + " tokens/s")));
  return made;
}

Cell residual_cell(const StepRow& row) {
  Cell made = cell(percent_of_step(row.residual_s(), row), row.problem.empty() ? Tone::plain : Tone::bad);
  if (row.has_phases())
    made.text.push_back(below(muted(fmt::format("{} + {}", percent_of_step(row.within_phases_s(), row),
                                                percent_of_step(row.between_phases_s(), row)))));
  return made;
}

Cell model_cell(const std::string& model) {
  const size_t name_end = model.find(' ');
  Cell made{{strong(model.substr(0, name_end))}, {}};
  if (name_end != std::string::npos) made.text.push_back(plain(model.substr(name_end)));
  return made;
}

// "GPU", "GPU graph", in the order in which they occur.
std::vector<std::string> gpu_labels(const std::vector<StepPairs>& all) {
  std::vector<std::string> labels;
  for (const StepPairs& pairs : all)
    for (const StepPairs::Side& side : pairs.gpu)
      if (std::find(labels.begin(), labels.end(), side.row->side) == labels.end()) labels.push_back(side.row->side);
  return labels;
}

// Below the median of an inference: the time that 99 of 100 calls do not exceed.
Cell time_of(const StepRow& row) {
  Cell made = cell(seconds(row.step_s));
  if (kind_of(row.job->op) == Kind::inference && row.percentiles && row.percentiles->p99_s)
    made.text.push_back(below(muted("p99 " + seconds(*row.percentiles->p99_s))));
  return made;
}

Table parts_table(const std::vector<StepRow>& rows, const char* noun) {
  Table table{.caption = {plain("Below the residual: beyond the nodes within phases + beyond the phases.")},
              .columns = {{noun},
                          {"side"},
                          {"time", true},
                          {"phases"},
                          {"sum of nodes", true},
                          {"residual", true},
                          {"peak memory", true},
                          {"implementations"}},
              .rows = {}};
  for (const StepRow& row : rows) {
    const Step& step = row.step();
    const size_t ops = step.implementations.size();
    Cell implementations = cell(ops > 0 ? count_of(ops, "op") : "–");
    for (const auto& [op, impl] : step.implementations) implementations.folded.push_back(op + ": " + impl);
    Cell name = model_cell(row.model);
    if (!row.problem.empty()) name.text.push_back(below({row.problem, Tone::bad}));
    table.rows.push_back({name, cell(row.label), cell(seconds(row.step_s)), amounts_cell(step.phases_s),
                          cell(seconds(row.sum_s)), residual_cell(row),
                          cell(bytes_text(static_cast<double>(step.peak_memory_bytes))), implementations});
  }
  drop_empty_columns(table);
  return table;
}

// Rows whose batch is copied to the device. hidden: how much of the copies' time the overlap takes away.
Table copies_table(const std::vector<StepRow>& rows, const char* noun) {
  Table table{.caption = {plain("On a CPU the batch lies in the memory that it is read from: there is no copy to "
                                "overlap.")},
              .columns = {{noun},
                          {"side"},
                          {"batch resident", true},
                          {"with its copy", true},
                          {"next copy overlapped", true},
                          {"hidden", true}},
              .rows = {}};
  for (const StepRow& row : rows) {
    const auto median_s = [&](Scope scope) -> std::optional<double> {
      const Series* series = results::find_series(*row.job, scope, results::Cache::warm, 1);
      return series ? std::optional(series->summary.median_s) : std::nullopt;
    };
    const auto copied = median_s(Scope::end_to_end), overlapped = median_s(Scope::overlapped);
    if (row.job->device == Device::cpu || !copied) continue;
    const double copies_s = *copied - row.step_s;
    table.rows.push_back({model_cell(row.model), cell(row.label), cell(seconds(row.step_s)), cell(seconds(*copied)),
                          overlapped ? cell(seconds(*overlapped)) : cell("–"),
                          overlapped && copies_s > 0 ? cell(share((*copied - *overlapped) / copies_s)) : cell("–")});
  }
  drop_empty_columns(table);
  return table;
}

void add_copies(const std::vector<StepRow>& rows, const char* noun, Section& section) {
  Table table = copies_table(rows, noun);
  if (!table.rows.empty()) section.blocks.push_back({Fold{"With the copy of the batch", {{std::move(table)}}}});
}

}  // namespace

Table step_table(const std::vector<StepPairs>& all, Kind kind) {
  const bool training = kind == Kind::step;
  Table table{.caption = {plain(training ? "Median time of a whole step; below a ratio its interval."
                                         : "Median time of a call; below it, where calls were timed one by one, the "
                                           "time that 99 of 100 do not exceed; below a ratio its interval.")},
              .columns = {{training ? "step" : "inference"}, {"time", true, "CPU"}, {"samples/s", true, "CPU"}},
              .rows = {},
              .groups = {},
              .sortable = true};
  const std::vector<std::string> labels = gpu_labels(all);
  for (const std::string& label : labels)
    for (const char* title : {"time", "samples/s", "against the CPU"}) table.columns.push_back({title, true, label});
  for (const StepPairs& pairs : all) {
    Cell model = model_cell(pairs.model), cpu_time = pairs.cpu ? time_of(*pairs.cpu) : cell("–");
    if (!pairs.machine.empty()) model.text.push_back(below(muted("on " + pairs.machine)));
    if (pairs.cpu && machine_of(*pairs.cpu->job) != pairs.machine)
      cpu_time.text.push_back(below(muted("on " + machine_of(*pairs.cpu->job))));
    std::vector<Cell> cells = {std::move(model), std::move(cpu_time),
                               pairs.cpu ? throughput_cell(*pairs.cpu) : cell("–")};
    for (const std::string& label : labels) {
      const auto side = std::find_if(pairs.gpu.begin(), pairs.gpu.end(),
                                     [&](const StepPairs::Side& s) { return s.row->side == label; });
      const bool found = side != pairs.gpu.end();
      cells.push_back(found ? time_of(*side->row) : cell("–"));
      cells.push_back(found ? throughput_cell(*side->row) : cell("–"));
      cells.push_back(found && side->ratio ? faster_cell(*side->ratio, !side->ratio->confident()) : cell("–"));
    }
    table.rows.push_back(std::move(cells));
  }
  drop_empty_columns(table);
  return table;
}

void add_steps(const Analysis& analysis, const ReportOptions& options, Document& document) {
  if (analysis.steps.empty()) return;
  Section& section = document.sections.emplace_back(Section{"Training steps", {}});
  section.blocks.push_back(
      {Text{plain("Forward pass, backward pass and optimiser together. Bars: the nodes of a step, each timed by "
                  "itself; hatched: the "
                  "residual that their sum does not explain. Images lie channels first (nchw) where a name has no "
                  "layout.")}});
  section.blocks.push_back({step_table(step_pairs(analysis.steps), Kind::step)});
  add_charts(step_charts(analysis.steps, options.rows_per_chart), section);
  section.blocks.push_back({Fold{
      "Phases, residual and memory of every step",
      {{Text{plain("The residual is positive, or negative where nodes overlap or find their data in a cache. It has "
                   "two terms: what the phases take beyond their nodes (launches, gaps, caches that another node "
                   "has filled), and what the step takes beyond its phases, each of which was repeated with the "
                   "others in between (the pause between them, and whatever else differed between the two "
                   "timings).")}},
       {parts_table(analysis.steps, "step")}}}});
  add_copies(analysis.steps, "step", section);
  section.conclusion = conclude_steps(analysis, Kind::step);
}

void add_inferences(const Analysis& analysis, Document& document) {
  if (analysis.inferences.empty()) return;
  Section& section = document.sections.emplace_back(Section{"Inference", {}});
  section.blocks.push_back({Text{plain(
      "The forward pass of a model's evaluation: one request at a time (batch 1), where the latency of each "
      "call matters, and several at once, where the throughput does. Of a language model, phase:prefill reads the "
      "beginning of a text at once, and phase:decode computes one more token of each text, against the keys and "
      "values of as many tokens as its cache has room for.")}});
  section.blocks.push_back({step_table(step_pairs(analysis.inferences), Kind::inference)});
  section.blocks.push_back(
      {Fold{"Nodes, residual and memory of every inference", {{parts_table(analysis.inferences, "inference")}}}});
  add_copies(analysis.inferences, "inference", section);
  section.conclusion = conclude_steps(analysis, Kind::inference);
}

}  // namespace duet::reports
