// SPDX-License-Identifier: Apache-2.0
// The gate with invented programs: shell scripts that answer like bench_all, from run files that were written before.
#include "reports/gate/gate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <concepts>
#include <random>

#include "reports/gate/program.h"
#include "tests/results/fixture.h"

namespace duet::reports {
namespace {

using namespace results::testing;
using results::Scope;
using results::Status;
using ::testing::HasSubstr;
using RunFile = results::Run;

constexpr const char* kRelu = "relu/cpu.tuned/f32/n:64";
constexpr const char* kTanh = "tanh/cpu.tuned/f32/n:64";
constexpr int kProcesses = 30;

// A folder with a program that writes one prepared run file after the other.
class Program {
 public:
  // run: of one process, by its number. before: shell commands before anything else.
  template <std::invocable<int> MakeRun>
  explicit Program(MakeRun run, const std::string& before = "") {
    for (int i = 0; i < kProcesses; ++i) scratch_.write(fmt::format("run{}.json", i), results::run_text(run(i)));
    RunFile first = run(0);
    std::string list;
    for (const results::Job& job : first.jobs)
      list += fmt::format(R"({}{{"name": "{}", "unavailable_reason": ""}})", list.empty() ? "" : ", ", job.name);
    scratch_.write("list.json", "[" + list + "]");
    write_script(before + R"(
out= list=
for a in "$@"; do
  case $a in --json=*) out=${a#--json=} ;; --list) list=1 ;; --filter=*) echo "$a" >> "$here/filters" ;; esac
done
if [ "$list" ]; then cp "$here/list.json" "$out"; exit 0; fi
n=$(cat "$here/count" 2>/dev/null || echo 0)
echo $((n + 1)) > "$here/count"
cp "$here/run$n.json" "$out"
)");
  }
  explicit Program(const std::string& script) { write_script(script); }
  std::string path() const { return (scratch_ / "bench_all").string(); }
  std::string filters() const { return read(scratch_ / "filters"); }
  int processes() const {
    const std::string text = read(scratch_ / "count");
    return text.empty() ? 0 : std::stoi(text);
  }

 private:
  void write_script(const std::string& text) {
    scratch_.write("bench_all", fmt::format("#!/bin/sh\nhere='{}'\n{}", (scratch_ / "").string(), text));
    fs::permissions(path(), fs::perms::owner_all);
  }
  Scratch scratch_;
};

// One process: each job takes 1 ms times its factor, with 1 % of noise that the seed draws.
RunFile process_run(uint64_t seed, double relu, double tanh) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, 0.01);
  const auto job = [&](const char* name, double factor) {
    return make_job(name, {make_series(Scope::call, 1e-3 * factor * std::exp(noise(random)), 0.8, 4)});
  };
  RunFile run = make_run({job(kRelu, relu), job(kTanh, tanh)});
  run.invocation.id = fmt::format("{} {} {}", seed, relu, tanh);
  return run;
}

auto steady(uint64_t seed, double relu = 1, double tanh = 1) {
  return [=](int i) { return process_run(1000 * seed + static_cast<uint64_t>(i), relu, tanh); };
}

GateOptions options_of(const Program& base, const Program& head) {
  GateOptions o;
  o.base.program = base.path();
  o.head.program = head.path();
  o.budget_s = 120;
  return o;
}

const ComparedRow& row_of(const Comparison& c, const std::string& job) {
  for (const ComparedRow& r : c.rows)
    if (r.job == job) return r;
  throw std::runtime_error("no row of " + job);
}

std::string failure_of(const GateOptions& options) {
  try {
    run_gate(options);
  } catch (const ProgramFailed& e) {
    return std::string("failed: ") + e.what();
  } catch (const NotComparable& e) {
    return std::string("not comparable: ") + e.what();
  } catch (const Error& e) {
    return std::string("error: ") + e.what();
  }
  return "none";
}

// Twenty per cent slower, with `values` values a side and a scatter far below that: no overlap.
Evidence separated(size_t values) {
  Evidence e;
  for (size_t i = 0; i < values; ++i) {
    e.base.push_back(1e-3 + 1e-6 * static_cast<double>(i));
    e.head.push_back(1.2e-3 + 1e-6 * static_cast<double>(i));
  }
  return e;
}

