// SPDX-License-Identifier: Apache-2.0
#include "bench/sweeps.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

namespace duet::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLeastSizes = 3;  // two points make no curve

// As reports judge it: ran, was compared, and no series of it is suspect.
bool counts(const Json& job) {
  if (job["status"] != "ok" || job["check"].is_null() || job["check"]["max_error_ratio"].is_null()) return false;
  return std::none_of(job["series"].begin(), job["series"].end(), [](const Json& s) {
    return std::find(s["flags"].begin(), s["flags"].end(), "suspect") != s["flags"].end();
  });
}

// The fastest of a scope; `cache` alone, or whatever there is.
std::optional<double> median_s(const Json& job, const char* scope, const char* cache) {
  std::optional<double> least;
  for (const Json& s : job["series"]) {
    if (s["scope"] != scope || s["cache"] != cache) continue;
    const double time_s = s["summary"]["median_s"];
    if (!least || time_s < *least) least = time_s;
  }
  return least;
}

struct Side {
  std::optional<double> call_s, end_to_end_s;
  std::string implementation;
};

Side fastest(const std::vector<const Json*>& jobs, const std::string& device) {
  Side side;
  for (const char* cache : {"warm", "cold"}) {
    for (const Json* job : jobs) {
      if ((*job)["device"] != device || !counts(*job)) continue;
      const auto call_s = median_s(*job, "call", cache);
      if (!call_s || (side.call_s && *side.call_s <= *call_s)) continue;
      side = {call_s, median_s(*job, "end_to_end", cache), (*job)["impl"]};
    }
    if (side.call_s) break;
  }
  return side;
}

// One case, as a point of the sweeps that it may belong to.
struct Point {
  const Json* job;  // any of its jobs: operation, precision, parameters
  Side cpu, gpu;
};

std::vector<Point> points_of(const std::vector<Json>& jobs) {
  std::vector<std::vector<const Json*>> cases;
  std::map<std::string, size_t> index;
  for (const Json& job : jobs) {
    const auto [at, is_new] = index.try_emplace(job["case"], cases.size());
    if (is_new) cases.emplace_back();
    cases[at->second].push_back(&job);
  }
  std::vector<Point> points;
  for (const auto& of_case : cases) {
    Point point{of_case.front(), fastest(of_case, "cpu"), fastest(of_case, "gpu")};
    if (point.cpu.call_s || point.gpu.call_s) points.push_back(std::move(point));
  }
  return points;
}

// Parameters that may vary together, by their common size: each alone, and those of equal size.
std::vector<std::pair<std::vector<std::string>, int64_t>> sizes_of(const Json& params) {
  std::map<int64_t, std::vector<std::string>> equal;
  std::vector<std::pair<std::vector<std::string>, int64_t>> sizes;
  for (const auto& [name, value] : params.items()) {
    if (!value.is_number_integer() || value.get<int64_t>() < 1) continue;
    sizes.push_back({{name}, value});
    equal[value].push_back(name);
  }
  for (auto& [size, names] : equal)
    if (names.size() > 1) sizes.emplace_back(std::move(names), size);
  return sizes;
}

Json point_json(const Point& point, int64_t size) {
  const auto time = [](const std::optional<double>& time_s) { return time_s ? Json(*time_s) : Json(nullptr); };
  const auto name = [](const Side& side) { return side.call_s ? Json(side.implementation) : Json(nullptr); };
  return {{"size", size},
          {"cpu_s", time(point.cpu.call_s)},
          {"gpu_call_s", time(point.gpu.call_s)},
          {"gpu_end_to_end_s", time(point.gpu.end_to_end_s)},
          {"cpu_impl", name(point.cpu)},
          {"gpu_impl", name(point.gpu)}};
}

}  // namespace

Json sweeps_of(const std::vector<Json>& jobs) {
  Json sweeps = Json::array();
  std::map<std::string, size_t> index;
  for (const Point& point : points_of(jobs)) {
    for (const auto& [names, size] : sizes_of((*point.job)["params"])) {
      Json fixed = (*point.job)["params"];
      std::string size_name;
      for (const std::string& name : names) {
        fixed.erase(name);
        size_name += (size_name.empty() ? "" : "=") + name;
      }
      Json sweep{
          {"op", (*point.job)["op"]}, {"dtype", (*point.job)["dtype"]}, {"size_name", size_name}, {"fixed", fixed}};
      const auto [at, is_new] = index.try_emplace(sweep.dump(), sweeps.size());
      sweep["points"] = Json::array();
      if (is_new) sweeps.push_back(std::move(sweep));
      sweeps[at->second]["points"].push_back(point_json(point, size));
    }
  }
  Json kept = Json::array();
  for (Json& sweep : sweeps) {
    Json& points = sweep["points"];
    if (points.size() < kLeastSizes) continue;
    std::sort(points.begin(), points.end(), [](const Json& a, const Json& b) { return a["size"] < b["size"]; });
    kept.push_back(std::move(sweep));
  }
  return kept;
}

}  // namespace duet::bench
