// SPDX-License-Identifier: Apache-2.0
// The sentence that ends each section.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "reports/answer.h"
#include "reports/format.h"
#include "reports/join.h"
#include "reports/phrases.h"

namespace duet::reports {

std::string conclude_speedups(const Analysis& analysis) {
  std::map<std::string, Rows> families;
  for (const SpeedupRow* row : rows_of(analysis, Kind::op))
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

std::string conclude_steps(const Analysis& analysis, Kind kind) {
  const bool training = kind == Kind::step;
  const Rows rows = rows_of(analysis, kind);
  if (!rows.empty()) {
    const SpeedupRow &first = *rows.front(), &last = *rows.back();
    std::string text = sentence(score(rows, training ? "step" : "inference"));
    if (rows.size() == 1) return text + fmt::format(" In {} {}.", case_text(first.case_name), winner_text(first));
    return text + fmt::format(" In {} {}, in {} {}.", case_text(first.case_name), winner_text(first),
                              case_text(last.case_name), winner_text(last));
  }
  const std::vector<StepRow>& all = training ? analysis.steps : analysis.inferences;
  if (all.empty()) return "";
  const auto worst = std::max_element(all.begin(), all.end(), [](auto& a, auto& b) {
    return std::abs(a.residual_s()) / a.step_s < std::abs(b.residual_s()) / b.step_s;
  });
  return fmt::format("The sum of its nodes explains every {} to within {} (largest residual: {}, {}).",
                     training ? "step" : "inference", share(std::abs(worst->residual_s()) / worst->step_s),
                     worst->label, worst->model);
}

std::string conclude_rooflines(const Analysis& analysis) {
  std::string text;
  for (const Roofline& roofline : analysis.rooflines) {
    std::vector<double> shares;
    size_t compute = 0;
    for (const RooflinePoint& point : roofline.points) {
      if (point.suspect || !point.series->roof || point.series->has_flag(results::flag::kFloor) ||
          results::has_disturbed_roof(*point.series))
        continue;
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
  const Rows rows = rows_of(analysis, Kind::op);
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
  const auto rows = one_sided(analysis, Device::cpu, Kind::op);
  for (const OneSidedRow* row : rows)
    if (const auto share = roof_share(*row)) {
      with_roof.push_back(row);
      shares.push_back(*share);
    }
  if (rows.empty()) return "";
  if (shares.empty()) return sentence("none of " + results_text(rows) + " has a roof to compare with");
  std::string more;
  for (const std::string& text : {weak_cpu_sentence(with_roof), beaten_sentence(analysis)})
    if (!text.empty()) more += " " + text;
  return fmt::format("The CPU reaches {} of its roof in {}; {}{}", share(results::median(shares)),
                     median_of(with_roof, rows), near_sentence(shares, noun_of(with_roof)), more);
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
