// SPDX-License-Identifier: Apache-2.0
#include "bench/sweeps.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "results/facts.h"
#include "results/rules.h"

namespace duet::bench {
namespace {

using results::Choice;
using results::Job;
using results::Params;
using results::Sweep;
using results::SweepPoint;

// One case, as a point of the sweeps that it may belong to.
struct CasePoint {
  const Job* job;  // any of its jobs: op, precision and parameters are the same in all
  std::optional<Choice> cpu, gpu;
};

std::vector<CasePoint> points_of(const std::vector<Job>& jobs) {
  std::vector<CasePoint> points;
  for (const auto& [name, of_case] : results::jobs_by_case(jobs)) {
    if (name.find('=') != std::string::npos) continue;  // a named fill: other data, the same size
    CasePoint point{of_case.front(), best(of_case, results::Device::cpu), best(of_case, results::Device::gpu)};
    if (point.cpu || point.gpu) points.push_back(std::move(point));
  }
  return points;
}

// Whether the case was chosen as a point of a curve (sweep() of core/cases.h).
constexpr std::string_view kDesigned = "sweep over ";
bool designed(const Job& job) { return job.why.starts_with(kDesigned); }

using Sizes = std::vector<std::pair<std::vector<std::string>, int64_t>>;

// Of a designed case the parameters that its sweep varies, in the order of the case; empty where they are not all there
// with one size.
Sizes designed_sizes(const Job& job) {
  std::istringstream words(job.why.substr(kDesigned.size()));
  using Words = std::istream_iterator<std::string>;
  const std::set<std::string> names(Words{words}, Words{});
  std::vector<std::string> varying;
  std::set<int64_t> sizes;
  for (const auto& [name, value] : job.params) {
    const int64_t* size = std::get_if<int64_t>(&value);
    if (!size || *size < 1 || !names.contains(name)) continue;
    varying.push_back(name);
    sizes.insert(*size);
  }
  if (varying.empty() || varying.size() != names.size() || sizes.size() != 1) return {};
  return {{std::move(varying), *sizes.begin()}};
}

// Parameters that may vary together, by their common size: those of the design, else each alone and those of equal
// size.
Sizes sizes_of(const Job& job) {
  if (designed(job))
    if (Sizes sizes = designed_sizes(job); !sizes.empty()) return sizes;
  const Params& params = job.params;
  std::map<int64_t, std::vector<std::string>> equal;
  Sizes sizes;
  for (const auto& [name, value] : params) {
    const int64_t* size = std::get_if<int64_t>(&value);
    if (!size || *size < 1) continue;
    if (job.op.starts_with("step/") && (name == "parts" || name == "replicas")) continue;  // how a step is divided
    sizes.push_back({{name}, *size});
    equal[*size].push_back(name);
  }
  for (auto& [size, names] : equal)
    if (names.size() > 1) sizes.emplace_back(std::move(names), size);
  return sizes;
}

SweepPoint sweep_point(const CasePoint& point, int64_t size) {
  SweepPoint p{.size = size, .cpu_s = {}, .gpu_call_s = {}, .gpu_end_to_end_s = {}};
  if (point.cpu) {
    p.cpu_s = point.cpu->call->summary.median_s;
    p.cpu_impl = point.cpu->job->impl;
  }
  if (point.gpu) {
    p.gpu_call_s = point.gpu->call->summary.median_s;
    p.gpu_impl = point.gpu->job->impl;
    if (point.gpu->end_to_end) p.gpu_end_to_end_s = point.gpu->end_to_end->summary.median_s;
  }
  return p;
}

Sweep empty_sweep(const Job& job, const std::vector<std::string>& varying) {
  Sweep sweep{.op = job.op, .dtype = job.dtype, .size_name = {}, .fixed = job.params, .points = {}};
  for (const std::string& name : varying) sweep.size_name += (sweep.size_name.empty() ? "" : "=") + name;
  std::erase_if(sweep.fixed, [&](const auto& parameter) {
    return std::find(varying.begin(), varying.end(), parameter.first) != varying.end();
  });
  return sweep;
}

// Equal for the points of one sweep.
std::string key_of(const Sweep& sweep) {
  std::string key = sweep.op + "\n" + sweep.dtype + "\n" + sweep.size_name;
  for (const auto& [name, value] : sweep.fixed) key += "\n" + name + ":" + results::text_of(value);
  return key;
}

}  // namespace

std::vector<Sweep> sweeps_of(const std::vector<Job>& jobs) {
  std::vector<Sweep> sweeps;
  std::map<std::string, size_t> index;
  const std::vector<CasePoint> points = points_of(jobs);
  std::set<std::string> swept;  // ops
  for (const CasePoint& point : points)
    if (designed(*point.job)) swept.insert(point.job->op);
  for (const CasePoint& point : points) {
    if (swept.contains(point.job->op) && !designed(*point.job)) continue;
    for (const auto& [names, size] : sizes_of(*point.job)) {
      Sweep sweep = empty_sweep(*point.job, names);
      const auto [at, is_new] = index.try_emplace(key_of(sweep), sweeps.size());
      if (is_new) sweeps.push_back(std::move(sweep));
      sweeps[at->second].points.push_back(sweep_point(point, size));
    }
  }
  std::erase_if(sweeps, [](const Sweep& s) { return s.points.size() < results::kMinSweepSizes; });
  for (Sweep& sweep : sweeps)
    std::sort(sweep.points.begin(), sweep.points.end(),
              [](const SweepPoint& a, const SweepPoint& b) { return a.size < b.size; });
  return sweeps;
}

}  // namespace duet::bench
