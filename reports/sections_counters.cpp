// SPDX-License-Identifier: Apache-2.0
// The section on measured traffic and energy, of runs with --counters: beside what the model says, for each job.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "reports/counters.h"
#include "reports/format.h"
#include "reports/phrases.h"
#include "reports/sections.h"

namespace duet::reports {
namespace {

using Jobs = std::vector<const Job*>;

Jobs jobs_with_counters(const Run& run) {
  Jobs jobs;
  for (const Job& job : run.jobs)
    if (job.counters) jobs.push_back(&job);
  return jobs;
}

bool has_value(const Job& job) {
  return std::any_of(job.counters->readings.begin(), job.counters->readings.end(),
                     [](const results::Reading& r) { return r.value.has_value(); });
}

// "memory traffic of all 4 jobs: no such counter; energy of the GPU of 2 of 4 jobs: no NVML"; empty: nothing is.
std::string what_is_unavailable(const Jobs& jobs) {
  std::vector<std::pair<std::pair<std::string, Quantity>, size_t>> found;  // reason, quantity: how many jobs
  for (const Job* job : jobs)
    for (const results::Reading& r : job->counters->readings) {
      if (r.value) continue;
      const std::pair key{r.unavailable_reason, r.quantity};
      const auto same = std::find_if(found.begin(), found.end(), [&](const auto& f) { return f.first == key; });
      if (same == found.end())
        found.emplace_back(key, 1);
      else
        ++same->second;
    }
  std::string text;
  for (const auto& [key, count] : found)
    text += fmt::format("{}{} of {} jobs ({})", text.empty() ? "" : "; ", to_text(key.second),
                        out_of(count, jobs.size()), key.first);
  return text;
}

std::string sources_of(const Jobs& jobs) {
  std::vector<std::string> sources;
  for (const Job* job : jobs)
    for (const results::Reading& r : job->counters->readings)
      if (const std::string text = to_text(r.quantity) + " by " + r.source;
          r.value && std::find(sources.begin(), sources.end(), text) == sources.end())
        sources.push_back(text);
  std::string text;
  for (const std::string& source : sources) text += (text.empty() ? "" : "; ") + source;
  return text;
}

Cell counted(const std::optional<double>& value, const std::string& unit) {
  return cell(value ? si(*value, unit) : "–");
}

Cell energy_cell(const std::optional<Energy>& energy) {
  if (!energy) return cell("–");
  return {{plain(si(energy->joules, "J")), below(muted(unbroken(energy->parts)))}, {}};
}

Table counters_table(const Jobs& jobs) {
  Table table{.caption = {plain("Of one application, on average over a window of 2 s or more, in the scope and cache "
                                "state of the job's first series.")},
              .columns = {{"case"},
                          {"implementation"},
                          {"compulsory", true, "traffic"},
                          {"measured", true, "traffic"},
                          {"measured / compulsory", true, "traffic"},
                          {"footprint", true},
                          {"energy", true},
                          {"power", true},
                          {"instructions", true},
                          {"per cycle", true},
                          {"other programs", true}},
              .rows = {},
              .groups = {},
              .sortable = true};
  for (const Job* job : jobs) {
    if (!has_value(*job)) continue;
    const results::Counters& c = *job->counters;
    const std::optional<double> ratio = traffic_ratio(*job), instructions = c.value_of(Quantity::instructions),
                                cycles = c.value_of(Quantity::cycles);
    const std::optional<Energy> energy = energy_of(*job);
    table.rows.push_back(
        {cell(case_text(job->case_name)), cell(impl_text(*job)), cell(si(static_cast<double>(job->bytes), "B")),
         counted(c.value_of(Quantity::bytes), "B"),
         ratio ? cell(significant(*ratio), *ratio > 1 + kTrafficMargin ? Tone::warn : Tone::plain) : cell("–"),
         cell(bytes_text(static_cast<double>(job->footprint_bytes))), energy_cell(energy),
         cell(energy ? si(energy->watts, "W") : "–"), counted(instructions, ""),
         cell(instructions && cycles ? significant(*instructions / *cycles) : "–"),
         cell(fmt::format("{:.2f} cores", c.window->foreign_cores))});
  }
  drop_empty_columns(table);
  return table;
}

std::string traffic_sentence(const Jobs& jobs) {
  std::vector<double> ratios;
  const Job* largest = nullptr;
  for (const Job* job : jobs) {
    const std::optional<double> ratio = traffic_ratio(*job);
    if (!ratio || !job->comparable) continue;
    if (ratios.empty() || *ratio > *std::max_element(ratios.begin(), ratios.end())) largest = job;
    ratios.push_back(*ratio);
  }
  if (!largest) return "";
  const auto above = static_cast<size_t>(
      std::count_if(ratios.begin(), ratios.end(), [](double ratio) { return ratio > 1 + kTrafficMargin; }));
  const Spread spread(ratios);
  return fmt::format(
      "{} of {} jobs {} more than {} beyond the compulsory traffic; measured / compulsory is {} at the median, and {} "
      "at "
      "most ({} by {})",
      above == 0 ? "none" : fmt::format("{}", above), ratios.size(), above == 1 ? "moves" : "move",
      share(kTrafficMargin), significant(spread.median()), significant(spread.hi()), case_text(largest->case_name),
      impl_text(*largest));
}

// Of each case the job with the fastest call of each side, as elsewhere; of the same parts of the host.
std::string energy_sentence(const Run& run, const Jobs& jobs) {
  size_t pairs = 0, gpu_less = 0;
  std::vector<double> ratios;
  for (const auto& [name, of_case] : results::jobs_by_case(run.jobs)) {
    const auto cpu = results::best(of_case, Device::cpu), gpu = results::best(of_case, Device::gpu);
    const auto cpu_energy = cpu ? energy_of(*cpu->job) : std::nullopt,
               gpu_energy = gpu ? energy_of(*gpu->job) : std::nullopt;
    if (!cpu_energy || !gpu_energy || gpu_energy->parts != "GPU + " + cpu_energy->parts) continue;
    ++pairs;
    gpu_less += gpu_energy->joules < cpu_energy->joules;
    ratios.push_back(cpu_energy->joules / gpu_energy->joules);
  }
  if (pairs > 0)
    return fmt::format("the GPU and its host take less energy than the CPU in {} of {}; CPU / GPU is {} at the median",
                       gpu_less, count_of(pairs, "case"), significant(Spread(ratios).median()));
  std::vector<double> watts;
  for (const Job* job : jobs)
    if (const auto energy = energy_of(*job); energy && job->comparable) watts.push_back(energy->watts);
  if (watts.empty()) return "";
  const Spread spread(watts);
  return fmt::format("the power of {} is {} at the median, from {} to {}", count_of(watts.size(), "job"),
                     si(spread.median(), "W"), si(spread.lo(), "W"), si(spread.hi(), "W"));
}

}  // namespace

void add_counters(const Run& run, Document& document) {
  const Jobs jobs = jobs_with_counters(run);
  if (jobs.empty()) return;
  Section& section = document.sections.emplace_back(Section{"Traffic and energy", {}});
  const std::string unavailable = what_is_unavailable(jobs);
  if (std::none_of(jobs.begin(), jobs.end(), [](const Job* job) { return has_value(*job); })) {
    section.conclusion = sentence("nothing was counted: " + unavailable);
    return;
  }
  section.blocks.push_back({Text{plain(sentence(
      "compulsory traffic is what each tensor's bytes add up to, moved once; more was measured where data are read "
      "again or caches fetch what is only written, less where caches kept them from one application to the next. "
      "Energy includes what the machine takes at rest, and other programs, whose cores are in the last column"))}});
  section.blocks.push_back({Text{muted(sentence("measured: " + sources_of(jobs)))}});
  if (!unavailable.empty()) section.blocks.push_back({Text{muted(sentence("unavailable: " + unavailable))}});
  Block table{counters_table(jobs)};
  constexpr size_t kMaxVisible = 20;
  if (jobs.size() > kMaxVisible)
    section.blocks.push_back({Fold{count_of(jobs.size(), "job"), {std::move(table)}}});
  else
    section.blocks.push_back(std::move(table));
  const std::string traffic = traffic_sentence(jobs), energy = energy_sentence(run, jobs);
  if (!traffic.empty() || !energy.empty())
    section.conclusion = sentence(traffic + (traffic.empty() || energy.empty() ? "" : "; ") + energy);
  else
    section.conclusion = "Neither the traffic nor the energy of a job was measured.";
}

}  // namespace duet::reports