TEST(GateRule, ManySuspectsNeedStrongerEvidence) {
  const GateRule rule;
  const auto code = [&](size_t values, size_t tests) {
    const std::vector<Evidence> one{separated(values)};
    return std::string(rule_on(one, tests, rule, true).at(0).code);
  };
  EXPECT_EQ(code(4, 1), "not_significant") << "p is 0.029";
  EXPECT_EQ(code(8, 1), "confirmed") << "p is 0.00016";
  EXPECT_EQ(code(8, 60), "confirmed");
  EXPECT_EQ(code(8, 100), "not_significant") << "the most likely one of a hundred: q is 0.016";
  EXPECT_EQ(code(16, 100), "confirmed");
}

TEST(Gate, TheSameProgramIsNotSlower) {
  const Program base(steady(1)), head(steady(2));
  std::vector<std::string> said;
  GateOptions options = options_of(base, head);
  options.say = [&](const std::string& line) { said.push_back(line); };
  const Comparison c = run_gate(options);
  EXPECT_EQ(c.count(Verdict::same), 2U) << comparison_text(c, true);
  EXPECT_EQ(row_of(c, kRelu).code, "not_a_candidate");
  ASSERT_FALSE(said.empty());
  EXPECT_THAT(said[0], HasSubstr("2 jobs, at most 2 min: 3 processes of each program"));
  ASSERT_GE(said.size(), 2U);
  EXPECT_THAT(said[1], HasSubstr("gate: one process of each program took "));
  EXPECT_EQ(base.processes(), 3);
}

TEST(Gate, ASlowerJobIsConfirmedByFreshProcesses) {
  const Program base(steady(1)), head(steady(2, 1.1));
  const Comparison c = run_gate(options_of(base, head));
  const ComparedRow& slower = row_of(c, kRelu);
  EXPECT_EQ(slower.verdict, Verdict::slower) << comparison_text(c, true);
  EXPECT_EQ(slower.code, "confirmed");
  EXPECT_NEAR(slower.ratio.value, 1.1, 0.02);
  EXPECT_EQ(slower.base_values, 24U) << "those of the screen chose the suspect, so they do not count";
  EXPECT_LT(*slower.q, 1e-6);
  EXPECT_EQ(row_of(c, kTanh).verdict, Verdict::same);
  EXPECT_THAT(head.filters(), HasSubstr(R"(--filter=^relu/cpu\.tuned/f32/n:64$)"));
  EXPECT_EQ(head.processes(), 27);
}

TEST(Gate, AFasterJobIsToldToo) {
  const Program base(steady(1)), head(steady(2, 0.85));
  EXPECT_EQ(row_of(run_gate(options_of(base, head)), kRelu).verdict, Verdict::faster);
}

TEST(Gate, ShiftsWithinTheKnownNoiseAreNone) {
  const Program base(steady(1)), head(steady(2, 1.1));
  GateOptions options = options_of(base, head);
  options.noise["f"][std::string(kRelu) + "/call/warm/threads:4"] = {.noise = 0.2, .processes = 8, .measured_at = ""};
  EXPECT_NE(row_of(run_gate(options), kRelu).verdict, Verdict::slower);
  options.noise["another machine"] = options.noise["f"];
  options.noise.erase("f");
  const Program base_again(steady(1)), head_again(steady(2, 1.1));
  options.base.program = base_again.path();
  options.head.program = head_again.path();
  EXPECT_EQ(row_of(run_gate(options), kRelu).verdict, Verdict::slower);
}

