// SPDX-License-Identifier: Apache-2.0
#include "reports/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/format.h"
#include "reports/join.h"
#include "reports/phrases.h"

namespace duet::reports {
namespace {

constexpr size_t kMinGroup = 2;  // cases that make a statement about a range of sizes

std::string median_sentence(const Rows& rows) {
  const auto call = median_ratio(rows, Scope::call), copies = median_ratio(rows, Scope::end_to_end);
  if (!call) return "";
  std::string text = fmt::format("In the median case {} by call", faster_side(*call));
  if (!copies) return text + ".";
  if ((*call >= 1) == (*copies >= 1))
    return text + fmt::format(" and {} with copies.", times(std::max(*copies, 1 / *copies)));
  return text + fmt::format("; with copies {}.", faster_side(*copies));
}

// "64.0 KiB (2^14 elements of f32)": what the case moves. "about": not a power of two.
std::string size_text(const Job& job) {
  const auto bytes = static_cast<double>(job.bytes);
  const std::string dtype = job.dtype.substr(0, job.dtype.find('/'));  // without the mode of a product
  const double width = dtype == "f64"                      ? 8
                       : dtype == "f32" || dtype == "i32"  ? 4
                       : dtype == "bf16" || dtype == "f16" ? 2
                                                           : 0;
  if (width == 0) return bytes_text(bytes);
  const double exponent = std::log2(bytes / width), nearest = std::round(exponent);
  return fmt::format("{} ({}2^{:.0f} elements of {})", bytes_text(bytes), exponent == nearest ? "" : "about ", nearest,
                     dtype);
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
  const auto border = [&](const auto& row) { return size_text(*(*row)->cpu.job); };
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

// The two kinds of model, as the answer calls them.
struct ModelKind {
  Kind kind;
  const char *noun, *in_short;
};
constexpr ModelKind kModelKinds[] = {{Kind::step, "training step", "step"},
                                     {Kind::inference, "inference", "inference"}};

// The headline is about single ops, or without them about the first kind of model that there is.
void add_pair_sentences(const Analysis& analysis, Answer& made) {
  const Rows rows = rows_of(analysis, Kind::op);
  std::string weak;
  if (!rows.empty()) {
    made.headline = sentence(score(rows, "case"));
    made.sentences = {median_sentence(rows), size_sentence(rows), largest_sentence(rows)};
    weak = weak_sentence(rows, "case");
  }
  for (const ModelKind& model : kModelKinds) {
    const Rows of_kind = rows_of(analysis, model.kind);
    if (of_kind.empty()) continue;
    if (made.headline.empty()) {
      made.headline = sentence(score(of_kind, model.noun));
      made.sentences.push_back(median_sentence(of_kind));
      weak = weak_sentence(of_kind, model.in_short);
      continue;
    }
    std::string text = sentence(fmt::format("{}s: {}", model.noun, score(of_kind, model.in_short)));
    if (of_kind.size() > 1)
      text += fmt::format(" In the median {} {}.", model.in_short, faster_side(*median_ratio(of_kind, Scope::call)));
    made.sentences.push_back(std::move(text));
  }
  made.cautions.push_back(across_sentence(analysis));
  made.cautions.push_back(std::move(weak));
  std::vector<const OneSidedRow*> others;
  for (const OneSidedRow& row : analysis.one_sided) others.push_back(&row);
  if (const size_t more = count_cases(others); more > 0)
    made.sentences.push_back(
        fmt::format("{} {} a result on one side only.", count_of(more, "more case"), verb(more, "has", "have")));
}

void add_cpu_sentences(const Analysis& analysis, Answer& made) {
  const auto rows = one_sided(analysis, Device::cpu, Kind::op);
  size_t models = 0;
  std::string models_text;  // "9 training steps and 18 inferences"
  for (const ModelKind& model : kModelKinds)
    if (const size_t count = count_cases(one_sided(analysis, Device::cpu, model.kind)); count > 0) {
      models += count;
      models_text += (models_text.empty() ? "" : " and ") + count_of(count, model.noun);
    }
  std::vector<const OneSidedRow*> with_roof;
  std::vector<double> shares;
  for (const OneSidedRow* row : rows)
    if (const auto share = roof_share(*row)) {
      with_roof.push_back(row);
      shares.push_back(*share);
    }
  const std::string no_gpu = fmt::format("No GPU was measured ({}), so there is no speedup.", analysis.no_gpu_reason);
  if (shares.empty()) {
    const bool disturbed = std::any_of(rows.begin(), rows.end(), [](const OneSidedRow* row) {
      return results::has_disturbed_roof(*row->choice.call);
    });
    made.headline = rows.empty() ? fmt::format("The CPU ran {}.", models_text)
                                 : fmt::format("The CPU ran {}; none has {} to compare with.", results_text(rows),
                                               disturbed ? "an undisturbed roof" : "a roof");
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
  made.sentences.push_back(beaten_sentence(analysis));
  if (models > 0 && !rows.empty())
    made.sentences.push_back(fmt::format("{} {} timed as well.", models_text, verb(models, "was", "were")));
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
    const auto alone = [&](Device device) {
      size_t cases = 0;
      for (const Kind kind : {Kind::op, Kind::step, Kind::inference})
        cases += count_cases(one_sided(analysis, device, kind));
      return cases;
    };
    made.headline = "No case has a result on both sides.";
    made.sentences = {fmt::format("{} on the CPU alone, {} on the GPU alone.", alone(Device::cpu), alone(Device::gpu)),
                      frequent_reason(analysis)};
  } else if (!analysis.one_sided.empty()) {
    add_cpu_sentences(analysis, made);
  } else if (!analysis.studies.empty()) {
    made.headline =
        fmt::format("The run has {} of memory and transfer, each with a chart and a sentence.",
                    analysis.studies.size() == 1 ? "one study" : fmt::format("{} studies", analysis.studies.size()));
    if (!analysis.gpu_measured) made.sentences = {fmt::format("No GPU was measured ({}).", analysis.no_gpu_reason)};
    made.cautions.push_back(failure_sentence(analysis));
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

}  // namespace duet::reports
