// SPDX-License-Identifier: Apache-2.0
#include "reports/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "reports/format.h"
#include "reports/join.h"

namespace duet::reports {
namespace {

constexpr double kNearRoof = 0.7;  // of the roof: not much is left to gain
constexpr size_t kMinGroup = 2;    // cases that make a statement about a range of sizes

using Rows = std::vector<const SpeedupRow*>;

// One row a case; steps are compared apart from single ops.
Rows rows_of(const Analysis& analysis, bool steps) {
  Rows rows;
  for (const SpeedupRow& row : analysis.speedups)
    if (row.primary && row.of_step() == steps) rows.push_back(&row);
  return rows;
}

size_t count_wins(const Rows& rows, Winner side) {
  return static_cast<size_t>(
      std::count_if(rows.begin(), rows.end(), [&](const SpeedupRow* row) { return winner(row->call()) == side; }));
}

std::optional<double> median_ratio(const Rows& rows, Scope scope) {
  std::vector<double> ratios;
  for (const SpeedupRow* row : rows)
    if (const auto& ratio = row->ratio[static_cast<size_t>(scope)]) ratios.push_back(ratio->value);
  if (ratios.empty()) return std::nullopt;
  return results::median(std::move(ratios));
}

const char* verb(size_t count, const char* one, const char* several) { return count == 1 ? one : several; }

// "all 3", "2 of 3"
std::string out_of(size_t count, size_t all) {
  return count == all ? fmt::format("all {}", all) : fmt::format("{} of {}", count, all);
}

// "the GPU wins 61 of 80 cases, the CPU 17, and 2 are level"
std::string score(const Rows& rows, const char* noun) {
  const size_t gpu = count_wins(rows, Winner::gpu), cpu = count_wins(rows, Winner::cpu), all = rows.size();
  const size_t level = all - gpu - cpu;
  if (level == all)
    return fmt::format("CPU and GPU are level in {}",
                       all == 1 ? fmt::format("the only {}", noun) : fmt::format("all {} {}s", all, noun));
  const bool gpu_first = gpu >= cpu;
  const size_t first = gpu_first ? gpu : cpu, second = gpu_first ? cpu : gpu;
  std::string text = all == 1 ? fmt::format("the {} wins the only {}", gpu_first ? "GPU" : "CPU", noun)
                              : fmt::format("the {} wins {} {}s", gpu_first ? "GPU" : "CPU", out_of(first, all), noun);
  if (second > 0) text += fmt::format(", the {} {}", gpu_first ? "CPU" : "GPU", second);
  if (level > 0) text += fmt::format("{} {} {} level", second > 0 ? ", and" : ",", level, verb(level, "is", "are"));
  return text;
}

std::string sentence(std::string text) {
  if (text.empty()) return text;
  if (text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text.ends_with('.') ? text : text + ".";
}

// "the GPU is 18.0× faster", "the CPU is 3.10× faster"
std::string faster_side(double ratio) {
  return ratio >= 1 ? fmt::format("the GPU is {} faster", times(ratio))
                    : fmt::format("the CPU is {} faster", times(1 / ratio));
}

std::string winner_text(const SpeedupRow& row) {
  return winner(row.call()) == Winner::level ? "both are level" : faster_side(row.call_ratio());
}

std::string median_sentence(const Rows& rows) {
  const auto call = median_ratio(rows, Scope::call), copies = median_ratio(rows, Scope::end_to_end);
  if (!call) return "";
  std::string text = fmt::format("In the median case {} by call", faster_side(*call));
  if (!copies) return text + ".";
  if ((*call >= 1) == (*copies >= 1))
    return text + fmt::format(" and {} with copies.", times(std::max(*copies, 1 / *copies)));
  return text + fmt::format("; with copies {}.", faster_side(*copies));
}

// Below which size the CPU wins everything that is bound by memory, and from which on the GPU does.
std::string size_sentence(const Rows& all) {
  Rows rows;
  for (const SpeedupRow* row : all)
    if (row->cpu.call->roof && row->cpu.call->roof->bound == Bound::memory && row->cpu.job->bytes > 0)
      rows.push_back(row);
  const auto bytes = [](const SpeedupRow* row) { return row->cpu.job->bytes; };
  std::sort(rows.begin(), rows.end(), [&](auto* a, auto* b) { return bytes(a) < bytes(b); });
  if (rows.size() < 2 * kMinGroup) return "";
  const auto wins = [](Winner side) { return [side](const SpeedupRow* row) { return winner(row->call()) == side; }; };
  auto cpu_end = std::find_if_not(rows.begin(), rows.end(), wins(Winner::cpu));
  // Cases of one size belong to one side of the border.
  while (cpu_end != rows.end() && cpu_end != rows.begin() && bytes(*std::prev(cpu_end)) == bytes(*cpu_end)) --cpu_end;
  auto gpu_begin = std::find_if_not(rows.rbegin(), rows.rend(), wins(Winner::gpu)).base();
  while (gpu_begin != rows.end() && gpu_begin != rows.begin() && bytes(*std::prev(gpu_begin)) == bytes(*gpu_begin))
    ++gpu_begin;
  const auto cpu = static_cast<size_t>(cpu_end - rows.begin()), gpu = static_cast<size_t>(rows.end() - gpu_begin);
  if (cpu == rows.size()) return fmt::format("The CPU wins all {} memory-bound cases.", cpu);
  if (gpu == rows.size()) return fmt::format("The GPU wins all {} memory-bound cases.", gpu);
  const auto border = [&](const auto& row) { return bytes_text(static_cast<double>(bytes(*row))); };
  const std::string all_rows = fmt::format("Of the {} memory-bound cases, by the bytes that they move", rows.size());
  if (cpu >= kMinGroup && gpu >= kMinGroup && cpu + gpu == rows.size())
    return fmt::format("{}, the CPU wins all {} below {} and the GPU all {} from there on.", all_rows, cpu,
                       border(gpu_begin), gpu);
  if (cpu >= kMinGroup && gpu >= kMinGroup)
    return fmt::format("{}, the CPU wins all {} below {} and the GPU all {} from {} on.", all_rows, cpu,
                       border(cpu_end), gpu, border(gpu_begin));
  if (cpu >= kMinGroup) return fmt::format("{}, the CPU wins all {} below {}.", all_rows, cpu, border(cpu_end));
  if (gpu >= kMinGroup) return fmt::format("{}, the GPU wins all {} from {} on.", all_rows, gpu, border(gpu_begin));
  return "";
}

std::string largest_sentence(const Rows& rows) {  // sorted by ratio, largest first
  if (rows.size() < 2) return "";
  const auto wins = [](Winner side) { return [side](const SpeedupRow* row) { return winner(row->call()) == side; }; };
  const auto gpu = std::find_if(rows.begin(), rows.end(), wins(Winner::gpu));
  const auto cpu = std::find_if(rows.rbegin(), rows.rend(), wins(Winner::cpu));
  if (gpu == rows.end() && cpu == rows.rend()) return "";
  std::string text = "Largest advantage by call: ";
  if (gpu != rows.end()) text += fmt::format("GPU {} ({})", times((*gpu)->call_ratio()), case_text((*gpu)->case_name));
  if (cpu != rows.rend())
    text += fmt::format("{}CPU {} ({})", gpu == rows.end() ? "" : ", ", times(1 / (*cpu)->call_ratio()),
                        case_text((*cpu)->case_name));
  else if (const SpeedupRow& last = *rows.back(); winner(last.call()) == Winner::gpu)
    text += fmt::format("; smallest: {} ({})", times(last.call_ratio()), case_text(last.case_name));
  return text + ".";
}

std::string weak_sentence(const Rows& rows, const char* noun) {
  const auto weak =
      static_cast<size_t>(std::count_if(rows.begin(), rows.end(), [](const SpeedupRow* row) { return row->weak_cpu; }));
  if (weak == 0) return "";
  return fmt::format("In {} the CPU reaches less than {:.0f} % of its own roof: {} with care.", count_of(weak, noun),
                     100 * results::kWeakFraction, verb(weak, "read that ratio", "read those ratios"));
}

size_t count(const Analysis& analysis, Status status) {
  const auto found = analysis.count.find(status);
  return found == analysis.count.end() ? 0 : found->second;
}

std::string failure_sentence(const Analysis& analysis) {
  const size_t failed = count(analysis, Status::failed), suspect = analysis.suspect_jobs;
  std::string text;
  if (failed > 0) text = fmt::format("{} failed", count_of(failed, "job"));
  if (suspect > 0)
    text += failed > 0 ? fmt::format(" and {} {} suspect", suspect, verb(suspect, "is", "are"))
                       : fmt::format("{} {} suspect", count_of(suspect, "job"), verb(suspect, "is", "are"));
  if (text.empty()) return "";
  return text + (failed + suspect == 1 ? ": it does not count here." : ": none of them counts here.");
}

std::string trust_sentence(const Run& run) {
  if (run.invocation.trust == Trust::trustworthy) return "";
  std::string text = run.invocation.trust == Trust::unusable ? "The run is unusable for ratios"
                                                             : "The run was disturbed: read it with care";
  return text + ".";
}

// The reason that most jobs give, of those without a result.
std::string frequent_reason(const Analysis& analysis) {
  const auto most = std::max_element(analysis.missing.begin(), analysis.missing.end(),
                                     [](auto& a, auto& b) { return a.jobs.size() < b.jobs.size(); });
  if (most == analysis.missing.end()) return "";
  return fmt::format("The most frequent reason: {} ({}).", most->reason, count_of(most->jobs.size(), "job"));
}

std::vector<const OneSidedRow*> one_sided(const Analysis& analysis, Device device, bool steps) {
  std::vector<const OneSidedRow*> rows;
  for (const OneSidedRow& row : analysis.one_sided)
    if (row.device == device && row.of_step() == steps) rows.push_back(&row);
  return rows;
}

size_t count_cases(const std::vector<const OneSidedRow*>& rows) {
  std::set<std::string> names;
  for (const OneSidedRow* row : rows) names.insert(row->case_name);
  return names.size();
}

std::string across_sentence(const Analysis& analysis) {
  const auto across = static_cast<size_t>(std::count_if(analysis.speedups.begin(), analysis.speedups.end(),
                                                        [](const SpeedupRow& row) { return row.across_machines; }));
  const size_t all = analysis.speedups.size();
  if (across == 0) return "";
  return fmt::format("{} across machines: the CPU of one against the GPU of another.",
                     all == 1        ? "The only ratio is"
                     : across == all ? fmt::format("All {} ratios are", all)
                                     : fmt::format("{} of {} ratios {}", across, all, verb(across, "is", "are")));
}

void add_pair_sentences(const Analysis& analysis, Answer& made) {
  const Rows rows = rows_of(analysis, false), steps = rows_of(analysis, true);
  if (!rows.empty()) {
    made.headline = sentence(score(rows, "case"));
    made.sentences = {median_sentence(rows), size_sentence(rows), largest_sentence(rows)};
  } else {
    made.headline = sentence(score(steps, "training step"));
  }
  if (!steps.empty()) {
    std::string text = rows.empty() ? median_sentence(steps) : sentence("training steps: " + score(steps, "step"));
    if (!rows.empty() && steps.size() > 1)
      text += fmt::format(" In the median step {}.", faster_side(*median_ratio(steps, Scope::call)));
    made.sentences.push_back(std::move(text));
  }
  made.cautions.push_back(across_sentence(analysis));
  made.cautions.push_back(rows.empty() ? weak_sentence(steps, "step") : weak_sentence(rows, "case"));
  std::vector<const OneSidedRow*> others;
  for (const OneSidedRow& row : analysis.one_sided) others.push_back(&row);
  if (const size_t more = count_cases(others); more > 0)
    made.sentences.push_back(
        fmt::format("{} {} a result on one side only.", count_of(more, "more case"), verb(more, "has", "have")));
}

// The share of its roof that a CPU row reaches, where it means something.
std::optional<double> roof_share(const OneSidedRow& row) {
  const Series& call = *row.choice.call;
  if (!call.roof || call.has_flag(results::flag::kFloor)) return std::nullopt;
  return call.roof->fraction;
}

// "attention (3 of 3), recurrent (1 of 2)", at most three families.
std::string weak_families(const std::vector<const OneSidedRow*>& rows) {
  std::map<std::string, std::pair<size_t, size_t>> families;  // weak, all
  for (const OneSidedRow* row : rows) {
    auto& [weak, all] = families[row->family.empty() ? "other" : row->family];
    weak += row->weak_cpu;
    ++all;
  }
  std::vector<std::pair<std::string, std::pair<size_t, size_t>>> sorted(families.begin(), families.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](auto& a, auto& b) { return a.second.first > b.second.first; });
  std::string text;
  size_t named = 0, left = 0;
  for (const auto& [family, counts] : sorted) {
    if (counts.first == 0) continue;
    if (named++ < 3)
      text += fmt::format("{}{} ({} of {})", text.empty() ? "" : ", ", family, counts.first, counts.second);
    else
      ++left;
  }
  return left > 0 ? text + fmt::format(" and {} more {}", left, verb(left, "family", "families")) : text;
}

// "4 cases"; "8 results of 4 cases" where several machines measured them.
std::string results_text(const std::vector<const OneSidedRow*>& rows) {
  const size_t cases = count_cases(rows);
  if (cases == rows.size()) return count_of(cases, "case");
  return fmt::format("{} of {}", count_of(rows.size(), "result"), count_of(cases, "case"));
}

// "the median of 4 cases", "the median of 3 of 4 cases; the other has no roof": what a median of shares is over.
std::string median_of(const std::vector<const OneSidedRow*>& with_roof, const std::vector<const OneSidedRow*>& all) {
  const size_t left = all.size() - with_roof.size();
  if (left == 0 && all.size() == 1) return "the only case";
  if (left == 0) return "the median of " + results_text(all);
  return fmt::format("{} of {}; {} no roof to compare with",
                     with_roof.size() == 1 ? "1" : fmt::format("the median of {}", with_roof.size()), results_text(all),
                     left == 1 ? "the other has" : "the others have");
}

const char* noun_of(const std::vector<const OneSidedRow*>& rows) {
  return count_cases(rows) == rows.size() ? "case" : "result";
}

std::string near_sentence(const std::vector<double>& shares, const char* noun) {
  const auto near =
      static_cast<size_t>(std::count_if(shares.begin(), shares.end(), [](double share) { return share >= kNearRoof; }));
  return fmt::format("{} {} {:.0f} % or more of it.", count_of(near, noun), verb(near, "reaches", "reach"),
                     100 * kNearRoof);
}

std::string weak_cpu_sentence(const std::vector<const OneSidedRow*>& rows) {
  const auto weak = static_cast<size_t>(
      std::count_if(rows.begin(), rows.end(), [](const OneSidedRow* row) { return row->weak_cpu; }));
  if (weak == 0) return "";
  return fmt::format("{} {} below {:.0f} %: {}.", count_of(weak, noun_of(rows)), verb(weak, "stays", "stay"),
                     100 * results::kWeakFraction, weak_families(rows));
}

void add_cpu_sentences(const Analysis& analysis, Answer& made) {
  const auto rows = one_sided(analysis, Device::cpu, false), steps = one_sided(analysis, Device::cpu, true);
  std::vector<const OneSidedRow*> with_roof;
  std::vector<double> shares;
  for (const OneSidedRow* row : rows)
    if (const auto share = roof_share(*row)) {
      with_roof.push_back(row);
      shares.push_back(*share);
    }
  const std::string no_gpu = fmt::format("No GPU was measured ({}), so there is no speedup.", analysis.no_gpu_reason);
  if (shares.empty()) {
    made.headline = rows.empty() ? fmt::format("The CPU ran {}.", count_of(count_cases(steps), "training step"))
                                 : fmt::format("The CPU ran {}; none has a roof to compare with.", results_text(rows));
    made.sentences = {no_gpu};
  } else {
    made.headline = fmt::format("The CPU reaches {} of its roof in {}.", share(results::median(shares)),
                                median_of(with_roof, rows));
    const auto by_share = [](auto* a, auto* b) { return *roof_share(*a) < *roof_share(*b); };
    const auto [low, high] = std::minmax_element(with_roof.begin(), with_roof.end(), by_share);
    made.sentences = {no_gpu, near_sentence(shares, noun_of(with_roof)), weak_cpu_sentence(with_roof)};
    const auto named = [](const OneSidedRow& row) {
      return fmt::format("{} ({})", named_of(case_text(row.case_name), machine_of(*row.choice.job)),
                         share(*roof_share(row)));
    };
    if (with_roof.size() > 1)
      made.sentences.push_back(fmt::format("Closest to its roof: {}; furthest: {}.", named(**high), named(**low)));
  }
  if (!steps.empty() && !rows.empty())
    made.sentences.push_back(fmt::format("{} {} timed as well.", count_of(count_cases(steps), "training step"),
                                         verb(count_cases(steps), "was", "were")));
}

}  // namespace

std::string Answer::text() const {
  std::string all = headline;
  for (const auto* list : {&sentences, &cautions})
    for (const std::string& sentence : *list) all += " " + sentence;
  return all;
}

Answer answer(const Run& run, const Analysis& analysis) {
  Answer made;
  if (!analysis.speedups.empty()) {
    add_pair_sentences(analysis, made);
  } else if (analysis.gpu_measured && !analysis.one_sided.empty()) {
    made.headline = "No case has a result on both sides.";
    made.sentences = {
        fmt::format(
            "{} on the CPU alone, {} on the GPU alone.",
            count_cases(one_sided(analysis, Device::cpu, false)) + count_cases(one_sided(analysis, Device::cpu, true)),
            count_cases(one_sided(analysis, Device::gpu, false)) + count_cases(one_sided(analysis, Device::gpu, true))),
        frequent_reason(analysis)};
  } else if (!analysis.one_sided.empty()) {
    add_cpu_sentences(analysis, made);
  } else {
    made.headline = count(analysis, Status::ok) == 0 ? "Nothing was measured." : "No result can be compared.";
    made.sentences = {fmt::format("{}: {} skipped, {} failed, {} refused or suspect.", count_of(run.jobs.size(), "job"),
                                  count(analysis, Status::skipped), count(analysis, Status::failed),
                                  analysis.suspect_jobs + analysis.excluded_jobs),
                      frequent_reason(analysis)};
  }
  if (!analysis.one_sided.empty() || !analysis.speedups.empty()) made.cautions.push_back(failure_sentence(analysis));
  if (run.invocation.trust == Trust::unusable)
    made.sentences.insert(made.sentences.begin(), trust_sentence(run));
  else
    made.cautions.push_back(trust_sentence(run));
  for (auto* list : {&made.sentences, &made.cautions})
    std::erase_if(*list, [](const std::string& text) { return text.empty(); });
  return made;
}

// --- the ends of sections

std::string conclude_speedups(const Analysis& analysis) {
  std::map<std::string, Rows> families;
  for (const SpeedupRow* row : rows_of(analysis, false))
    families[row->family.empty() ? "other" : row->family].push_back(row);
  if (families.size() < 2) return "";
  const auto by_median = [](auto& a, auto& b) {
    return *median_ratio(a.second, Scope::call) < *median_ratio(b.second, Scope::call);
  };
  const auto [low, high] = std::minmax_element(families.begin(), families.end(), by_median);
  const auto median = [](auto& family) { return faster_side(*median_ratio(family->second, Scope::call)); };
  if (*median_ratio(high->second, Scope::call) < 1)
    return fmt::format("In the median of every family the CPU is faster: least in {} ({}), most in {} ({}).",
                       high->first, times(1 / *median_ratio(high->second, Scope::call)), low->first,
                       times(1 / *median_ratio(low->second, Scope::call)));
  std::string text = fmt::format("The family {} gains most from the GPU (median: {}), {} least ({})", high->first,
                                 median(high), low->first, median(low));
  std::string lost;
  for (const auto& [family, rows] : families)
    if (const size_t cpu = count_wins(rows, Winner::cpu); 2 * cpu > rows.size())
      lost += fmt::format("{}{} ({} of {})", lost.empty() ? "" : ", ", family, cpu, rows.size());
  return text +
         (lost.empty() ? "; the CPU wins most cases of no family." : "; the CPU wins most cases of: " + lost + ".");
}

std::string conclude_steps(const Analysis& analysis) {
  const Rows rows = rows_of(analysis, true);
  if (!rows.empty()) {
    const SpeedupRow &first = *rows.front(), &last = *rows.back();
    std::string text = sentence(score(rows, "step"));
    if (rows.size() == 1) return text + fmt::format(" In {} {}.", case_text(first.case_name), winner_text(first));
    return text + fmt::format(" In {} {}, in {} {}.", case_text(first.case_name), winner_text(first),
                              case_text(last.case_name), winner_text(last));
  }
  if (analysis.steps.empty()) return "";
  const auto worst = std::max_element(analysis.steps.begin(), analysis.steps.end(), [](auto& a, auto& b) {
    return std::abs(a.residual_s()) / a.step_s < std::abs(b.residual_s()) / b.step_s;
  });
  return fmt::format("The sum of its nodes explains every step to within {} (largest residual: {}, {}).",
                     share(std::abs(worst->residual_s()) / worst->step_s), worst->label, worst->model);
}

std::string conclude_rooflines(const Analysis& analysis) {
  std::string text;
  for (const Roofline& roofline : analysis.rooflines) {
    std::vector<double> shares;
    size_t compute = 0;
    for (const RooflinePoint& point : roofline.points) {
      if (point.suspect || !point.series->roof || point.series->has_flag(results::flag::kFloor)) continue;
      shares.push_back(point.series->roof->fraction);
      compute += point.series->roof->bound == Bound::compute;
    }
    if (shares.empty()) continue;
    text +=
        fmt::format("{}the {} reaches {} of its roof in the median of {} ({} bound by compute, {} by memory)",
                    text.empty() ? "" : "; ", named_of(to_text(roofline.device), roofline.machine),
                    share(results::median(shares)), count_of(shares.size(), "case"), compute, shares.size() - compute);
  }
  return sentence(text);
}

std::string conclude_bandwidth(const Analysis& analysis) {
  std::map<Device, std::vector<double>> shares;
  size_t over = 0;
  for (const BandwidthRow& row : analysis.bandwidth)
    for (const BandwidthRow::Bar& bar : row.bars) {
      over += bar.suspect;
      if (!bar.suspect) shares[bar.job->device].push_back(bar.fraction);
    }
  std::string text;
  for (const auto& [device, all] : shares) {
    const auto near =
        static_cast<size_t>(std::count_if(all.begin(), all.end(), [](double share) { return share >= kNearRoof; }));
    text += fmt::format("{}the {} reaches {:.0f} % of its bandwidth in {}", text.empty() ? "" : ", ", to_text(device),
                        100 * kNearRoof,
                        all.size() == 1 ? fmt::format("{} only case", near == 1 ? "the" : "not even the")
                                        : out_of(near, all.size()) + " cases");
  }
  if (over > 0)
    text += fmt::format("{}{} above the ceiling and no result", text.empty() ? "" : "; ",
                        over == 1 ? std::string("1 bar is") : fmt::format("{} bars are", over));
  return sentence(text);
}

namespace {

// Of a run without a GPU: how the CPU's time grows from the smallest to the largest size.
std::string conclude_growth(const Analysis& analysis) {
  struct Growth {
    const Sweep* sweep;
    double of_size, of_time;
  };
  std::vector<Growth> all;
  for (const BreakEvenRow& row : analysis.break_evens) {
    const SweepPoint &first = row.sweep->points.front(), &last = row.sweep->points.back();
    if (first.cpu_s && last.cpu_s && last.size > first.size)
      all.push_back(
          {row.sweep, static_cast<double>(last.size) / static_cast<double>(first.size), *last.cpu_s / *first.cpu_s});
  }
  if (all.empty()) return "";
  const auto [low, high] = std::minmax_element(all.begin(), all.end(), [](const Growth& a, const Growth& b) {
    return std::log(a.of_time) / std::log(a.of_size) < std::log(b.of_time) / std::log(b.of_size);
  });
  const auto grows = [](const Growth& growth) {
    return fmt::format("{} while {} grows {}", times(growth.of_time), growth.sweep->size_name, times(growth.of_size));
  };
  if (all.size() == 1) return fmt::format("The CPU's time of {} grows {}.", low->sweep->op, grows(*low));
  return fmt::format("For its size the CPU's time grows least in {} ({}) and most in {} ({}).", low->sweep->op,
                     grows(*low), high->sweep->op, grows(*high));
}

}  // namespace

std::string conclude_break_even(const Analysis& analysis) {
  if (!analysis.gpu_measured) return conclude_growth(analysis);
  // Of the sweeps with times of both sides.
  const auto summary = [&](BreakEven BreakEvenRow::*which, size_t& known) {
    size_t always = 0, later = 0, never = 0;
    for (const BreakEvenRow& row : analysis.break_evens) {
      const BreakEven::Kind kind = (row.*which).kind;
      never += kind == BreakEven::Kind::never;
      always += kind == BreakEven::Kind::from_smallest;
      later += kind == BreakEven::Kind::between;
    }
    known = always + later + never;
    if (known == 0) return std::string();
    return fmt::format("ahead at every size in {}, from some size on in {}, and never in {}", always, later, never);
  };
  size_t resident_sweeps = 0, copies_sweeps = 0;
  const std::string resident = summary(&BreakEvenRow::resident, resident_sweeps),
                    copies = summary(&BreakEvenRow::with_copies, copies_sweeps);
  if (resident.empty()) return "";
  const size_t all = analysis.break_evens.size();
  std::string text = fmt::format("Of {}{}, the GPU is {}", count_of(resident_sweeps, "sweep"),
                                 resident_sweeps == all ? "" : fmt::format(" with both sides (of {})", all), resident);
  if (copies.empty()) return text + ".";
  return text + fmt::format("; with copies{} it is {}.",
                            copies_sweeps == resident_sweeps ? "" : fmt::format(", of {},", copies_sweeps), copies);
}

std::string conclude_cases(const Analysis& analysis) {
  const Rows rows = rows_of(analysis, false);
  if (rows.empty()) return "";
  Rows lost;  // by the CPU's advantage, largest first
  for (auto row = rows.rbegin(); row != rows.rend(); ++row)
    if (winner((*row)->call()) == Winner::cpu) lost.push_back(*row);
  if (lost.empty()) return "The CPU wins no case.";
  std::string names;
  constexpr size_t kNamed = 3;
  for (size_t i = 0; i < std::min(kNamed, lost.size()); ++i)
    names +=
        fmt::format("{}{} ({})", i == 0 ? "" : ", ", case_text(lost[i]->case_name), times(1 / lost[i]->call_ratio()));
  return fmt::format("The CPU wins {}, {}{}.", count_of(lost.size(), "case"), lost.size() > 1 ? "by most in " : "",
                     names);
}

std::string conclude_cpu_times(const Analysis& analysis) {
  std::vector<const OneSidedRow*> with_roof;
  std::vector<double> shares;
  const auto rows = one_sided(analysis, Device::cpu, false);
  for (const OneSidedRow* row : rows)
    if (const auto share = roof_share(*row)) {
      with_roof.push_back(row);
      shares.push_back(*share);
    }
  if (rows.empty()) return "";
  if (shares.empty()) return sentence("none of " + results_text(rows) + " has a roof to compare with");
  const std::string weak = weak_cpu_sentence(with_roof);
  return fmt::format("The CPU reaches {} of its roof in {}; {}{}", share(results::median(shares)),
                     median_of(with_roof, rows), near_sentence(shares, noun_of(with_roof)),
                     weak.empty() ? "" : " " + weak);
}

std::string conclude_missing(const Analysis& analysis) {
  std::string text;
  for (const char* status : {"failed", "suspect", "excluded", "skipped"}) {
    size_t jobs = 0, reasons = 0;
    for (const MissingGroup& group : analysis.missing)
      if (group.status == status) {
        jobs += group.jobs.size();
        ++reasons;
      }
    if (jobs > 0)
      text += fmt::format("{}{} {} for {}", text.empty() ? "" : ", ", count_of(jobs, "job"), status,
                          count_of(reasons, "reason"));
  }
  return sentence(text);
}

std::string conclude_ceilings(const Run& run) {
  std::string text;
  for (const Ceiling& cpu : run.ceilings) {
    if (!cpu.name.starts_with("cpu.") || chosen_ceiling(run, cpu.name) != &cpu) continue;
    const Ceiling* gpu = chosen_ceiling(run, "gpu." + cpu.name.substr(4));
    if (!gpu || gpu->unit != cpu.unit || !(cpu.value > 0) || (cpu.unit != "B/s" && cpu.unit != "FLOP/s")) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", cpu.name.substr(4), times(gpu->value / cpu.value));
  }
  if (!text.empty()) return "The GPU's ceilings over the CPU's: " + text + ".";
  // Without a pair: the fastest memory and the fastest arithmetic.
  for (const char* unit : {"B/s", "FLOP/s"}) {
    const Ceiling* fastest = nullptr;
    for (const Ceiling& ceiling : run.ceilings)
      if (ceiling.unit == unit && chosen_ceiling(run, ceiling.name) == &ceiling &&
          (!fastest || ceiling.value > fastest->value))
        fastest = &ceiling;
    if (fastest)
      text += fmt::format("{}{} with {}", text.empty() ? "" : ", ", fastest->name, si(fastest->value, fastest->unit));
  }
  return text.empty() ? "" : "The highest ceilings: " + text + ".";
}

}  // namespace duet::reports
