// SPDX-License-Identifier: Apache-2.0
#include "cli/gate.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <climits>
#include <cmath>
#include <map>
#include <memory>

#include "cli/exit_status.h"
#include "cli/text_output.h"
#include "core/command_line.h"
#include "core/error.h"
#include "reports/gate/counts.h"
#include "reports/gate/gate.h"
#include "reports/gate/program.h"
#include "reports/history/history.h"
#include "reports/render.h"

namespace duet {
namespace {

constexpr int kInterruptedStatus = 130;
constexpr const char* kNoise = "out/noise.json";  // where bench_all --aa writes it by default

struct Options {
  std::string base, base_db, head, filter, metric = "time", mode = "fail", budget = "10min", process_limit, noise;
  std::vector<std::string> base_json, head_json, allowed;
  std::vector<std::string> arguments;  // for bench_all
  std::string json, markdown;
  bool all = false;
};

// "90", "90s", "1.5min", "2h" as seconds; empty: not so.
std::optional<double> seconds_of(const std::string& text) {
  size_t end = 0;
  double value = 0;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception&) {
    return {};
  }
  const std::string unit = text.substr(end);
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "min" || unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  const double time_s = value * factor;
  if (!(time_s >= 1 && time_s <= 1e6)) return {};
  return time_s;
}

double require_seconds(const std::string& name, const std::string& text) {
  if (const auto value = seconds_of(text)) return *value;
  throw Error("{} {}: a time from 1 s on is expected, such as 90s, 5min or 1h", name, text);
}

int status_of(const reports::Comparison& c) {
  using reports::Verdict;
  if (c.count(Verdict::error) + c.count(Verdict::missing) > 0) return kLost;
  if (c.compared() == 0) return kIncomparable;
  return c.count(Verdict::slower) > 0 ? kFailed : 0;
}

// What a comparison of run files requires to be equal, as far as a history keeps it: builds, states and settings; of
// the machine the fingerprint, which selected the run, and what of a GPU may change.
results::Facts keys_of(const history::RunInfo& past, const results::Facts& head) {
  results::Facts keys;
  for (const auto& [key, value] : head) {
    std::string stored = key;
    if (key.starts_with("machine.gpu.")) stored = key.substr(std::string("machine.").size());
    const std::string found = history::fact(past.environment, stored);
    const bool is_kept = !key.starts_with("machine.") && !key.starts_with("context.");
    if (!found.empty() || is_kept)
      keys.emplace_back(key, found.empty() ? "not known" : found);
    else
      keys.emplace_back(key, value);
  }
  return keys;
}

// The runs of a history that are comparable with the head's, with the head's rows: what else they hold may be outside
// of the filter.
std::vector<reports::MeasuredRun> past_runs(const std::string& database, const std::vector<std::string>& allowed,
                                            const reports::MeasuredRun& head) {
  std::string fingerprint, unlike;
  for (const auto& [key, value] : head.keys)
    if (key == "machine.fingerprint") fingerprint = value;
  std::map<std::string, const reports::MeasuredRow*> rows;
  for (const reports::MeasuredRow& row : head.rows) rows[row.name] = &row;
  const auto with_keys = [&](const history::RunInfo& info) {
    reports::MeasuredRun run;
    run.file = database;
    run.kind = head.kind;
    run.id = info.name.id;
    run.commit = info.git_sha;
    run.started_at = info.started_at;
    run.keys = keys_of(info, head.keys);
    return run;
  };
  const auto is_alike = [&](const history::RunInfo& info) {
    const auto left = reports::not_allowed(reports::differences(with_keys(info), head), allowed);
    if (!left.empty() && unlike.empty())
      unlike = fmt::format("{}. --allow KEY (such as {}) compares them all the same", reports::sentence_of(left),
                           left.front().key);
    return left.empty();
  };
  std::vector<reports::MeasuredRun> runs;
  for (const history::BaselineRun& past : history::baseline(database, fingerprint, is_alike)) {
    reports::MeasuredRun& run = runs.emplace_back(with_keys(past.info));
    for (const auto& [key, median_s] : past.medians_s) {
      const auto at = rows.find(key);
      if (at == rows.end()) continue;
      reports::MeasuredRow& row = run.rows.emplace_back();
      row.name = key;
      row.job = at->second->job;
      row.filter = at->second->filter;
      row.family = at->second->family;
      row.device = at->second->device;
      row.scope = at->second->scope;
      row.values = {median_s};
      row.value = median_s;
    }
  }
  if (runs.empty() && !unlike.empty())
    throw reports::NotComparable("{}: no past run of this machine is comparable with the head's; of the latest, {}",
                                 database, unlike);
  return runs;
}

reports::GateOptions gate_options(const Options& o) {
  require_one_to_stdout({{"--json", o.json}, {"--markdown", o.markdown}});
  reports::GateOptions g;
  if (!o.base.empty() + !o.base_json.empty() + !o.base_db.empty() != 1)
    throw Error("gate: one of --base PROGRAM, --base-json FILE... and --base-db DB is expected");
  if (!o.base_db.empty() && o.metric != "time")
    throw Error("--base-db {}: a history has times, so --metric {} cannot be compared with it", o.base_db, o.metric);
  if (o.head.empty() == o.head_json.empty())
    throw Error("gate: either --head PROGRAM or --head-json FILE... is expected");
  if (o.base.empty() && o.head.empty() && (!o.filter.empty() || !o.arguments.empty()))
    throw Error("{}: is passed on to programs, and here no program runs; leave it out",
                o.filter.empty() ? o.arguments.front() : "--filter=" + o.filter);
  g.base = {o.base, o.base_json, {}};
  if (!o.base_db.empty())
    g.base.past_runs = [&o](const reports::MeasuredRun& head) { return past_runs(o.base_db, o.allowed, head); };
  g.head = {o.head, o.head_json, {}};
  g.filter = o.filter;
  g.arguments = o.arguments;
  g.metric = o.metric == "speedup" ? reports::Metric::speedup : reports::Metric::time;
  g.allowed = o.allowed;
  g.budget_s = require_seconds("--budget", o.budget);
  if (!o.process_limit.empty()) g.process_limit_s = require_seconds("--process-limit", o.process_limit);
  g.noise = o.noise.empty() ? results::load_noise_if_any(kNoise) : results::load_noise(o.noise);
  const bool to_stdout = o.json == "-" || o.markdown == "-";
  g.say = [to_stdout](const std::string& line) {
    fmt::print(to_stdout ? stderr : stdout, "{}\n", one_line(line));
    std::fflush(stdout);
  };
  return g;
}

// The files say why there is no verdict: a reader of them must not take their absence for a gate that passed.
int without_verdict(const Options& o, const std::exception& reason, int status) {
  reports::Comparison c;
  c.title = "Gate";
  const auto joined = [](const std::vector<std::string>& files) { return fmt::format("{}", fmt::join(files, " ")); };
  c.base.file = !o.base.empty() ? o.base : !o.base_db.empty() ? o.base_db : joined(o.base_json);
  c.head.file = !o.head.empty() ? o.head : joined(o.head_json);
  c.failure = one_line(reason.what());
  write_text(o.json, [&] { return comparison_json(c); });
  write_text(o.markdown, [&] { return render_markdown(comparison_document(c)); });
  fmt::print(stderr, "duet: {}\n", c.failure);
  return status;
}

int decide(const Options& o) {
  using namespace reports;
  catch_interrupts();
  try {
    const bool counts = o.metric == "instructions" || o.metric == "kernels";
    const Comparison comparison =
        counts ? run_count_gate(gate_options(o), o.metric == "kernels") : run_gate(gate_options(o));
    write_text(o.json, [&] { return comparison_json(comparison); });
    write_text(o.markdown, [&] { return render_markdown(comparison_document(comparison)); });
    if (o.json != "-" && o.markdown != "-") fmt::print("{}", comparison_text(comparison, o.all));
    return status_of(comparison);
  } catch (const NotComparable& e) {
    return without_verdict(o, e, kIncomparable);
  } catch (const ProgramFailed& e) {
    return without_verdict(o, e, kLost);
  } catch (const ProgramInterrupted&) {
    fmt::print(stderr, "duet: gate interrupted\n");
    return kInterruptedStatus;
  }
}

int run_gate_command(const Options& o) {
  if (o.mode == "off") {
    fmt::print("gate: off, nothing was compared\n");
    return 0;
  }
  const int status = decide(o);
  if (o.mode == "fail" || status == 0 || status == kInterruptedStatus) return status;
  fmt::print(stderr, "warning: the gate would have failed with status {} (--gate=warn)\n", status);
  return 0;
}

// An option that bench_all has, too: it is passed on.
void add_passed_on(CLI::App& gate, const std::shared_ptr<Options>& o, const std::string& name,
                   const std::string& description) {
  gate.add_option_function<std::vector<std::string>>(
          name,
          [o, name](const std::vector<std::string>& values) {
            for (const std::string& v : values) o->arguments.push_back(name + "=" + v);
          },
          description)
      ->expected(1)
      ->take_all()
      ->group("Passed on to the programs");
}

}  // namespace

