// SPDX-License-Identifier: Apache-2.0
// The summary of duet profile: time by phase, op, kernel and function, gaps, copies, and the largest share with its
// evidence.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/profile.h"
#include "reports/format.h"

namespace duet {
namespace {

using profile::TraceRange;
using reports::count_of;
using reports::seconds;
using reports::share;
using reports::si;

constexpr size_t kShown = 12;    // rows of a table
constexpr size_t kMaxName = 72;  // characters of a kernel or function

using Rows = std::vector<std::vector<std::string>>;

// Columns, the first to the left and the others to the right.
std::string table(const Rows& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], reports::width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = "  ";
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - reports::width_of(row[i]), ' ');
      line += i == 0 ? row[i] + pad + "  " : pad + row[i] + "  ";
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

// Ranges of one id, added up.
struct Sum {
  std::string id;
  int64_t count = 0;
  double time_s = 0, bytes = 0, flops = 0;
};

void add(std::vector<Sum>& sums, const std::string& id, const TraceRange& r) {
  auto at = std::find_if(sums.begin(), sums.end(), [&](const Sum& s) { return s.id == id; });
  if (at == sums.end()) at = sums.insert(sums.end(), Sum{.id = id});
  ++at->count;
  at->time_s += r.time_s;
  at->bytes += r.bytes;
  at->flops += r.flops;
}

void longest_first(std::vector<Sum>& sums) {
  std::stable_sort(sums.begin(), sums.end(), [](auto& a, auto& b) { return a.time_s > b.time_s; });
}

// "conv2d cpu.tuned" of "conv2d/cpu.tuned/f32/...".
std::string op_and_implementation(const std::string& id) {
  const size_t first = id.find('/'), second = id.find('/', first + 1);
  return first == id.npos ? id : id.substr(0, first) + " " + id.substr(first + 1, second - first - 1);
}

std::string rates(const Sum& s) {
  std::string text;
  if (s.bytes > 0) text += si(s.bytes / s.time_s, "B/s");
  if (s.flops > 0) text += (text.empty() ? "" : ", ") + si(s.flops / s.time_s, "FLOP/s");
  return text;
}

// What lies in one `measure`, which is at `depth` of its thread.
struct Measured {
  TraceRange series, measure;
  std::vector<Sum> phases, ops, jobs;
  int64_t steps = 0;
  double in_steps_s = 0;
};

std::vector<Measured> measured(const profile::Trace& trace) {
  std::vector<Measured> all;
  TraceRange parent;
  for (const TraceRange& r : trace.ranges) {
    if (r.depth == 0) parent = r;
    if (r.depth == 1 && r.id == "measure")
      all.push_back({.series = parent, .measure = r, .phases = {}, .ops = {}, .jobs = {}});
    if (all.empty() || r.depth < 2) continue;
    Measured& m = all.back();
    const bool inside = r.process == m.measure.process && r.thread == m.measure.thread &&
                        r.begin_s >= m.measure.begin_s && r.begin_s < m.measure.begin_s + m.measure.time_s;
    if (!inside) continue;
    if (r.depth == 2 && r.id == "step") {
      ++m.steps;
      m.in_steps_s += r.time_s;
    } else if (r.depth == 3) {
      add(m.phases, r.id, r);
    } else if (r.depth == 4) {
      add(m.ops, op_and_implementation(r.id), r);
      add(m.jobs, r.id, r);
    }
  }
  return all;
}

std::string measured_text(Measured& m) {
  std::string text = fmt::format("{}: {} on the host's clock\n", m.series.id, seconds(m.measure.time_s));
  if (m.steps == 0) return text;
  const double all_s = m.in_steps_s;
  double in_phases_s = 0, in_ops_s = 0;
  for (const Sum& p : m.phases) in_phases_s += p.time_s;
  for (const Sum& o : m.ops) in_ops_s += o.time_s;
  text += fmt::format("{} of {} each\n\nby phase\n", count_of(static_cast<size_t>(m.steps), "step"),
                      seconds(all_s / static_cast<double>(m.steps)));
  const auto per_step = [&](double time_s) { return seconds(time_s / static_cast<double>(m.steps)); };
  Rows rows;
  for (const Sum& p : m.phases) rows.push_back({p.id, per_step(p.time_s), share(p.time_s / all_s)});
  rows.push_back({"between phases", per_step(all_s - in_phases_s), share((all_s - in_phases_s) / all_s)});
  rows.push_back({"gaps between ops", per_step(in_phases_s - in_ops_s), share((in_phases_s - in_ops_s) / all_s)});
  text += table(rows);
  longest_first(m.ops);
  longest_first(m.jobs);
  text += "\nby op\n";
  rows.clear();
  for (size_t i = 0; i < std::min(kShown, m.ops.size()); ++i)
    rows.push_back({m.ops[i].id, fmt::format("{} a step", m.ops[i].count / m.steps), per_step(m.ops[i].time_s),
                    share(m.ops[i].time_s / all_s), rates(m.ops[i])});
  text += table(rows);
  if (!m.jobs.empty()) {
    const Sum& most = m.jobs.front();
    text += fmt::format("\ntop limiter: {}, {} of a step ({} each{})\n", most.id, share(most.time_s / all_s),
                        seconds(most.time_s / static_cast<double>(most.count)),
                        rates(most).empty() ? "" : ", " + rates(most));
  }
  return text;
}

}  // namespace