// The GPU takes 0.1 ms times its factor, the CPU 1 ms: a slower GPU and a faster CPU are both a lower speedup.
TEST(Gate, ComparesSpeedupsInsteadOfTimes) {
  const auto with_gpu = [](uint64_t seed, double cpu, double gpu) {
    return Program([=](int i) {
      std::mt19937_64 random(1000 * seed + static_cast<uint64_t>(i));
      std::normal_distribution<double> noise(0, 0.01);
      const double cpu_s = 1e-3 * cpu * std::exp(noise(random)), gpu_s = 1e-4 * gpu * std::exp(noise(random));
      return make_run({make_job(kRelu, {make_series(Scope::call, cpu_s, 0.8, 4)}),
                       make_job("relu/cuda.tuned/f32/n:64", {make_series(Scope::call, gpu_s, 0.8)})});
    });
  };
  const auto gate = [&](double cpu, double gpu) {
    const Program base = with_gpu(1, 1, 1), head = with_gpu(2, cpu, gpu);
    GateOptions options = options_of(base, head);
    options.metric = Metric::speedup;
    Comparison c = run_gate(options);
    EXPECT_EQ(c.rows.size(), 1U) << comparison_text(c, true);
    return std::pair{c.rows.at(0), head.filters()};
  };
  const auto [slower_gpu, filters] = gate(1, 1.1);
  EXPECT_EQ(slower_gpu.name, "relu/f32/n:64/speedup/call/warm");
  EXPECT_EQ(slower_gpu.verdict, Verdict::slower);
  EXPECT_NEAR(slower_gpu.ratio.value, 1.1, 0.02);
  EXPECT_THAT(filters, HasSubstr("--filter=^relu/[^/]+/f32/n:64$")) << "a fresh process measures both sides of it";
  EXPECT_EQ(gate(0.9, 1).first.verdict, Verdict::slower) << "a faster CPU";
  EXPECT_EQ(gate(1.1, 1.1).first.verdict, Verdict::same) << "both slower by as much";
  EXPECT_EQ(gate(1, 0.9).first.verdict, Verdict::faster);
}

TEST(Gate, PastRunsServeAsBase) {
  const Program head(steady(2, 1.1));
  GateOptions options;
  options.head = {head.path(), {}, {}};
  size_t past = 20;
  options.base.past_runs = [&](const MeasuredRun& of_head) {
    EXPECT_EQ(of_head.rows.size(), 2U);
    std::vector<MeasuredRun> runs;
    for (size_t i = 0; i < past; ++i) runs.push_back(measured(process_run(500 + i, 1, 1), Metric::time));
    return runs;
  };
  const Comparison c = run_gate(options);
  EXPECT_EQ(row_of(c, kRelu).verdict, Verdict::slower) << comparison_text(c, true);
  EXPECT_EQ(row_of(c, kRelu).base_values, 20U);
  EXPECT_EQ(row_of(c, kTanh).verdict, Verdict::same);
  const Scratch scratch;  // a head that is in the history already: not compared with itself
  const RunFile stored = process_run(519, 1, 1);
  options.head = {"", {scratch.write("head.json", results::run_text(stored))}, {}};
  EXPECT_EQ(row_of(run_gate(options), kTanh).base_values, 19U);
  past = 0;
  EXPECT_THAT(failure_of(options), HasSubstr("not comparable: there is no past run of this machine"));
}

TEST(Gate, FailedAndVanishedJobs) {
  const Program base(steady(1));
  const Program failed([](int i) {
    RunFile run = process_run(static_cast<uint64_t>(i), 1, 1);
    run.jobs[0] = make_missing(kRelu, Status::failed, "largest error is 9 times its bound");
    return run;
  });
  const Comparison c = run_gate(options_of(base, failed));
  EXPECT_EQ(row_of(c, kRelu).verdict, Verdict::error);
  EXPECT_EQ(row_of(c, kRelu).detail, "largest error is 9 times its bound");
  const Program base_again(steady(1));
  const Program vanished([](int i) {
    RunFile run = process_run(static_cast<uint64_t>(i), 1, 1);
    run.jobs.erase(run.jobs.begin());
    return run;
  });
  EXPECT_EQ(row_of(run_gate(options_of(base_again, vanished)), kRelu).verdict, Verdict::missing);
  // It fails only later, in a process that was to confirm.
  const Program base_third(steady(1));
  const Program late([](int i) {
    RunFile run = process_run(static_cast<uint64_t>(i), 1.2, 1);
    if (i > 5) run.jobs[0] = make_missing(kRelu, Status::failed, "killed by SIGSEGV");
    return run;
  });
  EXPECT_EQ(row_of(run_gate(options_of(base_third, late)), kRelu).verdict, Verdict::error);
}