void add_gate(CLI::App& app) {
  const auto o = std::make_shared<Options>();
  CLI::App* gate = app.add_subcommand(
      "gate", "decide whether a build of bench_all became slower than another one; the exit status is for CI");
  gate->add_option("--base", o->base, "the build to compare with: its program bench_all");
  gate->add_option("--head", o->head, "the build that is compared with it");
  gate->add_option("--base-json", o->base_json, "in place of --base: run files, of one process or of several each")
      ->expected(1, INT_MAX);
  gate->add_option("--base-db", o->base_db,
                   "in place of --base: the last runs in a history (duet history add) of this machine, with the head's "
                   "compiler, flags, libraries and settings");
  gate->add_option("--head-json", o->head_json, "in place of --head: run files")->expected(1, INT_MAX);
  gate->add_option("--budget", o->budget, "longest time of the whole gate: 90s, 5min, 1h (default 10min)");
  gate->add_option("--process-limit", o->process_limit, "longest time of one process (default: what is left)");
  gate->add_option(
          "--metric", o->metric,
          "time; speedup: of the best GPU implementation over the best of the CPU; and two that need no quiet "
          "machine, since equal programs give equal counts: instructions (of CPU implementations, by perf where "
          "it is allowed, else by valgrind), kernels (instructions, memory requests, bank conflicts, registers and "
          "spills of CUDA kernels, by the program duet beside bench_all)")
      ->check(CLI::IsMember({"time", "speedup", "instructions", "kernels"}));
  gate->add_option("--gate", o->mode, "fail (default); warn: exit with status 0 all the same; off: do nothing")
      ->check(CLI::IsMember({"off", "warn", "fail"}));
  gate->add_option("--noise", o->noise,
                   "noise of each row, as bench_all --aa writes it (default out/noise.json, if any)");
  gate->add_option("--allow", o->allowed, "compare although this key differs, as of duet compare")
      ->delimiter(',')
      ->expected(1)
      ->take_all();
  gate->add_option("--json", o->json, "write the comparison here as JSON; '-': to standard output");
  gate->add_option("--markdown", o->markdown, "write it here as Markdown; '-': to standard output");
  gate->add_flag("--all", o->all, "print every row, those without a change too");
  gate->add_option("--filter", o->filter, "only jobs whose name contains a match of this regular expression")
      ->group("Passed on to the programs");
  for (const auto& [name, description] :
       {std::pair{"--exclude", "not the jobs whose name contains a match of this regular expression"},
        {"--scale", "preset: smoke, quick, standard, full"},
        {"--case", "only this case; repeatable"},
        {"--device", "cpu, gpu or all"},
        {"--impl", "only these implementations"},
        {"--dtype", "only these element types"},
        {"--scope", "only these scopes"},
        {"--threads", "CPU threads"},
        {"--seed", "of inputs and of the order of cases"},
        {"--repetitions", "of each series in a process"},
        {"--min-time", "seconds of samples in a repetition"}})
    add_passed_on(*gate, o, name, description);
  gate->footer(
      "With files on both sides no program runs, so options that are passed on are refused. "
      "Exit status: 0 no row is SLOWER; 1 a row is SLOWER; 2 an option, file or program that cannot be used, or a "
      "budget too small for one process with all jobs; 3 a result failed or vanished, or a program crashed, wrote no "
      "run file or took longer than --process-limit; 4 unlike machines, builds or settings, or no row on both sides; 5 "
      "an error of this program or its environment, such as a full disk; 130 interrupted. 3 goes before 1. Rows that "
      "the budget leaves undecided do not change the status, however large their shift: the last line names them.");
  gate->callback([o] {
    if (const int status = run_gate_command(*o); status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace duet
