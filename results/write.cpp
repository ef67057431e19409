// SPDX-License-Identifier: Apache-2.0
// Run file and journal as text.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "results/facts.h"
#include "results/contradictions.h"
#include "results/rules.h"
#include "results/run_file.h"
#include "results/seal.h"
#include "results/statistics.h"

namespace duet::results {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json to_json(const T& value);
template <class T>
Json to_json(const std::vector<std::pair<std::string, T>>& list);

Json to_json(const Value& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}
template <class T>
Json to_json(const std::optional<T>& value) {
  return value ? to_json(*value) : Json(nullptr);
}
template <class T>
Json to_json(const std::vector<T>& list) {
  Json array = Json::array();
  for (const T& item : list) array.push_back(to_json(item));
  return array;
}
template <class T>
Json to_json(const std::vector<std::pair<std::string, T>>& list) {
  Json object = Json::object();
  for (const auto& [key, value] : list) object[key] = to_json(value);
  return object;
}
template <class T>
Json to_json(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return name_of(value);
  } else if constexpr (requires { Json(value); } && !std::is_class_v<T>) {
    return value;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else {
    if (const auto found = contradiction(value)) throw Error("{}: {}", found->member, found->problem);
    Json object = Json::object();
    visit_members(value, [&](const char* name, const auto& member, const Allowed&, const char*) {
      object[name] = to_json(member);
    });
    return object;
  }
}

void require_finite(const Json& json, const std::string& path) {
  if (json.is_number_float() && !std::isfinite(json.get<double>()))
    throw Error("{}: a number that is not finite", path);
  if (json.is_structured())
    for (const auto& [key, value] : json.items())
      require_finite(value, json.is_array() ? fmt::format("{}[{}]", path, key) : path + "." + key);
}

Json job_json(const Job& job) {
  try {
    Json json = to_json(job);
    require_finite(json, "job");
    return json;
  } catch (const Error& e) {
    throw Error("{}: {}", job.name, e.what());
  }
}

// Google Benchmark's view of a series: one row a repetition, and the median. Times are in ns: github-action-benchmark
// and Bencher read the number and take it for that.
void append_rows(const Job& job, const Series& series, Json& rows) {
  constexpr double kNsPerS = 1e9;
  const std::string run_name = row_name(job, series);
  const auto row = [&](const std::string& suffix, double time_s) {
    Json json{{"name", run_name + suffix},
              {"run_name", run_name},
              {"run_type", suffix.empty() ? "iteration" : "aggregate"},
              {"repetitions", series.repetitions.size()},
              {"threads", 1},
              {"iterations", series.iterations},
              {"real_time", time_s * kNsPerS},
              {"cpu_time", time_s * kNsPerS},
              {"time_unit", "ns"},
              {"bytes_per_second", static_cast<double>(job.bytes) / time_s},
              {"flop_per_second", job.flops / time_s}};
    if (!job.comparable) json["label"] = "not comparable: " + job.reason;
    return json;
  };
  for (size_t i = 0; i < series.repetitions.size(); ++i) {
    rows.push_back(row("", median(series.repetitions[i].samples_s)));
    rows.back()["repetition_index"] = i;
  }
  rows.push_back(row("_median", series.summary.median_s));
  rows.back()["aggregate_name"] = "median";
  rows.back()["aggregate_unit"] = "time";
}

// A job without a time has no row: its readers would take it for a time of 0.
void append_rows(const Job& job, Json& rows) {
  for (const Series& series : job.series) append_rows(job, series, rows);
}

Json document(const Run& run) {
  Json rows = Json::array(), duet{{"schema", kSchema}};
  visit_members(run, [&](const char* name, const auto& member, const Allowed&, const char*) {
    if constexpr (!std::is_same_v<decltype(member), const std::vector<Job>&>) {
      duet[name] = to_json(member);
    } else {  // job by job, so that an error names the job
      duet[name] = Json::array();
      std::set<std::string> names;
      for (const Job& job : member) {
        if (!names.insert(job.name).second)
          throw Error("{}: job names are unique, and this one occurs twice", job.name);
        duet[name].push_back(job_json(job));
        append_rows(job, rows);
      }
    }
  });
  Json whole{{"context", to_json(run.context)}, {"benchmarks", std::move(rows)}, {"duet", std::move(duet)}};
  require_finite(whole, "run file");
  return whole;
}

constexpr int kIndent = 1;

}  // namespace

std::string run_text(const Run& run) { return document(run).dump(kIndent) + "\n"; }
std::string google_benchmark_text(const Run& run) {
  Json whole = document(run);
  whole.erase("duet");
  return whole.dump(kIndent) + "\n";
}
std::string listing_text(const std::vector<ListedJob>& jobs) { return to_json(jobs).dump(kIndent) + "\n"; }
std::string journal_head(const Run& run) {
  return sealed(Json{{"duet_journal", kJournalVersion}, {"document", document(run)}}.dump());
}
std::string journal_line(const Job& job) { return sealed(Json{{"job", job_json(job)}}.dump()); }
void require_valid(const Job& job) { job_json(job); }

}  // namespace duet::results
