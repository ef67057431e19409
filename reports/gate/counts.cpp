// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/counts.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/error.h"
#include "reports/format.h"
#include "reports/gate/bench_program.h"
#include "results/job_name.h"
#include "results/json_node.h"
#include "results/run_file.h"

namespace duet::reports {
namespace {

namespace fs = std::filesystem;
using results::Allow;
using results::Json;
using results::Node;
using results::op_of;

constexpr int kUsage = 2, kNothingMeasured = 77, kUnsupported = 77;  // exit statuses of bench_all and of duet

class CountGate {
 public:
  explicit CountGate(const GateOptions& options) : options_(options) {
    for (const GateSide* side : {&options.base, &options.head})
      if (side->program.empty()) throw Error("gate: counts are of programs: --base and --head are expected");
  }

  Counts instructions(const char* side, const std::string& program) {
    const std::string result = scratch_.path(std::string(side) + ".json");
    std::vector<std::string> command{with_folder(program), "--count-instructions", "--json=" + result};
    append_options(command);
    const ProgramEnd end = run_program(command, left());
    if (end.exit_status == kNothingMeasured) return {};
    if (end.exit_status == kUsage) throw Error("{} ({}) cannot count: {}", side, program, end.last_output);
    if (end.exit_status != 0) fail(side, program, end);
    return load_counts(result);
  }

  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  Counts kernels(const char* side, const std::string& program) {
    BenchProgram bench(side, program, options_.arguments, scratch_);
    const std::string duet = (fs::path(bench.path()).parent_path() / "duet").string();
    Counts counts;
    counts.counter = "duet kernel-profile";
    for (const std::string& job : bench.listed_jobs(options_.filter, left())) {
      if (!job.substr(op_of(job).size()).starts_with("/cuda.")) continue;
      std::string text;
      const std::vector<std::string> command{duet, "kernel-profile", job, "--blocks", "4"};
      const ProgramEnd end = run_program(command, left(), &text);
      if (end.exit_status == kUnsupported) {
        counts.without[job] = "its kernels cannot be run on the host";
        continue;
      }
      if (end.exit_status != 0)  // once more, for what it says on standard error
        fail(side, duet + " kernel-profile " + job, end.timed_out ? end : run_program(command, left()));
      add_kernel_profile(fmt::format("{} {}", side, job), text, counts);
    }
    return counts;
  }

 private:
  static std::string with_folder(const std::string& program) {
    return program.find('/') == std::string::npos ? "./" + program : program;
  }
  void append_options(std::vector<std::string>& command) const {
    command.insert(command.end(), options_.arguments.begin(), options_.arguments.end());
    if (!options_.filter.empty()) command.push_back("--filter=" + options_.filter);
  }
  double left() const {
    return std::min(options_.process_limit_s.value_or(options_.budget_s), std::max(0.1, options_.budget_s - elapsed()));
  }
  [[noreturn]] static void fail(const char* side, const std::string& program, const ProgramEnd& end) {
    throw ProgramFailed(fmt::format("{} ({}) {}{}{}", side, program, end.how,
                                    end.last_output.empty() ? "" : "; it said: ", end.last_output));
  }

  const GateOptions& options_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  ScratchFolder scratch_;
};

}  // namespace

Counts load_counts(const std::string& path) {
  Json document;
  if (results::load_run(path, document)) throw Error("{}: is a run file, not one of counts", path);
  const results::JsonSource source{path, document};
  const Node root(source);
  if (root.at("duet_counts").integer(Allow::at_least_one) != 1) root.at("duet_counts").fail("1 is expected");
  Counts counts;
  counts.counter = root.at("counter").text();
  if (const auto keys = root.find("keys"))
    for (const auto& [key, value] : keys->members()) counts.keys.emplace_back(key, value.text());
  for (const auto& [job, count] : root.at("rows").members())
    counts.rows[job] = {job, op_of(job), count.number(Allow::not_negative)};
  for (const auto& [job, reason] : root.at("without").members()) counts.without[job] = reason.text();
  return counts;
}

void add_kernel_profile(const std::string& where, const std::string& text, Counts& counts) {
  Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) throw Error("{}: duet kernel-profile printed no JSON", where);
  const results::JsonSource source{where, document};
  const Node root(source);
  const std::string job = root.at("job").text();
  const std::vector<Node> kernels = root.at("kernels").items();
  std::string part;  // the kernel
  const auto row_of = [&](const std::string& name, bool is_part) -> CountedRow& {
    CountedRow& row = counts.rows[name];
    row.job = job;
    row.family = op_of(job);
    row.is_part = is_part;
    return row;
  };
  const auto add = [&](const std::string& what, double value) {
    row_of(job + ": " + what, false).count += value;
    if (kernels.size() > 1) row_of(fmt::format("{}: {}: {}", job, part, what), true).count += value;
  };
  const auto raise = [&](const std::string& what, double value) {
    CountedRow& row = row_of(job + ": " + what, false);
    row.count = std::max(row.count, value);
    if (kernels.size() > 1) row_of(fmt::format("{}: {}: {}", job, part, what), true).count = value;
  };
  for (const Node& kernel : kernels) {
    part = kernel.at("kernel").text();
    if (const auto file = kernel.find("file"); file && !file->text().empty()) part += " in " + file->text();
    add("barriers", kernel.at("block_barriers").number(Allow::not_negative));
    for (const auto& [space, unit] : {std::pair{"global", "sectors"}, std::pair{"shared", "wavefronts"}})
      for (const char* op : {"load", "store", "atomic"}) {
        const Node sum = kernel.at(space).at(op);
        add(fmt::format("{} {} {}", space, op, unit), sum.at(unit).number(Allow::not_negative));
      }
    if (const auto code = kernel.find("code"))  // profiles of older programs have none
      for (const Node& c : code->items())
        add("instructions " + c.at("architecture").text(), c.at("instructions").number(Allow::not_negative));
    if (const auto compiled = kernel.find("compiled"))
      for (const Node& c : compiled->items()) {
        const std::string architecture = c.at("architecture").text();
        raise("registers " + architecture, c.at("registers").number(Allow::not_negative));
        add("spilled bytes " + architecture, c.at("spill_store_bytes").number(Allow::not_negative) +
                                                 c.at("spill_load_bytes").number(Allow::not_negative));
      }
  }
}

