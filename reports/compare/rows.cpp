// SPDX-License-Identifier: Apache-2.0
#include "reports/compare/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "results/facts.h"
#include "results/rules.h"
#include "results/run_file.h"
#include "results/statistics.h"

namespace duet::reports {
namespace {

using namespace results;

constexpr const char* kNone = "none";

// The properties that make two times incomparable when they differ. Left out is what changes with every run (load), and
// what the fingerprint has more coarsely, since it moves without a reason (bytes of memory, release of the kernel).
Facts keys_of(const Run& run) {
  Facts keys;
  const auto add = [&](const std::string& group, const Facts& facts, std::initializer_list<const char*> left_out) {
    for (const auto& [key, value] : facts)
      if (std::find(left_out.begin(), left_out.end(), key) == left_out.end()) keys.emplace_back(group + key, value);
  };
  add("machine.", facts_of(run.machine), {"ram_bytes", "kernel", "virtual_machine", "cpu.extensions"});
  add("state.", facts_of(run.state), {"usable_threads"});
  add("build.", timed_facts_of(run.build), {});
  const Invocation& i = run.invocation;
  keys.emplace_back("settings.seed", fmt::format("{}", i.seed));
  keys.emplace_back("settings.threads", fmt::format("{}", i.threads));
  keys.emplace_back("settings.scale", i.selection.scale.empty() ? kNone : i.selection.scale);
  keys.emplace_back("settings.min_time_s", fmt::format("{:.6g}", i.selection.budget_s));
  return keys;
}

// What a run of any Google Benchmark program says, for a comparison of one with a run of Duet.
Facts context_keys(const BenchmarkContext& context) {
  return {{"context.host_name", context.host_name.empty() ? kNone : context.host_name},
          {"context.num_cpus", fmt::format("{}", context.num_cpus)},
          {"context.library_build_type", context.library_build_type.empty() ? kNone : context.library_build_type}};
}

double wall_s_of(const Series& series) {
  double wall_s = 0;
  for (const Repetition& r : series.repetitions) wall_s += r.wall_s;
  return wall_s;
}

// The clock of the GPU that belongs to each value: of the process, or of the repetition.
std::vector<double> clocks_of(const Series& series) {
  for (const Repetition& r : series.repetitions)
    if (!r.sm_clock_mhz) return {};
  // The rule that chooses the times chooses these as well.
  std::vector<Repetition> clocks = series.repetitions;
  for (Repetition& r : clocks) r.samples_s = {*r.sm_clock_mhz};
  return counted_medians(clocks);
}

MeasuredRow row_of(const Job& job, const Series& series) {
  MeasuredRow row;
  row.name = row_name(job, series);
  row.job = job.name;
  row.filter = "^" + literal_pattern(job.name) + "$";
  row.family = job.family;
  row.device = name_of(job.device);
  row.scope = name_of(series.scope);
  row.status = job.status;
  row.values = counted_medians(series.repetitions);
  row.clocks_mhz = clocks_of(series);
  row.value = median(row.values);
  row.wall_s = wall_s_of(series);
  row.disturbed = series.has_flag(flag::kDisturbed);
  if (!job.comparable) row.reason = job.reason.empty() ? "not comparable" : job.reason;
  return row;
}

std::vector<MeasuredRow> time_rows(const Run& run) {
  std::vector<MeasuredRow> rows;
  for (const Job& job : run.jobs) {
    if (!job.series.empty()) {
      for (const Series& series : job.series) rows.push_back(row_of(job, series));
      continue;
    }
    MeasuredRow row;
    row.name = row.job = job.name;
    row.family = job.family;
    row.device = name_of(job.device);
    row.status = job.status;
    row.reason = job.reason.empty() ? name_of(job.status) : job.reason;
    rows.push_back(std::move(row));
  }
  return rows;
}

// GPU time / CPU time, pair by pair where both sides have as many values.
std::vector<double> inverse_speedups(const Series& gpu, const Series& cpu) {
  const std::vector<double> g = counted_medians(gpu.repetitions), c = counted_medians(cpu.repetitions);
  if (g.size() != c.size()) return {median(g) / median(c)};
  std::vector<double> ratios;
  for (size_t i = 0; i < g.size(); ++i) ratios.push_back(g[i] / c[i]);
  return ratios;
}

std::vector<MeasuredRow> speedup_rows(const Run& run) {
  std::vector<MeasuredRow> rows;
  for (const auto& [name, jobs] : jobs_by_case(run.jobs))
    for (const Cache cache : {Cache::warm, Cache::cold}) {
      const auto cpu = best(jobs, Device::cpu, cache), gpu = best(jobs, Device::gpu, cache);
      if (!cpu || !gpu) continue;
      for (const Scope scope : {Scope::kernel, Scope::call, Scope::end_to_end, Scope::overlapped}) {
        const Series* series = gpu->at(scope);
        if (!series) continue;
        MeasuredRow row;
        row.name = fmt::format("{}/speedup/{}/{}", name, name_of(scope), name_of(cache));
        row.job = name;
        row.filter = fmt::format("^{}/[^/]+{}$", literal_pattern(cpu->job->op),
                                 literal_pattern(name.substr(cpu->job->op.size())));
        row.family = cpu->job->family;
        row.device = "speedup";
        row.scope = name_of(scope);
        row.values = inverse_speedups(*series, *cpu->call);
        row.value = median(row.values);
        row.disturbed = series->has_flag(flag::kDisturbed) || cpu->call->has_flag(flag::kDisturbed);
        row.note = fmt::format("{} over {}", gpu->job->impl, cpu->job->impl);
        for (const Job* job : jobs)
          for (const Series& of_job : job->series) row.wall_s += wall_s_of(of_job);
        rows.push_back(std::move(row));
      }
    }
  return rows;
}

bool covers(const std::string& allowed, const std::string& key) {
  return allowed == "all" || key == allowed || (key.starts_with(allowed) && key[allowed.size()] == '.');
}

}  // namespace

std::string literal_pattern(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      pattern += fmt::format("\\x{:02x}", byte);
      continue;
    }
    if (std::string_view("\\.+*?()|[]{}^$").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

MeasuredRun measured(const Run& run, Metric metric) {
  MeasuredRun found;
  found.file = run.file;
  found.kind = "Duet";
  found.id = run.invocation.id;
  found.metric = metric;
  found.commit = run.build.git_sha + (run.build.git_dirty ? " (modified)" : "");
  found.started_at = run.invocation.started_at;
  found.processes = run.invocation.processes;
  found.keys = keys_of(run);
  for (auto& key : context_keys(run.context)) found.keys.push_back(std::move(key));
  if (!run.invocation.complete) found.warnings.emplace_back("the run is not complete");
  if (run.invocation.trust == Trust::unusable)
    for (const std::string& doubt : run.invocation.doubts) found.warnings.push_back(doubt);
  found.rows = metric == Metric::time ? time_rows(run) : speedup_rows(run);
  return found;
}

MeasuredRun load_measured(const std::string& path, Metric metric) {
  nlohmann::ordered_json other;
  if (const auto run = load_run(path, other)) return measured(*run, metric);
  if (metric == Metric::speedup)
    throw Error("{}: is not a run file of bench_all, so it has no speedups (--metric time compares times)", path);
  return read_google_benchmark(path, other);
}

std::vector<Difference> differences(const MeasuredRun& base, const MeasuredRun& head) {
  const bool same_kind = base.kind == head.kind;
  // Runs of Duet are told apart by their own keys; those of the context serve where one is Google Benchmark's.
  const bool by_context = !same_kind || base.kind != "Duet";
  const auto considered = [&](const std::string& key) { return key.starts_with("context.") == by_context; };
  std::map<std::string, std::string> of_head(head.keys.begin(), head.keys.end());
  std::vector<Difference> found;
  for (const auto& [key, value] : base.keys) {
    if (!considered(key)) continue;
    const auto at = of_head.find(key);
    const std::string other = at == of_head.end() ? kNone : at->second;
    if (at != of_head.end()) of_head.erase(at);
    if (value != other) found.push_back({key, value, other});
  }
  for (const auto& [key, value] : head.keys)
    if (of_head.contains(key) && considered(key) && value != kNone) found.push_back({key, kNone, value});
  return found;
}

std::vector<Difference> not_allowed(const std::vector<Difference>& all, const std::vector<std::string>& allowed) {
  static const std::vector<std::string> kGroups{"all", "machine", "state", "build", "settings", "context"};
  for (const std::string& a : allowed) {
    const std::string group = a.substr(0, a.find('.'));
    if (std::find(kGroups.begin(), kGroups.end(), group) == kGroups.end())
      throw Error("--allow {}: a key such as build.flags, or one of {} is expected", a, fmt::join(kGroups, " "));
  }
  std::vector<Difference> left;
  for (const Difference& d : all)
    if (std::none_of(allowed.begin(), allowed.end(), [&](const std::string& a) { return covers(a, d.key); }))
      left.push_back(d);
  return left;
}

std::string sentence_of(const std::vector<Difference>& differences) {
  constexpr size_t kShown = 4;
  std::string text;
  for (size_t i = 0; i < differences.size() && i < kShown; ++i) {
    const Difference& d = differences[i];
    text += fmt::format("{}{} is '{}' in base and '{}' in head", i == 0 ? "" : "; ", d.key, d.base, d.head);
  }
  if (differences.size() > kShown) text += fmt::format("; and {} more", differences.size() - kShown);
  return text;
}

}  // namespace duet::reports