TEST(Gate, UnlikeBuildsAreRefusedUnlessAllowed) {
  const Program base(steady(1));
  const Program head([](int i) {
    RunFile run = process_run(static_cast<uint64_t>(i), 1, 1);
    run.build.flags = "-O0";
    return run;
  });
  GateOptions options = options_of(base, head);
  EXPECT_THAT(failure_of(options), HasSubstr("not comparable: "));
  EXPECT_THAT(failure_of(options), HasSubstr("build.flags is '-O3' in base and '-O0' in head"));
  options.allowed = {"build.flags"};
  EXPECT_EQ(failure_of(options), "none");
}

// What bench_all writes for --list, and nothing else.
std::string only_lists() {
  return "case \"$*\" in *--list*) for a in \"$@\"; do case $a in --json=*) echo '[]' > \"${a#--json=}\" ;; esac; "
         "done; "
         "exit 0 ;; esac\n";
}

TEST(Gate, BrokenProgramsHaveAMessage) {
  const Program good(steady(1));
  const auto message = [&](const Program& head, std::optional<double> limit_s = {}) {
    GateOptions options = options_of(good, head);
    options.process_limit_s = limit_s;
    return failure_of(options);
  };
  EXPECT_THAT(message(Program("kill -SEGV $$")), HasSubstr("cannot list its jobs: it was killed by SIGSEGV"));
  EXPECT_THAT(message(Program("echo 'unknown option --list' >&2; exit 2")),
              HasSubstr("refuses its options: unknown option --list"));
  EXPECT_THAT(message(Program("echo hello")), HasSubstr("is no bench_all: --list --json wrote no list of jobs"));
  EXPECT_THAT(message(Program("sleep 30"), 1), HasSubstr("did not finish within 1 s"));
  EXPECT_THAT(message(Program("yes"), 1), HasSubstr("did not finish within 1 s"));
  const std::string lists = only_lists();
  EXPECT_THAT(message(Program(lists + "kill -SEGV $$")), HasSubstr("failed: head ("));
  EXPECT_THAT(message(Program(lists + "kill -SEGV $$")), HasSubstr("was killed by SIGSEGV"));
  EXPECT_THAT(message(Program(lists + "echo done")), HasSubstr("without having written a run file; it said: done"));
  EXPECT_THAT(
      message(Program(lists + "for a in \"$@\"; do case $a in --json=*) echo '{\"duet\": ' > \"${a#--json=}\" ;; "
                              "esac; done")),
      HasSubstr("wrote a run file that cannot be read"));
  EXPECT_THAT(message(Program(lists + "sleep 30 & sleep 30"), 1), HasSubstr("did not finish within 1 s"));
  GateOptions options = options_of(good, good);
  options.head.program = "/nowhere/bench_all";
  EXPECT_THAT(failure_of(options), HasSubstr("error: --head /nowhere/bench_all: there is no such program"));
  options.head.program = "/tmp";
  EXPECT_THAT(failure_of(options), HasSubstr("is a folder"));
}

TEST(Gate, AConfirmingProcessThatTheBudgetCutsLeavesTheOtherRulings) {
  // tanh fails in the screen, which is known; relu is a suspect, and its second confirming process never ends.
  const Program base(steady(1));
  const Program head(
      [](int i) {
        RunFile run = process_run(static_cast<uint64_t>(i), 1.5, 1);
        run.jobs[1] = make_missing(kTanh, Status::failed, "wrong");
        return run;
      },
      "case \"$*\" in *--list*) ;; *) [ \"$(cat \"$here/count\" 2>/dev/null || echo 0)\" -lt 4 ] || sleep 60 ;; "
      "esac\n");
  GateOptions options = options_of(base, head);
  options.budget_s = 12;
  const Comparison c = run_gate(options);
  EXPECT_EQ(row_of(c, kTanh).verdict, Verdict::error);
  EXPECT_EQ(row_of(c, kRelu).verdict, Verdict::ambiguous);
  EXPECT_EQ(row_of(c, kRelu).code, "budget");
  EXPECT_THAT(comparison_text(c, false), HasSubstr("the budget of 12 s was used up"));
  EXPECT_THAT(answer(c), HasSubstr("Undecided: relu/cpu.tuned/f32/n:64/call/warm/threads:4 (1."));
  EXPECT_THAT(comparison_text(c, false), ::testing::EndsWith(answer(c) + "\n")) << "the last line";
}

