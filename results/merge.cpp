// SPDX-License-Identifier: Apache-2.0
#include "results/merge.h"

#include <algorithm>

#include "core/error.h"
#include "results/rules.h"

namespace duet::results {
namespace {

const Job& find_job(const Run& run, const std::string& name) {
  const auto at = std::find_if(run.jobs.begin(), run.jobs.end(), [&](const Job& j) { return j.name == name; });
  if (at == run.jobs.end()) throw Error("{}: job {} is missing, which another process has", run.file, name);
  return *at;
}

void number_repetitions(std::vector<Repetition>& repetitions, int64_t process) {
  for (Repetition& r : repetitions) r.process = process;
}

void add_series(Job& job, const Job& more, int64_t process) {
  for (Series& s : job.series) {
    const Series* same = find_series(more, s.scope, s.cache, s.threads);
    if (!same) throw Error("{}: process {} lacks one of its series", job.name, process);
    std::vector<Repetition> added = same->repetitions;
    number_repetitions(added, process);
    s.repetitions.insert(s.repetitions.end(), added.begin(), added.end());
  }
}

// cut: the process was interrupted, so that what it skipped says nothing about the others.
void add_job(Job& job, const Job& more, int64_t process, bool cut) {
  if (job.status != more.status) {  // failed before skipped before ok
    if (cut && more.status == Status::skipped) return;
    if (more.status == Status::ok || job.status == Status::failed) return;
    job = more;
    job.reason = fmt::format("in process {}: {}", process, more.reason);
    return;
  }
  if (job.status != Status::ok) return;
  add_series(job, more, process);
  if (more.check && (!job.check || !more.check->max_error_ratio ||
                     (job.check->max_error_ratio && *more.check->max_error_ratio > *job.check->max_error_ratio)))
    job.check = more.check;
}

// Warnings and doubts: what all processes say stands once.
void add_texts(std::vector<std::string>& texts, const std::vector<std::string>& more, int64_t process) {
  for (const std::string& text : more)
    if (std::find(texts.begin(), texts.end(), text) == texts.end())
      texts.push_back(fmt::format("process {}: {}", process, text));
}

void add_phases(std::optional<Amounts>& phases_s, const std::optional<Amounts>& more) {
  if (!phases_s || !more) return phases_s.reset();
  for (const auto& [name, time_s] : *more) {
    const auto same = std::find_if(phases_s->begin(), phases_s->end(),
                                   [&name = name](const auto& phase) { return phase.first == name; });
    if (same == phases_s->end())
      phases_s->emplace_back(name, time_s);
    else
      same->second += time_s;
  }
}

}  // namespace

Run merge(std::vector<Run> processes) {
  Run run = std::move(processes.at(0));
  Invocation& i = run.invocation;
  i.processes = static_cast<int64_t>(processes.size());
  for (size_t p = 1; p < processes.size(); ++p) {
    const Run& more = processes[p];
    const auto process = static_cast<int64_t>(p);
    if (more.jobs.size() != run.jobs.size())
      throw Error("{}: {} jobs, and {} in the first process", more.file, more.jobs.size(), run.jobs.size());
    for (Job& job : run.jobs) add_job(job, find_job(more, job.name), process, !more.invocation.complete);
    i.wall_s += more.invocation.wall_s;
    add_phases(i.phases_s, more.invocation.phases_s);
    i.complete = i.complete && more.invocation.complete;
    i.trust = std::max(i.trust, more.invocation.trust);
    add_texts(i.warnings, more.invocation.warnings, process);
    add_texts(i.doubts, more.invocation.doubts, process);
    std::vector<std::string> drift_between_processes;  // is what the intervals show
    run.ceilings = join_ceilings(std::move(run.ceilings), more.ceilings, drift_between_processes);
  }
  for (Job& job : run.jobs) {
    for (Series& s : job.series) s.summary = summarise(s.repetitions);
    if (job.step) {
      job.step->residual_s = step_call(job)->summary.median_s;
      for (const auto& [op, time_s] : job.step->nodes_s) job.step->residual_s -= time_s;
    }
  }
  run.sweeps.clear();
  return run;
}

}  // namespace duet::results