std::string trace_summary(const profile::Trace& trace) {
  std::string text = "\n--- ranges (the recorder)\n";
  std::vector<Measured> all = measured(trace);
  if (all.empty()) text += "no run was captured\n";
  for (Measured& m : all) text += measured_text(m);
  if (!trace.incomplete.empty()) text += "incomplete: " + trace.incomplete + "\n";
  return text;
}

std::string functions_summary(const profile::Functions& functions) {
  std::string text = fmt::format("\n--- functions ({} {})\n", functions.total, functions.unit);
  Rows rows;
  for (size_t i = 0; i < std::min(kShown, functions.list.size()); ++i) {
    const profile::FunctionShare& f = functions.list[i];
    rows.push_back({reports::elided(f.function, kMaxName), f.module, share(f.share)});
  }
  text += table(rows);
  if (!functions.list.empty())
    text += fmt::format("top function: {} of {}, {} of the {}\n", reports::elided(functions.list[0].function, kMaxName),
                        functions.list[0].module, share(functions.list[0].share), functions.unit);
  return text;
}

std::string counters_summary(const std::vector<profile::Counter>& counters, uint64_t runs, double bytes) {
  constexpr double kLine = 64;  // bytes of a cache line
  std::string text = "\n--- counters of one application (perf stat, all threads)\n";
  Rows rows;
  for (const profile::Counter& c : counters)
    rows.push_back({c.event, c.count ? reports::significant(*c.count / static_cast<double>(runs), 4)
                                     : fmt::format("unavailable ({})", c.unavailable_reason)});
  text += table(rows);
  for (const profile::Counter& c : counters)
    if (c.event == "LLC-load-misses" && c.count && bytes > 0) {
      const double measured = kLine * *c.count / static_cast<double>(runs);
      text += fmt::format("lines read from memory: {}; modelled traffic, with writes: {} ({} as much)\n",
                          si(measured, "B"), si(bytes, "B"), reports::times(measured / bytes));
    }
  return text;
}