TEST(Gate, AScreeningProcessThatTheBudgetCutsLeavesAmbiguousRows) {
  const Program base(steady(1));
  const Program head(steady(2, 1.5), "case \"$*\" in *--list*) ;; *) [ ! -f \"$here/count\" ] || sleep 60 ;; esac\n");
  GateOptions options = options_of(base, head);
  options.budget_s = 8;
  const Comparison c = run_gate(options);
  EXPECT_EQ(row_of(c, kRelu).code, "budget");
  EXPECT_EQ(row_of(c, kRelu).verdict, Verdict::ambiguous);
  EXPECT_EQ(row_of(c, kTanh).verdict, Verdict::ambiguous) << "one process a side proves nothing";
}

TEST(Gate, ABudgetTooSmallForTheFirstProcessIsAnError) {
  const Program slow(only_lists() + "sleep 30");
  GateOptions options = options_of(slow, slow);
  options.budget_s = 5;
  const std::string failure = failure_of(options);
  EXPECT_THAT(failure, HasSubstr("error: gate: the budget of 5 s is too small for 0 jobs"));
  EXPECT_THAT(failure, HasSubstr("narrow --filter or raise --budget"));
  options.process_limit_s = 1;
  EXPECT_THAT(failure_of(options), HasSubstr("failed: base (")) << "its own limit, not the budget";
}

TEST(Gate, UnlikeBaseFilesAreLeftOut) {
  const Scratch scratch;
  std::vector<std::string> base, head;
  for (uint64_t i = 0; i < 10; ++i) {
    RunFile run = process_run(i, 1, 1);
    if (i % 5 == 0) run.build.flags = "-O0";
    base.push_back(scratch.write(fmt::format("base{}.json", i), results::run_text(run)));
    head.push_back(scratch.write(fmt::format("head{}.json", i), results::run_text(process_run(50 + i, 1.2, 1))));
  }
  GateOptions options;
  options.base.files = base;
  options.head.files = head;
  const Comparison c = run_gate(options);
  EXPECT_EQ(row_of(c, kRelu).verdict, Verdict::slower);
  EXPECT_EQ(row_of(c, kRelu).base_values, 8U);
  ASSERT_EQ(c.warnings.size(), 2U);
  EXPECT_THAT(c.warnings[1], HasSubstr("base5.json is left out: build.flags is '-O0' in base and '-O3' in head"));
  options.base.files = {base[0], base[5]};
  EXPECT_THAT(failure_of(options), HasSubstr("not comparable: "));
}

TEST(Gate, AFilterIsNoLongerThanACommandLineTakes) {
  const auto many = [](uint64_t seed, double factor) {
    return [=](int i) {
      std::mt19937_64 random(1000 * seed + static_cast<uint64_t>(i));
      std::normal_distribution<double> noise(0, 0.01);
      std::vector<results::Job> jobs;
      for (int job = 0; job < 90; ++job)  // 90 times 2000 characters; the first has the largest shift
        jobs.push_back(make_job(
            fmt::format("relu/cpu.tuned/f32/n:{}", fmt::format("{}{:02}", std::string(2000, '1'), job)),
            {make_series(Scope::call, 1e-3 * (factor + (factor > 1 ? 0.1 * (90 - job) : 0)) * std::exp(noise(random)),
                         0.8, 4, results::Cache::warm, 1)}));
      return make_run(jobs);
    };
  };
  const Program base(many(1, 1)), head(many(2, 1.5));
  const Comparison c = run_gate(options_of(base, head));
  EXPECT_GT(c.count(Verdict::slower), 40U);
  EXPECT_EQ(c.count(Verdict::slower) + c.count(Verdict::ambiguous), 90U);
  EXPECT_EQ(c.rows[0].verdict, Verdict::slower);
  EXPECT_THAT(answer(c), HasSubstr("Undecided"));
  ASSERT_FALSE(c.warnings.empty());
  EXPECT_THAT(c.warnings[0], HasSubstr("with the smallest shifts stay undecided"));
}