Comparison compare_counts(const Counts& base, const Counts& head, const std::vector<std::string>& allowed,
                          double floor) {
  if (!base.rows.empty() && !head.rows.empty() && base.counter != head.counter)
    throw NotComparable("base was counted by {} and head by {}", base.counter, head.counter);
  Comparison c;
  if (!base.rows.empty() && !head.rows.empty()) {
    MeasuredRun of_base, of_head;
    of_base.kind = of_head.kind = "Duet";
    of_base.keys = base.keys;
    of_head.keys = head.keys;
    c.allowed = differences(of_base, of_head);
    if (const auto left = not_allowed(c.allowed, allowed); !left.empty())
      throw NotComparable("the counts are not comparable: {}. --allow KEY (such as {}) compares them all the same",
                          sentence_of(left), left.front().key);
  }
  c.title = "Gate by counts";
  c.unit = "";
  const auto add = [&](const std::string& name, const CountedRow& of, Verdict verdict,
                       const char* code) -> ComparedRow& {
    ComparedRow& row = c.rows.emplace_back();
    row.name = name;
    row.job = of.job;
    row.family = of.family;
    row.floor = floor;
    row.verdict = verdict;
    row.code = code;
    return row;
  };
  std::set<std::string> base_jobs, head_jobs;
  for (const auto& [name, row] : base.rows) base_jobs.insert(row.job);
  for (const auto& [name, row] : head.rows) head_jobs.insert(row.job);
  for (const auto& [name, b] : base.rows) {
    const auto at = head.rows.find(name);
    if (at == head.rows.end() && b.is_part && head_jobs.contains(b.job)) continue;
    if (at == head.rows.end()) {
      const auto reason = head.without.find(b.job);
      ComparedRow& row =
          add(name, b, Verdict::missing, reason == head.without.end() ? "not_in_head" : "skipped_in_head");
      row.base = b.count;
      if (reason != head.without.end()) row.detail = reason->second;
      continue;
    }
    const double h = at->second.count;
    const bool equal = h == b.count;
    const bool more = h > b.count * (1 + floor), less = h * (1 + floor) < b.count;
    ComparedRow& row = add(name, b,
                           more   ? Verdict::slower
                           : less ? Verdict::faster
                                  : Verdict::same,
                           equal          ? "count_equal"
                           : more || less ? "count_changed"
                                          : "small_shift");
    row.base = b.count;
    row.head = h;
    row.base_values = row.head_values = 1;
    if (b.count > 0 && h > 0)
      row.ratio = {h / b.count, h / b.count, h / b.count, "exact"};
    else if (!equal)
      row.detail = fmt::format("{} before, {} now", significant(b.count, 6), significant(h, 6));
    else
      row.ratio = {1, 1, 1, "exact"};
  }
  for (const auto& [name, h] : head.rows)
    if (!base.rows.contains(name) && !(h.is_part && base_jobs.contains(h.job)))
      add(name, h, Verdict::added, "not_in_base").head = h.count;
  for (const auto& [job, reason] : base.without) c.without_result += head.without.contains(job);
  c.method = {
      fmt::format("Counts, not times: {}. They are exact, so a row is SLOWER (more) or FASTER (fewer) beyond {:.0f} "
                  "%.",
                  base.counter.empty() ? head.counter : base.counter, 100 * floor)};
  finish(c);
  return c;
}

Comparison run_count_gate(const GateOptions& options, bool kernels) {
  CountGate gate(options);
  options.say(fmt::format("gate: counts {}, one process of each program, at most {:.3g} s",
                          kernels ? "of kernels on the host" : "of instructions", options.budget_s));
  const auto counts = [&](const char* side, const std::string& program) {
    return kernels ? gate.kernels(side, program) : gate.instructions(side, program);
  };
  const Counts base = counts("base", options.base.program);
  options.say(fmt::format("gate: {} of base after {:.0f} s; head takes about as long",
                          count_of(base.rows.size(), "count"), gate.elapsed()));
  const Counts head = counts("head", options.head.program);
  Comparison c = compare_counts(base, head, options.allowed);
  c.base.file = options.base.program;
  c.head.file = options.head.program;
  c.base.kind = c.head.kind = "counts";
  return c;
}

}  // namespace duet::reports
