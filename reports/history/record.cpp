// SPDX-License-Identifier: Apache-2.0
#include "reports/history/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "results/facts.h"
#include "results/rules.h"
#include "results/statistics.h"

namespace duet::history {
namespace {

using results::Job;
using results::Run;
using results::Series;

std::string params_text(const results::Params& params) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : params)
    std::visit([&object, &name = name](const auto& held) { object[name] = held; }, value);
  return object.dump();
}

SeriesInfo series_info(const Job& job, const Series& series) {
  return {
      .key = fmt::format("{}/{}/{}/threads:{}", job.name, name_of(series.scope), name_of(series.cache), series.threads),
      .case_name = job.case_name,
      .family = job.family,
      .op = job.op,
      .impl = job.impl,
      .device = name_of(job.device),
      .dtype = job.dtype,
      .scope = name_of(series.scope),
      .cache = name_of(series.cache),
      .params_json = params_text(job.params),
      .threads = series.threads,
      .flops = job.flops,
      .bytes = job.bytes};
}

Measurement measurement(const std::string& key, const Series& series) {
  return {.key = key,
          .median_s = series.summary.median_s,
          .lo_s = series.summary.lo_s,
          .hi_s = series.summary.hi_s,
          .min_s = series.summary.min_s,
          .medians_s = results::counted_medians(series.repetitions),
          .disturbed = series.has_flag(results::flag::kDisturbed)};
}

Facts machine_facts(const results::Machine& m) {
  return {{"cpu", m.cpu.name},
          {"cores", fmt::format("{}", m.cpu.cores)},
          {"isa", m.cpu.isa},
          {"ram_gib", fmt::format("{:.0f}", static_cast<double>(m.ram_bytes) / (1 << 30))},
          {"virtual_machine", m.virtual_machine ? "yes" : "no"},
          {"gpu", m.gpu ? m.gpu->name : "none"}};
}

// Flattened, and without what names a build or a run rather than a condition of it.
Facts environment_of(const Run& run) {
  Facts environment;
  const auto add = [&](const std::string& prefix, const Facts& facts) {
    for (const auto& [name, value] : facts)
      if (name != "git_sha" && name != "git_dirty" && name != "built_at")
        environment.emplace_back(prefix + name, value);
  };
  add("build.", facts_of(run.build));
  add("state.", facts_of(run.state));
  environment.emplace_back("kernel", run.machine.kernel);
  if (const auto& gpu = run.machine.gpu) {
    environment.emplace_back("gpu.driver", gpu->driver);
    environment.emplace_back("gpu.runtime", gpu->runtime);
    environment.emplace_back("gpu.cublas", gpu->cublas);
    environment.emplace_back("gpu.cudnn", gpu->cudnn);
  }
  const results::Invocation& i = run.invocation;
  environment.emplace_back("settings.seed", fmt::format("{}", i.seed));
  environment.emplace_back("settings.threads", fmt::format("{}", i.threads));
  environment.emplace_back("settings.scale", i.selection.scale.empty() ? "none" : i.selection.scale);
  environment.emplace_back("settings.min_time_s", fmt::format("{:.6g}", i.selection.budget_s));
  if (!i.selection.cases.empty())
    environment.emplace_back(kCases, fmt::format("{}", fmt::join(i.selection.cases, kBetweenCases)));
  environment.emplace_back("settings.processes", fmt::format("{}", i.processes));
  environment.emplace_back("settings.repetitions", fmt::format("{}", i.selection.repetitions));
  return environment;
}

std::optional<double> gpu_clock(const Run& run) {
  std::vector<double> clocks;
  for (const Job& job : run.jobs)
    for (const Series& series : job.series)
      for (const results::Repetition& repetition : series.repetitions)
        if (repetition.sm_clock_mhz) clocks.push_back(*repetition.sm_clock_mhz);
  if (clocks.empty()) return {};
  return results::median(std::move(clocks));
}

}  // namespace

std::string fact(const Facts& facts, const std::string& name) {
  for (const auto& [key, value] : facts)
    if (key == name) return value;
  return "";
}

std::string unlike_setting(const Facts& environment, const Facts& wanted) {
  for (const char* name : kComparedSettings) {
    const std::string found = fact(environment, name), expected = fact(wanted, name);
    if (found.empty() || found != expected)
      return expected.empty() ? fmt::format("{} of the earlier run is not known: an older program stored it", name)
                              : fmt::format("{} is {}, not {}", name, found.empty() ? "not known" : found, expected);
  }
  return "";
}

void require_utc(const std::string& where, const std::string& text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00Z";
  bool good = text.size() == kForm.size();
  for (size_t i = 0; good && i < kForm.size(); ++i)
    good = kForm[i] == '0' ? std::isdigit(static_cast<unsigned char>(text[i])) != 0 : text[i] == kForm[i];
  if (good) {
    const auto number = [&](size_t at, size_t digits) {
      return static_cast<unsigned>(std::stoul(text.substr(at, digits)));
    };
    const std::chrono::year_month_day day{std::chrono::year(static_cast<int>(number(0, 4))),
                                          std::chrono::month(number(5, 2)), std::chrono::day(number(8, 2))};
    good = day.ok() && number(11, 2) < 24 && number(14, 2) < 60 && number(17, 2) <= 60;  // 60: a leap second
  }
  if (!good) throw Error("{}: '{}' is no time in UTC such as 2026-11-22T09:58:39Z", where, text);
}

Conversion record_of(const Run& run) {
  const results::Invocation& i = run.invocation;
  if (!i.complete)
    throw Error("{}: the run is unfinished (a journal, or interrupted): bench_all --resume finishes it", run.file);
  if (i.id.empty()) throw Error("{}: duet.run.id is empty", run.file);
  if (run.machine.fingerprint.empty()) throw Error("{}: duet.machine.fingerprint is empty", run.file);
  require_utc(run.file + ": duet.run.started_at", i.started_at);

  Conversion result;
  result.machine = {run.machine.fingerprint, machine_facts(run.machine)};
  RunInfo& info = result.record.info;
  info.name = {run.machine.fingerprint, run.context.host_name, i.id};
  info.started_at = i.started_at;
  info.git_sha = run.build.git_sha;
  info.dirty = run.build.git_dirty;
  info.trust = name_of(i.trust);
  info.environment = environment_of(run);
  info.gpu_clock_mhz = gpu_clock(run);
  if (i.trust == results::Trust::unusable) {
    info.valid = false;
    info.note = i.doubts.empty() ? "unusable for ratios" : i.doubts.front();
  }
  for (const Job& job : run.jobs) {
    if (job.comparable) {
      for (const Series& series : job.series) {
        result.series.push_back(series_info(job, series));
        result.record.measurements.push_back(measurement(result.series.back().key, series));
      }
    } else if (job.status != results::Status::skipped && results::is_competitor(job.impl)) {
      result.record.failures.push_back({job.name, job.reason});
    }
  }
  std::sort(result.record.measurements.begin(), result.record.measurements.end(),
            [](const Measurement& a, const Measurement& b) { return a.key < b.key; });
  for (size_t at = 1; at < result.record.measurements.size(); ++at)
    if (result.record.measurements[at].key == result.record.measurements[at - 1].key)
      throw Error("{}: the series {} occurs twice", run.file, result.record.measurements[at].key);
  std::sort(result.record.failures.begin(), result.record.failures.end(),
            [](const Failure& a, const Failure& b) { return a.job < b.job; });
  return result;
}

}  // namespace duet::history