TEST(Gate, TheBudgetIsKept) {
  const std::string slow = "case \"$*\" in *--list*) ;; *) sleep 0.5 ;; esac\n";
  const Program base(steady(1), slow), head(steady(2, 1.5), slow);
  GateOptions options = options_of(base, head);
  options.budget_s = 8;
  const auto start = std::chrono::steady_clock::now();
  const Comparison c = run_gate(options);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 20)
      << "without a budget: 27 s";
  EXPECT_EQ(row_of(c, kRelu).verdict, Verdict::ambiguous) << comparison_text(c, true);
  EXPECT_EQ(row_of(c, kRelu).code, "budget");
  EXPECT_THAT(comparison_text(c, false), HasSubstr("the budget of 8 s was used up"));
}

TEST(Gate, StoredRunsServeOnEitherSide) {
  const Scratch scratch;
  const auto files = [&](const char* name, uint64_t seed, double relu, int count) {
    std::vector<std::string> paths;
    for (int i = 0; i < count; ++i)
      paths.push_back(scratch.write(fmt::format("{}{}.json", name, i),
                                    results::run_text(process_run(seed + static_cast<uint64_t>(i), relu, 1))));
    return paths;
  };
  GateOptions options;
  options.base.files = files("base", 100, 1, 10);
  options.head.files = files("head", 200, 1.1, 10);
  const Comparison both = run_gate(options);
  EXPECT_EQ(row_of(both, kRelu).verdict, Verdict::slower);
  EXPECT_THAT(both.method[0], HasSubstr("the same values decide")) << "no fresh processes";
  options.head.files = files("same", 300, 1, 10);
  EXPECT_EQ(row_of(run_gate(options), kRelu).verdict, Verdict::same);
  options.head.files.push_back(scratch.write("copy.json", results::run_text(process_run(300, 1, 1))));
  EXPECT_THAT(failure_of(options), HasSubstr("copy.json: is the run of "));
  options.head.files.back() = scratch.write("copy.json", results::run_text(process_run(100, 1, 1)));
  EXPECT_THAT(failure_of(options), HasSubstr("copy.json: is the run of ")) << "of the other side";
  options.base.files.resize(2);
  options.head.files = files("slow", 400, 1.3, 10);
  EXPECT_EQ(row_of(run_gate(options), kRelu).code, "too_few_processes");
  const Program head(steady(2, 1.1));
  options.base.files = files("base", 100, 1, 10);
  options.head = {head.path(), {}, {}};
  EXPECT_EQ(row_of(run_gate(options), kRelu).verdict, Verdict::slower);
  options.base.files = {(scratch / "none.json").string()};
  EXPECT_THAT(failure_of(options), HasSubstr("error: "));
}

TEST(Program, OutputIsKeptShortAndDescendantsEnd) {
  const ProgramEnd end =
      run_program({"/bin/sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x; printf '\\033[31mred\\n'"}, 20);
  EXPECT_EQ(end.exit_status, 0);
  EXPECT_LE(end.last_output.size(), 500U);
  EXPECT_THAT(end.last_output, HasSubstr("[31mred"));
  EXPECT_EQ(end.last_output.find('\x1b'), std::string::npos);
  EXPECT_THROW(run_program({"/nowhere/program"}, 1), Error);
  EXPECT_EQ(run_program({"/bin/sh", "-c", "exit 7"}, 100).exit_status, 7);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(run_program({"/bin/sh", "-c", "sleep 200 & exit 3"}, 100).exit_status, 3);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 60);
}

TEST(Program, OneThatPrintsWithoutEndKeepsItsLimit) {
  const auto start = std::chrono::steady_clock::now();
  std::string printed;
  const ProgramEnd end = run_program({"/bin/sh", "-c", "yes & yes & cat /dev/zero"}, 0.5, &printed);
  EXPECT_TRUE(end.timed_out);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 30);
  EXPECT_LE(printed.size(), (size_t{64} << 20) + 4096);
}

}  // namespace
}  // namespace duet::reports