std::string nsys_summary(const NsysTables& tables) {
  std::string text = "\n--- GPU (nsys)\n";
  if (!tables.ranges.empty()) {
    text += "time on the GPU by range\n";
    Rows rows;
    for (const profile::GpuRange& r : tables.ranges)
      if (r.domain == "duet" && rows.size() < kShown)
        rows.push_back(
            {reports::elided(r.name, kMaxName), fmt::format("{}×", r.instances),
             seconds(r.gpu_s / static_cast<double>(std::max<int64_t>(1, r.instances))),
             fmt::format("host {}", seconds(r.host_s / static_cast<double>(std::max<int64_t>(1, r.instances))))});
    text += table(rows);
  }
  double kernels_s = 0, copies_s = 0;
  for (const profile::KernelTime& k : tables.kernels) kernels_s += k.total_s;
  for (const profile::CopyTime& c : tables.copies) copies_s += c.total_s;
  if (!tables.kernels.empty()) {
    text += fmt::format("kernels, {} together\n", seconds(kernels_s));
    Rows rows;
    for (size_t i = 0; i < std::min(kShown, tables.kernels.size()); ++i) {
      const profile::KernelTime& k = tables.kernels[i];
      rows.push_back({reports::elided(k.name, kMaxName), fmt::format("{}×", k.instances),
                      seconds(k.total_s / static_cast<double>(std::max<int64_t>(1, k.instances))),
                      share(k.total_s / kernels_s)});
    }
    text += table(rows);
  }
  if (!tables.copies.empty()) {
    text += fmt::format("copies and fills, {} together\n", seconds(copies_s));
    Rows rows;
    for (const profile::CopyTime& c : tables.copies)
      rows.push_back({c.name, fmt::format("{}×", c.count), seconds(c.total_s)});
    text += table(rows);
  }
  const profile::Gaps& gaps = tables.gaps;
  if (gaps.operations == 0) return text + "nothing ran on the GPU while nsys captured\n";
  const double busy = gaps.span_s > 0 ? gaps.busy_s / gaps.span_s : 1;
  text += fmt::format("{} over {}: the GPU was busy for {}, with {}",
                      count_of(static_cast<size_t>(gaps.operations), "operation"), seconds(gaps.span_s), share(busy),
                      count_of(static_cast<size_t>(gaps.gaps), "gap"));
  if (gaps.gaps > 0)
    text += fmt::format("; the longest, {}, before {}", seconds(gaps.longest_s),
                        reports::elided(gaps.longest_before, kMaxName));
  text += "\n";
  if (busy < 0.5)
    text += fmt::format(
        "top limiter: gaps, {} of the time: the host launches too slowly; a CUDA graph removes most of them\n",
        share(1 - busy));
  else if (copies_s > kernels_s)
    text += fmt::format("top limiter: copies, {} against {} in kernels\n", seconds(copies_s), seconds(kernels_s));
  else if (!tables.kernels.empty())
    text +=
        fmt::format("top limiter: {}, {} of the time in kernels\n", reports::elided(tables.kernels[0].name, kMaxName),
                    share(tables.kernels[0].total_s / kernels_s));
  return text;
}

std::string ncu_summary(const std::vector<profile::KernelMetrics>& kernels) {
  std::string text = "\n--- kernels of one application (ncu)\n";
  Rows rows{{"kernel", "time", "memory", "compute", "DRAM", "occupancy", "limited by"}};
  const auto percent = [](double value) { return value < 0 ? std::string("–") : share(value / 100); };
  const profile::KernelMetrics* longest = nullptr;
  for (const profile::KernelMetrics& k : kernels) {
    if (!longest || k.duration_s > longest->duration_s) longest = &k;
    if (rows.size() <= kShown)
      rows.push_back({reports::elided(k.kernel, kMaxName), seconds(k.duration_s), percent(k.memory), percent(k.compute),
                      percent(k.dram), percent(k.occupancy), profile::to_text(k.limiter())});
  }
  text += table(rows);
  if (!longest) return text;
  text += fmt::format("top limiter: {} of {}: memory at {} and compute at {} of their peaks\n",
                      profile::to_text(longest->limiter()), reports::elided(longest->kernel, kMaxName),
                      percent(longest->memory), percent(longest->compute));
  for (const auto& [name, value] : longest->other)
    for (const char* telling :
         {"L2 Hit Rate", "L1/TEX Hit Rate", "Mem Busy", "Max Bandwidth", "Executed Ipc Active", "No Eligible",
          "Warp Cycles Per Issued Instruction", "Theoretical Occupancy", "Registers Per Thread"})
      if (name == telling) text += fmt::format("  {}: {}\n", name, value);
  for (size_t i = 0; i < std::min<size_t>(3, longest->advice.size()); ++i)
    text += "  ncu: " + longest->advice[i] + "\n";
  return text;
}

}  // namespace duet
