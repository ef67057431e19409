// SPDX-License-Identifier: Apache-2.0
// explanation() at the end puts a case's sentences in order; each group of functions above it makes one kind.
#include "cli/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/name_filter.h"
#include "core/near_names.h"
#include "reports/analysis.h"
#include "reports/counters.h"
#include "reports/format.h"
#include "reports/gpu_bound.h"
#include "reports/phrases.h"
#include "results/job_name.h"
#include "results/run_file.h"

namespace duet {
namespace {

using reports::Analysis;
using reports::count_of;
using reports::seconds;
using reports::share;
using reports::si;
using reports::SpeedupRow;
using reports::times;
using results::Bound;
using results::Cache;
using results::Choice;
using results::Device;
using results::Job;
using results::Run;
using results::Scope;
using results::Series;
using results::Status;

constexpr size_t kWidth = 110;                 // of the paragraph
constexpr double kLaunchShare = 0.5;           // of a call outside the kernel: then launching bounds it
constexpr double kMinShare = 0.05;             // of a roof that still says something of what a case could reach
constexpr double kWorthNaming = 0.05;          // of a step: smaller ops are not named
constexpr size_t kNamedOps = 4;                // of a step
constexpr double kScales = 1.1;                // threads that are faster together than one by less do not help
constexpr const char* kAskedGpu = "h100-sxm";  // whose data sheet bounds a GPU that was not measured

using Jobs = std::vector<const Job*>;
using Sentences = std::vector<std::string>;

// --- what bounds a series, and how far it is from that

// "memory bounds it: cpu.copy at 12.3 GB/s allows 1.1 ms, of which it takes 1.23 ms: 91 % of the roof"
std::string limit_text(const Series& s) {
  if (s.has_flag(results::flag::kFloor))
    return "it is nearly as short as an empty kernel: launching bounds it, and its share of a roof says nothing";
  if (!s.roof) return "no ceiling of the run matches it, so that the run does not say what bounds it";
  const results::Roof& roof = *s.roof;
  const std::string what = roof.bound == Bound::memory ? "memory" : "arithmetic";
  const std::string at = si(roof.value, roof.bound == Bound::memory ? "B/s" : "FLOP/s");
  if (results::has_disturbed_roof(s))
    return fmt::format(
        "{} bounds it ({}), but the probe beside it was slower and may not accuse it, so that its share says nothing",
        what, roof.ceiling);
  const std::string left = times(1 / roof.fraction);
  if (roof.fraction < results::kWeakFraction)
    return fmt::format(
        "neither memory nor arithmetic bounds it: it reaches {} of {} at {}, the nearer of the two, where it would be "
        "{} "
        "faster; its own code or latency takes the time",
        share(roof.fraction), roof.ceiling, at, left);
  const std::string text = fmt::format("{} bounds it: {} at {} allows {}, which is {} of its roof", what, roof.ceiling,
                                       at, seconds(s.summary.median_s * roof.fraction), share(roof.fraction));
  if (roof.fraction >= 1) return text + ", so that nothing is left but to move or compute less";
  if (roof.fraction >= reports::kNearRoof) return text + fmt::format(", so that little is left (at most {})", left);
  return text + fmt::format(", so that up to {} is left", left);
}

std::string threads_of(const Choice& c) {
  return c.job->device == Device::cpu ? fmt::format(" on {}", count_of(static_cast<size_t>(c.call->threads), "thread"))
                                      : "";
}

void add_side(const Choice& c, Sentences& out) {
  const Series& call = *c.call;
  const bool gpu = c.job->device == Device::gpu;
  const Series& bounded = *c.device_time();
  std::string text =
      fmt::format("{}: {}{} takes {} a call ({})", reports::to_text(c.job->device), reports::impl_text(*c.job),
                  threads_of(c), seconds(call.summary.median_s), reports::to_text(call.cache));
  if (gpu && c.kernel) {
    const double kernel_s = c.kernel->summary.median_s, outside_s = call.summary.median_s - kernel_s;
    text += fmt::format(", {} of it in its kernels", seconds(kernel_s));
    if (outside_s > kLaunchShare * call.summary.median_s)
      text += fmt::format("; launch and wait are the other {} and bound the call",
                          share(outside_s / call.summary.median_s));
  }
  out.push_back(text + "; " + limit_text(bounded) + ".");
  if (call.has_flag(results::flag::kDisturbed)) out.emplace_back("Other work on the machine disturbed these times.");
  if (c.end_to_end) {
    const double all_s = c.end_to_end->summary.median_s, copies_s = all_s - call.summary.median_s;
    if (copies_s > 0)
      out.push_back(fmt::format("With the copies of inputs and outputs it takes {}; the copies are {} of that.",
                                seconds(all_s), share(copies_s / all_s)));
  }
  if (c.end_to_end && c.overlapped)
    out.push_back(fmt::format("With the copy of the next batch beside the work it takes {}, {} of that.",
                              seconds(c.overlapped->summary.median_s),
                              share(c.overlapped->summary.median_s / c.end_to_end->summary.median_s)));
}

// What counters measured (bench_all --counters), beside what the model says.
void add_counters(const Choice& c, Sentences& out) {
  const Job& job = *c.job;
  if (!job.counters) return;
  const std::string side = reports::to_text(job.device);
  if (const auto ratio = reports::traffic_ratio(job)) {
    const double moved = *job.counters->value_of(reports::Quantity::bytes);
    const results::CounterWindow& window = *job.counters->window;
    std::string text =
        fmt::format("Measured, an application on the {} moves {} ({}), {} of the compulsory {}", side, si(moved, "B"),
                    reports::to_text(job.counters->cache), times(*ratio), si(static_cast<double>(job.bytes), "B"));
    text += fmt::format(", at {}", si(moved * static_cast<double>(window.applications) / window.time_s, "B/s"));
    if (*ratio > 1 + reports::kTrafficMargin)
      text += fmt::format("; {} more is moved than has to be", si(moved - static_cast<double>(job.bytes), "B"));
    else if (*ratio < 1 - reports::kTrafficMargin)
      text += "; caches keep the rest from one application to the next, or it is not counted";
    for (const results::Reading& r : job.counters->readings)
      if (r.quantity == reports::Quantity::bytes) text += fmt::format(" (by {})", r.source);
    out.push_back(text + ".");
  }
  if (const auto energy = reports::energy_of(job))
    out.push_back(fmt::format("An application on the {} takes {} at {} ({}).", side, si(energy->joules, "J"),
                              si(energy->watts, "W"), energy->parts));
}

// --- within a side

void add_threads(const Choice& cpu, Sentences& out) {
  const Series* one = results::find_series(*cpu.job, Scope::call, cpu.call->cache, 1);
  if (!one || one == cpu.call) return;
  const double gain = one->summary.median_s / cpu.call->summary.median_s;
  out.push_back(
      gain < kScales
          ? fmt::format("One thread is as fast ({}): more of them do not help.", seconds(one->summary.median_s))
          : fmt::format("One thread takes {}: {} make it {} faster.", seconds(one->summary.median_s),
                        count_of(static_cast<size_t>(cpu.call->threads), "thread"), times(gain)));
}

void add_cold(const Choice& c, Sentences& out) {
  if (c.call->cache != Cache::warm) return;
  const Series* cold = results::find_series(*c.job, Scope::call, Cache::cold, c.call->threads);
  if (!cold) return;
  const double factor = cold->summary.median_s / c.call->summary.median_s;
  if (factor > kScales)
    out.push_back(fmt::format("With cold caches the {} takes {}, {} as long.", reports::to_text(c.job->device),
                              seconds(cold->summary.median_s), times(factor)));
}

// The same shape in another precision, where the run has it: what less traffic would bring.
void add_dtypes(const Run& run, const Choice& c, Sentences& out) {
  for (const auto& [name, jobs] : results::jobs_by_case(run.jobs)) {
    const Job& other = *jobs.front();
    if (other.op != c.job->op || other.dtype == c.job->dtype || other.machine != c.job->machine) continue;
    if (other.params.size() != c.job->params.size()) continue;
    const bool same = std::equal(other.params.begin(), other.params.end(), c.job->params.begin(), [](auto& a, auto& b) {
      return a.first == b.first && (a.first == "dtype" || a.second == b.second);
    });
    if (!same) continue;
    const auto best = results::best(jobs, c.job->device, c.call->cache);
    if (!best) continue;
    const double ratio = c.call->summary.median_s / best->call->summary.median_s;
    out.push_back(fmt::format("In {} the {} takes {} ({}), {}.", other.dtype, reports::to_text(c.job->device),
                              seconds(best->call->summary.median_s), best->job->impl,
                              ratio >= 1 ? times(ratio) + " faster" : times(1 / ratio) + " slower"));
  }
}

// --- what would change the verdict

void add_roof_verdict(const SpeedupRow& row, Sentences& out) {
  const Series &cpu = *row.cpu.call, &gpu = *row.gpu.device_time();
  const auto usable = [](const Series& s) {
    return s.roof && !s.has_flag(results::flag::kFloor) && !results::has_disturbed_roof(s) && s.roof->fraction <= 1 &&
           s.roof->fraction >= kMinShare;
  };
  if (!usable(cpu) || !usable(gpu)) return;
  const double at_roofs = cpu.summary.median_s * cpu.roof->fraction / (gpu.summary.median_s * gpu.roof->fraction);
  out.push_back(fmt::format("If both were at their roofs, with data resident, the {} would be {} faster.",
                            at_roofs >= 1 ? "GPU" : "CPU", times(at_roofs >= 1 ? at_roofs : 1 / at_roofs)));
  if (row.weak_cpu)
    out.push_back(fmt::format("The CPU's part of the ratio is weak: at its own roof the call's ratio would be {}.",
                              times(row.call_ratio() * cpu.roof->fraction)));
}

void add_copies(const SpeedupRow& row, Sentences& out) {
  if (!row.gpu.end_to_end) return;
  const double cpu_s = row.cpu.call->summary.median_s, call_s = row.gpu.call->summary.median_s,
               all_s = row.gpu.end_to_end->summary.median_s;
  if (call_s < cpu_s && all_s > cpu_s && all_s > call_s) {
    const double shared = std::ceil((all_s - call_s) / (cpu_s - call_s));
    out.push_back(
        fmt::format("Copies decide: the GPU wins once {:.0f} such calls share one pair of copies, so keep its data on "
                    "the device.",
                    shared));
  }
}

void add_launch(const SpeedupRow& row, Sentences& out) {
  if (!row.gpu.kernel) return;
  const double cpu_s = row.cpu.call->summary.median_s, call_s = row.gpu.call->summary.median_s,
               kernel_s = row.gpu.kernel->summary.median_s;
  if (call_s > cpu_s && kernel_s < cpu_s)
    out.push_back(
        fmt::format("Launch and wait decide: the kernel alone is {} faster than the CPU, so that a CUDA graph, a fused "
                    "neighbour or a larger batch gives the GPU the case.",
                    times(cpu_s / kernel_s)));
}

void add_fusion(const Choice& c, Sentences& out) {
  const Series& s = *c.device_time();
  if (!s.roof || s.roof->bound != Bound::memory || s.has_flag(results::flag::kFloor)) return;
  if (s.roof->fraction < reports::kNearRoof || c.job->bytes == 0 || c.job->op.starts_with("step/")) return;
  const auto bytes = static_cast<double>(c.job->bytes);
  out.push_back(
      fmt::format("On the {} only less traffic makes it faster: a fused neighbour that keeps a tenth of its {} in "
                  "registers saves {}.",
                  reports::to_text(c.job->device), si(bytes, "B"), seconds(0.1 * bytes / s.roof->value)));
}

void add_break_even(const Analysis& analysis, const Job& job, Sentences& out) {
  for (const reports::BreakEvenRow& row : analysis.break_evens) {
    const results::Sweep& sweep = *row.sweep;
    if (sweep.op != job.op || sweep.dtype != job.dtype || !row.gpu) continue;
    const bool member = std::all_of(sweep.fixed.begin(), sweep.fixed.end(), [&](const auto& fixed) {
      return std::find(job.params.begin(), job.params.end(), fixed) != job.params.end();
    });
    if (!member) continue;
    out.push_back(fmt::format("Over {} ({}), the GPU is ahead with resident data: {}; with copies: {}.",
                              sweep.size_name, count_of(sweep.points.size(), "size"),
                              reports::break_even_text(row.resident, sweep.size_name),
                              reports::break_even_text(row.with_copies, sweep.size_name)));
  }
}

// Of a case without a result on the GPU.
void add_gpu_bound(const Run& run, const std::string& case_name, Sentences& out) {
  const reports::GpuTable table = reports::built_in_gpus();
  const reports::GpuBound bound = reports::gpu_bound(run, table.find(kAskedGpu), table.launch_s);
  for (const reports::GpuBoundRow& row : bound.rows) {
    if (row.case_name != case_name || !row.resident) continue;
    std::string text =
        fmt::format("By its data sheet, the {} could at most be {} as fast with resident data ({} bounds it)",
                    bound.gpu->title, times(row.resident->ratio), row.limit);
    if (row.with_copies) text += fmt::format(" and {} with copies", times(row.with_copies->ratio));
    out.push_back(text + "; duet project shows how that is computed.");
    return;
  }
}

// --- training steps

void add_step(const Choice& c, Sentences& out) {
  if (!c.job->step) return;
  const results::Step& step = *c.job->step;
  const char* what = results::is_inference(c.job->op) ? "inference" : "step";
  const double all_s = c.call->summary.median_s;
  std::string phases;
  for (const auto& [name, time_s] : step.phases_s)
    phases += fmt::format("{}{} {}", phases.empty() ? "" : ", ", name, share(time_s / all_s));
  if (!phases.empty())
    out.push_back(fmt::format("Of the {}'s time on the {}: {}.", what, reports::to_text(c.job->device), phases));
  results::Amounts nodes = step.nodes_s;
  std::stable_sort(nodes.begin(), nodes.end(), [](auto& a, auto& b) { return a.second > b.second; });
  std::string ops;
  for (size_t i = 0; i < std::min(kNamedOps, nodes.size()) && nodes[i].second > kWorthNaming * all_s; ++i)
    ops += fmt::format("{}{} {}", ops.empty() ? "" : ", ", nodes[i].first, share(nodes[i].second / all_s));
  if (!ops.empty())
    out.push_back(fmt::format("Its longest ops, timed one by one: {}; the sum of all is {} of the {}.", ops,
                              share((all_s - step.residual_s) / all_s), what));
  out.push_back(fmt::format("As planned it holds {} on the {}: parameters, states and what lies between ops.",
                            reports::bytes_text(static_cast<double>(step.peak_memory_bytes)),
                            reports::to_text(c.job->device)));
}

// --- a case as text

// The rows of the pair in the cache state of the first choice; a case has one for each.
const SpeedupRow* row_of(const Analysis& analysis, const std::string& case_name) {
  for (const SpeedupRow& row : analysis.speedups)
    if (row.case_name == case_name && row.primary) return &row;
  return nullptr;
}

std::string ratio_text(const SpeedupRow& row, Scope scope) {
  const auto& ratio = row.ratio[static_cast<size_t>(scope)];
  if (!ratio) return "";
  if (reports::winner(*ratio) == reports::Winner::level)
    return fmt::format("{}: level ({})", reports::to_text(scope), times(ratio->value));
  const bool gpu = ratio->value >= 1;
  return fmt::format("{}: {} ({} to {})", reports::to_text(scope), reports::faster_side(ratio->value),
                     times(gpu ? ratio->lo : 1 / ratio->hi), times(gpu ? ratio->hi : 1 / ratio->lo));
}

Sentences sentences_of(const Run& run, const Analysis& analysis, const std::string& case_name, const Jobs& jobs) {
  Sentences out;
  if (const SpeedupRow* row = row_of(analysis, case_name)) {
    Sentences verdict;
    for (const Scope scope : {Scope::call, Scope::kernel, Scope::end_to_end})
      if (std::string text = ratio_text(*row, scope); !text.empty()) verdict.push_back(std::move(text));
    out.push_back(reports::sentence(fmt::format("{}", fmt::join(verdict, "; "))));
    for (const Choice* side : {&row->cpu, &row->gpu}) {
      add_side(*side, out);
      add_counters(*side, out);
      add_step(*side, out);
    }
    add_threads(row->cpu, out);
    add_cold(row->cpu, out);
    add_cold(row->gpu, out);
    add_roof_verdict(*row, out);
    add_launch(*row, out);
    add_copies(*row, out);
    add_fusion(row->gpu, out);
    add_break_even(analysis, *row->cpu.job, out);
    add_dtypes(run, row->gpu, out);
    if (row->contested) out.emplace_back("A job that is suspect was faster than one of the two: this may change.");
    return out;
  }
  for (const reports::OneSidedRow& row : analysis.one_sided) {
    if (row.case_name != case_name) continue;
    add_side(row.choice, out);
    add_counters(row.choice, out);
    add_step(row.choice, out);
    if (row.device == Device::cpu) add_threads(row.choice, out);
    add_cold(row.choice, out);
    add_fusion(row.choice, out);
    add_dtypes(run, row.choice, out);
    out.push_back(
        fmt::format("The {} has no result: {}.", row.device == Device::cpu ? "GPU" : "CPU", row.no_ratio_reason));
    if (row.device == Device::cpu && row.kind() == reports::Kind::op) add_gpu_bound(run, case_name, out);
  }
  if (out.empty()) {
    const auto failed =
        std::count_if(jobs.begin(), jobs.end(), [](const Job* j) { return j->status == Status::failed; });
    out.push_back(
        fmt::format("No job of this case has a result that counts: {} skipped, {} failed; the table has the reasons.",
                    jobs.size() - static_cast<size_t>(failed), failed));
  }
  return out;
}

std::string wrapped(const Sentences& sentences) {
  std::string text, line;
  const std::string all = fmt::format("{}", fmt::join(sentences, " "));
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find(' ', begin), all.size());
    const std::string word = all.substr(begin, end - begin);
    if (!line.empty() && reports::width_of(line) + 1 + reports::width_of(word) > kWidth) {
      text += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return text + line + "\n";
}

std::string table_of(const Jobs& jobs) {
  std::vector<std::vector<std::string>> rows{
      {"implementation", "scope", "time", "interval", "roof", "B/s", "FLOP/s", "note"}};
  for (const Job* job : jobs) {
    if (job->series.empty()) {
      rows.push_back(
          {reports::impl_text(*job), "", "", "", "", "", "", fmt::format("{}: {}", name_of(job->status), job->reason)});
      continue;
    }
    bool first = true;
    for (const Series& s : job->series) {
      std::string note = first ? (job->comparable ? "" : job->reason) : "";
      for (const std::string& flag : s.flags) note += (note.empty() ? "" : ", ") + flag;
      std::string scope = fmt::format("{} {}", reports::to_text(s.scope), reports::to_text(s.cache));
      if (job->device == Device::cpu) scope += fmt::format(", {}", count_of(static_cast<size_t>(s.threads), "thread"));
      rows.push_back({first ? reports::impl_text(*job) : "", scope, seconds(s.summary.median_s),
                      seconds(s.summary.lo_s) + " to " + seconds(s.summary.hi_s), reports::roof_text(s),
                      si(reports::byte_per_s(*job, s), "B/s"), si(reports::flop_per_s(*job, s), "FLOP/s"), note});
      first = false;
    }
  }
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], reports::width_of(row[i]));
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - reports::width_of(row[i]), ' ');
      line += i >= 2 && i + 1 < row.size() ? pad + row[i] + "  " : row[i] + pad + "  ";
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

