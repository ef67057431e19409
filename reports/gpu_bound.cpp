// SPDX-License-Identifier: Apache-2.0
#include "reports/gpu_bound.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/format.h"

namespace duet::reports {
namespace {

bool is_step(const Job& job) { return job.step.has_value() || job.op.starts_with("step/"); }

// Parts of a bound, in seconds.
struct Copies {
  double all = 0, larger = 0;  // larger: of both directions, at least
};
struct Parts {
  double compute = 0, memory = 0, certain_memory = 0, launch = 0;
  std::optional<Copies> copies = {};  // empty: not known
};

std::optional<Copies> copies_of(const Job& job, const GpuFigures& gpu) {
  const auto seconds = [&](int64_t bytes) { return static_cast<double>(bytes) / gpu.pcie.value; };
  if (!is_step(job)) return Copies{seconds(job.footprint_bytes), seconds(job.footprint_bytes) / 2};
  if (!job.step || !job.step->upload_bytes || !job.step->download_bytes) return {};
  const int64_t up = *job.step->upload_bytes, down = *job.step->download_bytes;
  return Copies{seconds(up + down), seconds(std::max(up, down))};
}

Parts parts_of(const Job& job, Cache cache, const GpuFigures& gpu, double launch_s) {
  Parts parts{.launch = launch_s};
  if (job.flops > 0) parts.compute = job.flops / gpu.peak(job.dtype)->value;
  const auto bytes = static_cast<double>(job.bytes);
  parts.memory = bytes / gpu.bandwidth.value;
  // Of warm data the L2 may hold as much as it has. Steps add up the traffic of their nodes, which fused kernels
  // undercut.
  const double in_l2 = cache == Cache::warm ? gpu.l2_bytes.value : 0;
  if (!is_step(job)) parts.certain_memory = std::max(0.0, bytes - in_l2) / gpu.bandwidth.value;
  parts.copies = copies_of(job, gpu);
  return parts;
}

GpuTimeBound bound_of(const Parts& parts, const Copies& copies, const results::Summary& cpu) {
  GpuTimeBound bound;
  const double work = std::max(parts.compute, parts.memory), certain = std::max(parts.compute, parts.certain_memory);
  bound.time_s = work + parts.launch + copies.all;
  bound.certain_s = std::max(certain, copies.larger) + parts.launch;
  bound.undercut = certain < work;
  bound.ratio = cpu.median_s / bound.time_s;
  // Certain for every time in the CPU's interval.
  bound.outlook = cpu.hi_s <= bound.certain_s    ? Outlook::cannot
                  : cpu.median_s <= bound.time_s ? Outlook::doubtful
                                                 : Outlook::might;
  return bound;
}

std::string no_bound_reason(const Job& job, const GpuFigures& gpu) {
  if (job.flops > 0 && !gpu.peak(job.dtype)) return gpu.no_peak_reason(job.dtype);
  if (static_cast<double>(job.footprint_bytes) > gpu.memory_bytes.value)
    return fmt::format("needs {}, and {} has {}", bytes_text(static_cast<double>(job.footprint_bytes)), gpu.name,
                       bytes_text(gpu.memory_bytes.value));
  if (job.flops <= 0 && job.bytes <= 0) return "the run file has neither operations nor bytes of it";
  return "";
}

void set_bounds(GpuBoundRow& row, const GpuFigures& gpu, double launch_s) {
  const Job& job = *row.cpu.job;
  row.no_bound_reason = no_bound_reason(job, gpu);
  if (!row.no_bound_reason.empty()) return;
  const Parts parts = parts_of(job, row.cpu.call->cache, gpu, launch_s);
  row.resident = bound_of(parts, {}, row.cpu.call->summary);
  if (parts.copies) row.with_copies = bound_of(parts, *parts.copies, row.cpu.call->summary);
  const double work = std::max(parts.compute, parts.memory);
  row.limit = work < parts.launch ? "launch" : parts.compute >= parts.memory ? "compute" : "memory";
}

using JobsOfCase = std::map<std::string, std::vector<const Job*>>;

void set_measured(GpuBoundRow& row, const JobsOfCase& measured) {
  const auto found = measured.find(row.case_name);
  if (found == measured.end()) return;
  auto gpu = best(found->second, Device::gpu, row.cpu.call->cache);
  if (!gpu) gpu = best(found->second, Device::gpu);
  if (!gpu) return;
  row.measured_impl = gpu->job->impl;
  const auto set = [](std::optional<GpuTimeBound>& bound, const Series* series) {
    if (!bound || !series) return;
    bound->measured_s = series->summary.median_s;
    bound->reached = bound->time_s / *bound->measured_s;
  };
  set(row.resident, gpu->call);
  set(row.with_copies, gpu->end_to_end);
}

// The CPU job and series whose time a point of a sweep is.
std::optional<Choice> choice_of(const Run& run, const Sweep& sweep, const SweepPoint& point) {
  if (!point.cpu_s) return {};
  for (const Job& job : run.jobs) {
    if (job.op != sweep.op || job.dtype != sweep.dtype || job.impl != point.cpu_impl || job.device != Device::cpu)
      continue;
    for (const Series& series : job.series)
      if (series.scope == Scope::call && series.summary.median_s == *point.cpu_s)
        return Choice{.job = &job, .call = &series};
  }
  return {};
}

GpuBreakEven break_even_of(const std::vector<std::pair<int64_t, Outlook>>& points) {
  GpuBreakEven found;
  if (points.empty()) return found;
  found.largest = points.back().first;
  if (points.back().second != Outlook::might) {
    const bool certain =
        std::all_of(points.begin(), points.end(), [](const auto& p) { return p.second == Outlook::cannot; });
    found.kind = certain ? GpuBreakEven::Kind::never : GpuBreakEven::Kind::doubtful;
    return found;
  }
  // Backwards from the largest size: a lead that is lost again at a larger size does not count.
  size_t first = points.size() - 1;
  while (first > 0 && points[first - 1].second == Outlook::might) --first;
  found.from = points[first].first;
  found.kind = first == 0 ? GpuBreakEven::Kind::from_smallest : GpuBreakEven::Kind::between;
  if (first > 0) found.below = points[first - 1].first;
  return found;
}

GpuBreakEvenRow break_even_row(const Run& run, const Sweep& sweep, const GpuFigures& gpu, double launch_s) {
  std::vector<std::pair<int64_t, Outlook>> resident, with_copies;
  for (const SweepPoint& point : sweep.points) {
    const auto cpu = choice_of(run, sweep, point);
    if (!cpu) continue;
    GpuBoundRow row{.case_name = {}, .family = {}, .cpu = *cpu};
    set_bounds(row, gpu, launch_s);
    if (row.resident) resident.emplace_back(point.size, row.resident->outlook);
    if (row.with_copies) with_copies.emplace_back(point.size, row.with_copies->outlook);
  }
  return {&sweep, break_even_of(resident), break_even_of(with_copies)};
}

}  // namespace

const char* to_text(Outlook outlook) {
  switch (outlook) {
    case Outlook::cannot:
      return "cannot";
    case Outlook::doubtful:
      return "doubtful";
    case Outlook::might:
      break;
  }
  return "might";
}

std::string to_text(const GpuBreakEven& at, const std::string& size_name) {
  const auto size = [](int64_t value) { return size_text(static_cast<double>(value)); };
  switch (at.kind) {
    case GpuBreakEven::Kind::never:
      return fmt::format("never (certain up to {} {})", size_name, size(at.largest));
    case GpuBreakEven::Kind::doubtful:
      return fmt::format("not up to {} {}", size_name, size(at.largest));
    case GpuBreakEven::Kind::from_smallest:
      return fmt::format("possible from {} ≤ {}", size_name, size(at.from));
    case GpuBreakEven::Kind::between:
      return fmt::format("possible from {} between {} and {}", size_name, size(at.below), size(at.from));
    case GpuBreakEven::Kind::unknown:
      break;
  }
  return "no bound";
}

size_t GpuBound::count(Outlook outlook, std::optional<GpuTimeBound> GpuBoundRow::*bound) const {
  return static_cast<size_t>(std::count_if(rows.begin(), rows.end(), [&](const GpuBoundRow& row) {
    return (row.*bound) && (row.*bound)->outlook == outlook;
  }));
}

std::optional<double> GpuBound::median_ratio(std::optional<GpuTimeBound> GpuBoundRow::*bound) const {
  std::vector<double> ratios;
  for (const GpuBoundRow& row : rows)
    if ((row.*bound) && (row.*bound)->outlook == Outlook::might) ratios.push_back((row.*bound)->ratio);
  if (ratios.empty()) return {};
  return results::median(std::move(ratios));
}

GpuBound gpu_bound(const Run& run, const GpuFigures& gpu, double launch_s, const Run* measured) {
  GpuBound bound{.gpu = &gpu, .rows = {}, .break_evens = {}, .measured_device = {}};
  JobsOfCase measured_cases;
  if (measured)
    for (auto& [name, jobs] : results::jobs_by_case(measured->jobs)) measured_cases[name] = jobs;
  if (measured && measured->machine.gpu) bound.measured_device = measured->machine.gpu->name;
  for (const auto& [name, jobs] : results::jobs_by_case(run.jobs)) {
    const auto cpu = best(jobs, Device::cpu);
    if (!cpu) continue;
    GpuBoundRow row{.case_name = name, .family = cpu->job->family, .cpu = *cpu};
    row.weak_cpu = cpu->call->has_flag(results::flag::kWeakCpu);
    set_bounds(row, gpu, launch_s);
    if (measured) set_measured(row, measured_cases);
    bound.rows.push_back(std::move(row));
  }
  std::stable_sort(bound.rows.begin(), bound.rows.end(), [](const GpuBoundRow& a, const GpuBoundRow& b) {
    return (a.resident ? a.resident->ratio : 0) > (b.resident ? b.resident->ratio : 0);
  });
  for (const Sweep& sweep : run.sweeps) {
    GpuBreakEvenRow row = break_even_row(run, sweep, gpu, launch_s);
    if (row.resident.kind != GpuBreakEven::Kind::unknown) bound.break_evens.push_back(row);
  }
  return bound;
}

}  // namespace duet::reports
