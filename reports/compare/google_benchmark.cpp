// SPDX-License-Identifier: Apache-2.0
// Google Benchmark's JSON (--benchmark_out) as rows. It has a row a repetition and rows of aggregates; which of them
// there are depends on the options and on the library's version.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/error.h"
#include "reports/compare/rows.h"
#include "results/json_node.h"
#include "results/statistics.h"

namespace duet::reports {
namespace {

using results::Allow;
using results::Node;

double unit_s(const Node& row) {
  static constexpr const char* kUnits[] = {"ns", "us", "ms", "s"};
  static constexpr double kSeconds[] = {1e-9, 1e-6, 1e-3, 1};
  const auto unit = row.find("time_unit");
  return unit ? kSeconds[unit->one_of(kUnits)] : kSeconds[0];
}

std::string text_or(const Node& row, const char* key, const std::string& otherwise) {
  const auto found = row.find(key);
  return found ? found->text() : otherwise;
}

// Why a row has no time, or empty. Version 1.8 renamed the members.
std::string failure_of(const Node& row) {
  for (const auto& [mark, message] :
       {std::pair{"error_occurred", "error_message"}, std::pair{"skipped", "skip_message"}})
    if (const auto found = row.find(mark); found && found->boolean()) return text_or(row, message, mark);
  return "";
}

struct Gathered {
  MeasuredRow row;
  std::set<int64_t> indices;  // of its repetitions
  std::optional<double> median, mean;
};

void add_iteration(const Node& node, Gathered& to) {
  if (const auto index = node.find("repetition_index")) {
    const int64_t i = index->integer(Allow::not_negative);
    if (!to.indices.insert(i).second)
      node.at("name").fail(fmt::format("\"{}\" occurs twice as repetition {}", to.row.name, i));
  }
  if (const std::string failure = failure_of(node); !failure.empty()) {
    to.row.status = results::Status::failed;
    to.row.reason = failure;
    return;
  }
  to.row.values.push_back(unit_s(node) * node.at("real_time").number(Allow::positive));
}

}  // namespace

MeasuredRun read_google_benchmark(const std::string& path, const nlohmann::ordered_json& document) {
  const results::JsonSource source{path, document};
  const Node root(source);
  const auto benchmarks = root.find("benchmarks");
  if (!benchmarks)
    root.fail(
        "members 'duet' and 'benchmarks' are missing: neither a run file of bench_all nor JSON of Google Benchmark");
  MeasuredRun run;
  run.file = path;
  run.kind = "Google Benchmark";
  if (const auto context = root.find("context")) {
    run.started_at = text_or(*context, "date", "");
    for (const char* key : {"host_name", "library_build_type"})
      if (const auto value = context->find(key)) run.keys.emplace_back(std::string("context.") + key, value->text());
    if (const auto value = context->find("num_cpus"))
      run.keys.emplace_back("context.num_cpus", fmt::format("{}", value->integer(Allow::not_negative)));
  }
  std::vector<Gathered> gathered;
  std::map<std::string, size_t> place;
  for (const Node& node : benchmarks->items()) {
    const std::string name = node.at("name").text(Allow::not_empty);
    const std::string run_name = text_or(node, "run_name", name);
    const auto [at, is_new] = place.try_emplace(run_name, gathered.size());
    if (is_new) {
      gathered.emplace_back();
      MeasuredRow& row = gathered.back().row;
      row.name = row.job = run_name;
      row.family = run_name.substr(0, run_name.find('/'));
    }
    Gathered& to = gathered[at->second];
    if (text_or(node, "run_type", "iteration") != "aggregate") {
      add_iteration(node, to);
      continue;
    }
    const std::string aggregate = text_or(node, "aggregate_name", "");
    if (text_or(node, "aggregate_unit", "time") != "time" || !failure_of(node).empty()) continue;
    if (aggregate == "median") to.median = unit_s(node) * node.at("real_time").number(Allow::positive);
    if (aggregate == "mean") to.mean = unit_s(node) * node.at("real_time").number(Allow::positive);
  }
  for (Gathered& g : gathered) {
    if (g.row.values.empty() && g.row.reason.empty()) {
      if (!g.median && !g.mean) continue;  // of a complexity alone, or a deviation
      g.row.values.push_back(g.median ? *g.median : *g.mean);
    }
    if (g.row.reason.empty()) g.row.value = results::median(g.row.values);
    run.rows.push_back(std::move(g.row));
  }
  return run;
}

}  // namespace duet::reports