bool selected(const Jobs& jobs, const std::string& what, const NameFilter* filter) {
  return std::any_of(jobs.begin(), jobs.end(),
                     [&](const Job* job) { return filter ? filter->matches(job->name) : job->name == what; });
}

}  // namespace

std::string explanation(const Run& run, const std::string& what) {
  const bool is_job = std::any_of(run.jobs.begin(), run.jobs.end(), [&](const Job& job) { return job.name == what; });
  const NameFilter by_filter(is_job ? "" : what);
  const Analysis analysis = reports::analyse(run);
  std::string text;
  for (const auto& [case_name, jobs] : results::jobs_by_case(run.jobs)) {
    if (!selected(jobs, what, is_job ? nullptr : &by_filter)) continue;
    const Job& first = *jobs.front();
    text += fmt::format("{}{}{}", text.empty() ? "" : "\n", reports::case_text(case_name),
                        first.why.empty() ? "" : "  (" + first.why + ")");
    text += fmt::format("\n{}: {} and {} an application, {} of footprint\n\n",
                        first.formula.empty() ? first.op : first.formula, si(static_cast<double>(first.bytes), "B"),
                        si(first.flops, "FLOP"), reports::bytes_text(static_cast<double>(first.footprint_bytes)));
    const std::string said = wrapped(sentences_of(run, analysis, case_name, jobs)) + "\n" + table_of(jobs);
    text += said + reports::mark_lines(said);
  }
  if (text.empty()) {
    std::vector<std::string> names;
    for (const Job& job : run.jobs) names.push_back(job.name);
    throw Error("no job of {} is named '{}' or has a match of it{}", run.file.empty() ? "the run" : run.file, what,
                near_hint(what, names).size() < 300 ? near_hint(what, names) : "; bench_all --list names them");
  }
  return text;
}

int run_explain(const ExplainOptions& options) {
  fmt::print("{}", explanation(results::load_run(options.run_file), options.what));
  return 0;
}

}  // namespace duet
