// SPDX-License-Identifier: Apache-2.0
// Writing and reading run files and journals: nothing is lost, what is refused and in which words, what a crash may
// leave behind, and that files of schema 1 are still read.
#include "results/run_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/results/fixture.h"

namespace duet::results::testing {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A run with every kind of row.
Run full_run(bool with_gpu = true) {
  std::vector<Job> jobs = softmax_pair();
  jobs[0].params = {{"rows", int64_t{64}}, {"log", true}, {"alpha", 0.1}, {"whole", 2.0}, {"padding", "same"}};
  jobs[0].series[0].repetitions[1].flags = {"contended", "retried"};
  jobs[0].series[0].summary = summarise(jobs[0].series[0].repetitions);
  jobs[0].series[1].roof.reset();
  jobs[0].counters = make_counters(1.5e6, 0.25, {});
  jobs[1].counters = make_counters({}, {}, {}, Scope::kernel, 1);
  jobs.push_back(make_job("relu/cpu.tuned/f32/n:8", {make_series(Scope::call, 1e-6, 1.2, 4)}));
  EXPECT_FALSE(jobs.back().comparable);
  jobs.push_back(make_job("relu/cpu.naive/f32/n:8", {make_series(Scope::call, 1e-6, 0.2, 4, Cache::cold)}));
  jobs.back().check->max_error_ratio.reset();
  set_verdict(jobs.back());
  jobs.push_back(make_missing("gemm/cuda.cublas/fp8/m:8", Status::skipped, "fp8 needs tn"));
  jobs.push_back(make_missing("relu/cuda.tuned/f32/n:8", Status::failed, "element 3 is 0.5, expected \"0.25\"\n"));
  jobs.back().repro = "duet op relu --check";
  for (const int batch : {1, 2, 4}) {
    jobs.push_back(make_step("step/gpt2/cpu/f32/batch:" + std::to_string(batch), 0.1 * batch, {{"gemm", 0.07}},
                             {{"forward", 0.03}}, batch));
    jobs.back().step->tokens = 1024;
  }
  jobs.back().step->tokens.reset();
  Run run = make_run(std::move(jobs));
  run.sweeps = {{"step/gpt2", "f32", "batch", {{"layers", int64_t{12}}, {"mixed", false}}, {}}};
  run.sweeps[0].points = {{1, 0.1, 0.2, std::nullopt, "cpu", "gpu"}, {4, 0.4, std::nullopt, std::nullopt, "cpu", ""}};
  run.invocation.warnings = {"ceilings moved"};
  run.invocation.seed = std::numeric_limits<uint64_t>::max();
  run.state.cpu_quota_cores = 1.5;
  if (!with_gpu) {
    run.machine.gpu.reset();
    run.invocation.no_gpu = "no NVIDIA driver";
    run.state.cpu_quota_cores.reset();
  }
  return run;
}

TEST(RunFile, WriteReadWriteIsByteIdentical) {
  for (const bool with_gpu : {true, false}) {
    const std::string once = run_text(full_run(with_gpu));
    EXPECT_EQ(run_text(load(once)), once);
  }
}

TEST(RunFile, WhatWasWrittenIsRead) {
  const results::Run run = load(run_text(full_run()));
  ASSERT_EQ(run.jobs.size(), 9u);
  const Job& job = run.jobs[0];
  EXPECT_EQ(job.case_name, "softmax/f32/rows:64");
  EXPECT_EQ(job.device, Device::cpu);
  EXPECT_EQ(job.params,
            (Params{{"rows", int64_t{64}}, {"log", true}, {"alpha", 0.1}, {"whole", 2.0}, {"padding", "same"}}));
  EXPECT_EQ(*job.check->max_error_ratio, 0.25);
  EXPECT_EQ(job.plan->isa, "avx2");
  EXPECT_TRUE(job.comparable);
  EXPECT_EQ(job.series[0].repetitions[1].flags, (std::vector<std::string>{"contended", "retried"}));
  EXPECT_EQ(job.series[0].roof->bound, Bound::memory);
  EXPECT_FALSE(job.series[1].roof);
  EXPECT_EQ(job.counters->value_of(Quantity::bytes), 1.5e6);
  EXPECT_EQ(job.counters->watts_of(Quantity::cpu_energy_j), 25);
  EXPECT_EQ(job.counters->readings[0].source, "memory controllers");
  EXPECT_FALSE(run.jobs[1].counters->window);
  EXPECT_EQ(run.jobs[1].counters->readings[1].unavailable_reason, "the kernel shows no RAPL");
  EXPECT_FALSE(run.jobs[2].counters);
  EXPECT_EQ(run.jobs[2].reason,
            "call, warm, 4 threads: 120 % of its roof (cpu.copy): wrong byte count or broken timing");
  EXPECT_EQ(run.jobs[5].reason, "element 3 is 0.5, expected \"0.25\"\n");
  EXPECT_EQ(run.jobs[6].step->tokens, 1024);
  EXPECT_FALSE(run.jobs[8].step->tokens);
  EXPECT_NEAR(run.jobs[6].step->residual_s, 0.03, 1e-12);
  EXPECT_EQ(run.sweeps[0].points[1].size, 4);
  EXPECT_FALSE(run.sweeps[0].points[1].gpu_call_s);
  EXPECT_EQ(run.ceilings.size(), 6u);
  EXPECT_EQ(run.machine.gpu->name, "a GPU");
  EXPECT_EQ(run.invocation.seed, std::numeric_limits<uint64_t>::max());
}

TEST(RunFile, GoogleBenchmarksToolsFindTheirRows) {
  const Json document = Json::parse(run_text(full_run()));
  size_t medians = 0;
  for (const Json& row : document["benchmarks"]) {
    EXPECT_GT(row["real_time"], 0) << "a job without a time has no row";
    EXPECT_EQ(row["time_unit"], "ns");
    EXPECT_FALSE(row.contains("error_occurred"));
    medians += row["run_type"] == "aggregate";
  }
  EXPECT_EQ(medians, 10u) << "one for each series";
  const Json& first = document["benchmarks"][0];
  EXPECT_EQ(first["name"], "softmax/cpu.tuned/f32/rows:64/call/warm/threads:4");
  EXPECT_DOUBLE_EQ(first["real_time"], 990e3);
  EXPECT_EQ(document["context"]["num_cpus"], 4);
}

// --- what is not written

std::string error_of_writing(const Run& run) {
  try {
    run_text(run);
  } catch (const Error& e) {
    return e.what();
  }
  return "written";
}

TEST(RunFile, OnlyFiniteNumbersAreWritten) {
  results::Run run = full_run();
  run.jobs[0].series[1].first_call_s = std::nan("");
  EXPECT_EQ(error_of_writing(run),
            "softmax/cpu.tuned/f32/rows:64: job.series[1].first_call_s: a number that is not finite");
  EXPECT_THROW(require_valid(run.jobs[0]), Error);
  EXPECT_NO_THROW(require_valid(run.jobs[1]));
  run = full_run();
  run.ceilings[0].value = std::numeric_limits<double>::infinity();
  EXPECT_THAT(error_of_writing(run), HasSubstr("ceilings[0].value"));
}

TEST(RunFile, ContradictionsAreNotWritten) {
  results::Run run = full_run();
  for (double Summary::*member : {&Summary::median_s, &Summary::lo_s, &Summary::hi_s, &Summary::min_s}) {
    run.jobs[0].series[0].summary = summarise(run.jobs[0].series[0].repetitions);
    run.jobs[0].series[0].summary.*member *= 1 + 1e-6;
    EXPECT_THAT(error_of_writing(run), HasSubstr("but the samples give"));
  }
  run = full_run();
  run.jobs[0].reason = "so";
  EXPECT_THAT(error_of_writing(run), HasSubstr("rows:64: comparable: true, but reason says \"so\""));
  run = full_run();
  run.jobs.push_back(run.jobs[0]);
  EXPECT_THAT(error_of_writing(run), HasSubstr("job names are unique"));
}

// --- what is not read

std::string error_of(const std::string& text) {
  const Scratch scratch;
  try {
    load_run(scratch.write("r.json", text));
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_NE(message.find("r.json"), std::string::npos) << message;
    return message.substr(message.find("r.json") + 6);
  }
  return "accepted";
}

template <class Edit>
std::string error_after(const Edit& edit) {
  Json document = Json::parse(run_text(make_run(softmax_pair())));
  edit(document["duet"]);
  return error_of(document.dump());
}

TEST(RunFile, RefusesWhatIsNoRunFile) {
  EXPECT_EQ(error_of(""),
            ": the file ends too early: parse error at line 1, column 1: syntax error while parsing value - "
            "unexpected end of input; expected '[', '{', or a literal");
  EXPECT_THAT(error_of("{\"a\" 1}"), HasSubstr(": not JSON: "));
  EXPECT_THAT(error_of("\x7f"
                       "ELF\x01"),
              HasSubstr(": not JSON: "));
  EXPECT_THAT(error_of("[1, 2]"), HasSubstr("array is not an object"));
  EXPECT_THAT(error_of("{\"context\": {}, \"benchmarks\": []}"), HasSubstr("'duet' is missing: not a run file"));
  EXPECT_THAT(error_of("{\"duet\": {\"schema\": 2, \"x\": 1e999}}"), HasSubstr("not JSON"));
}

TEST(RunFile, EveryTruncationIsAnError) {
  const std::string text = run_text(make_run(softmax_pair()));
  for (size_t length = 0; length < text.size() - 2; length += 97)
    EXPECT_THAT(error_of(text.substr(0, length)), HasSubstr("the file ends too early")) << length;
}

TEST(RunFile, RefusesANewerSchema) {
  EXPECT_EQ(error_after([](Json& duet) { duet["schema"] = kSchema + 1; }),
            ": duet.schema: 4 is newer than the 3 that this program reads");
  EXPECT_NE(error_after([](Json& duet) { duet["schema"] = "1"; }), "accepted");
  EXPECT_NE(error_after([](Json& duet) { duet["schema"] = 0; }), "accepted");
}

TEST(RunFile, IgnoresMembersThatItDoesNotKnow) {
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["a_new_member"] = {1, 2}; }), "accepted");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["series"][0]["flags"] = {"a_new_flag"}; }), "accepted");
}

TEST(RunFile, NamesTheMemberAndWhatIsAllowed) {
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][1]["status"] = "okay"; }),
            ": duet.jobs[1].status: \"okay\" is not one of ok, skipped, failed");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["device"] = "tpu"; }),
            ": duet.jobs[0].device: \"tpu\" is not one of cpu, gpu");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0].erase("case"); }), ": duet.jobs[0]: member 'case' is missing");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["op"] = ""; }), ": duet.jobs[0].op: an empty string is not allowed");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["params"]["rows"] = Json::array(); }),
            ": duet.jobs[0].params.rows: array is not a number, a string, true or false");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["series"][1]["summary"]["median_s"] = 0; }),
            ": duet.jobs[0].series[1].summary.median_s: 0 is not a number above 0");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["series"][0]["repetitions"][2]["samples_s"][1] = nullptr; }),
            ": duet.jobs[0].series[0].repetitions[2].samples_s[1]: null is not a number");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["series"][0]["threads"] = 1.5; }),
            ": duet.jobs[0].series[0].threads: 1.5 is not an integer");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["series"][0]["threads"] = 0; }),
            ": duet.jobs[0].series[0].threads: 0 is not an integer of at least 1");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["bytes"] = 1e17; }),
            ": duet.jobs[0].bytes: 1e+17 is not an integer");
  EXPECT_EQ(error_after([](Json& d) { d["ceilings"][0]["unit"] = "GB/s"; }),
            ": duet.ceilings[0].unit: \"GB/s\" is not one of B/s, FLOP/s, OP/s, s");
  EXPECT_EQ(error_after([](Json& d) { d["ceilings"][0]["threads"] = 1ll << 40; }),
            ": duet.ceilings[0].threads: 1099511627776 does not fit into 32 bits");
  EXPECT_EQ(error_after([](Json& d) { d["run"].erase("complete"); }), ": duet.run: member 'complete' is missing");
}

TEST(RunFile, RefusesContradictions) {
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["series"] = Json::array(); }),
            ": duet.jobs[0].series: a job that is ok has at least one series");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["status"] = "skipped"; }),
            ": duet.jobs[0].series: a skipped job has no series");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["check"] = nullptr; }),
            ": duet.jobs[0].comparable: true, but timed, but its result was not checked");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["series"][0]["summary"]["median_s"] = 0.5; }),
            ": duet.jobs[0].series[0].summary.median_s: 0.5 lies outside lo_s 0.00099 .. hi_s 0.00101");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["series"][0]["repetitions"] = Json::array(); }),
            ": duet.jobs[0].series[0].repetitions: a series has at least one repetition");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][1]["name"] = d["jobs"][0]["name"]; }),
            ": duet.jobs[1].name: \"softmax/cpu.tuned/f32/rows:64\" occurs twice: job names are unique");
}

// An edit of the counters of the first job, whose bytes were measured and whose energies were not.
template <class Edit>
std::string error_after_counters(const Edit& edit) {
  return error_after([&](Json& d) {
    std::vector<Job> jobs = softmax_pair();
    jobs[0].counters = make_counters(1.5e6, {}, {});
    d["jobs"][0] = Json::parse(run_text(make_run({jobs[0]})))["duet"]["jobs"][0];
    edit(d["jobs"][0]["counters"]);
  });
}

TEST(RunFile, RefusesCountersThatCannotBe) {
  const std::string counters = ": duet.jobs[0].counters.", reading = counters + "readings[0].";
  EXPECT_EQ(error_after_counters([](Json&) {}), "accepted");
  EXPECT_EQ(error_after_counters([](Json& c) { c = nullptr; }), "accepted");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0].erase("counters"); }), "accepted") << "as in older files";
  EXPECT_EQ(error_after_counters([](Json& c) { c["readings"][0]["value"] = -1.5e6; }),
            reading + "value: -1500000.0 is not a number above 0");
  EXPECT_EQ(error_after_counters([](Json& c) { c["readings"][0]["value"] = 0; }),
            reading + "value: 0 is not a number above 0");
  EXPECT_EQ(error_after_counters([](Json& c) { c["readings"][0]["value"] = "nan"; }),
            reading + "value: \"nan\" is not a number");
  EXPECT_EQ(error_after_counters([](Json& c) { c["readings"][0]["value"] = nullptr; }),
            reading + "source: given without a value");
  EXPECT_EQ(error_after_counters([](Json& c) { c["readings"][0]["source"] = ""; }),
            reading + "source: a value has the counter that it is from");
  EXPECT_EQ(error_after_counters([](Json& c) { c["readings"][0]["unavailable_reason"] = "none"; }),
            reading + "unavailable_reason: given beside a value");
  EXPECT_EQ(error_after_counters([](Json& c) { c["readings"][1]["unavailable_reason"] = ""; }),
            counters + "readings[1].unavailable_reason: what was not measured has the reason");
  EXPECT_THAT(error_after_counters([](Json& c) { c["readings"][0]["quantity"] = "joules"; }),
              HasSubstr("\"joules\" is not one of instructions, cycles, bytes, cpu_energy_j"));
  EXPECT_EQ(error_after_counters([](Json& c) { c["readings"].push_back(c["readings"][0]); }),
            counters + "readings: \"bytes\" occurs twice");
  EXPECT_EQ(error_after_counters([](Json& c) { c["readings"] = Json::array(); }),
            counters + "readings: there is at least one");
  EXPECT_EQ(error_after_counters([](Json& c) { c["window"] = nullptr; }),
            counters + "window: a value has a window that it was measured in");
  EXPECT_EQ(error_after_counters([](Json& c) { c["window"]["time_s"] = 1.9; }),
            counters + "window: 1.9 s are shorter than 2 s");
  EXPECT_EQ(error_after_counters([](Json& c) { c["window"]["applications"] = 0; }),
            counters + "window.applications: 0 is not an integer of at least 1");
  EXPECT_EQ(error_after_counters([](Json& c) { c["threads"] = 99; }),
            ": duet.jobs[0].counters: scope, cache and threads are those of no series of the job");
  EXPECT_EQ(error_after_counters([](Json& c) {
              c["readings"][0]["quantity"] = "gpu_energy_j";
              c["readings"].erase(1);
              while (c["readings"].size() > 1) c["readings"].erase(1);
            }),
            ": duet.jobs[0].counters: a job on the CPU has no energy of a GPU");
  EXPECT_EQ(error_after([](Json& d) {
              Job failed = make_missing("relu/cpu.tuned/f32/n:8", Status::failed, "wrong");
              d["jobs"].push_back(Json::parse(run_text(make_run({failed})))["duet"]["jobs"][0]);
              std::vector<Job> jobs = softmax_pair();
              jobs[0].counters = make_counters(1.5e6, {}, {});
              d["jobs"][2]["counters"] = Json::parse(run_text(make_run({jobs[0]})))["duet"]["jobs"][0]["counters"];
            }),
            ": duet.jobs[2].counters: a failed job has no counters");
}

TEST(RunFile, CountersThatAreNotFiniteAreNotWritten) {
  results::Run run = full_run();
  run.jobs[0].counters->readings[0].value = std::nan("");
  EXPECT_THAT(error_of_writing(run), HasSubstr("not finite"));
}

TEST(RunFile, MissingFileAndFolderAreErrors) {
  const Scratch scratch;
  EXPECT_THROW(load_run((scratch / "none.json").string()), Error);
  EXPECT_THROW(load_run(fs::temp_directory_path().string()), Error);
}

TEST(RunFile, SurvivesDeepNesting) {
  EXPECT_EQ(error_of(std::string(200000, '[')), ": nested deeper than 64 levels");
  const std::string good = run_text(make_run(softmax_pair()));
  const auto with = [&](const std::string& member) {
    return std::string(good).insert(good.find("\"schema\""), member);
  };
  EXPECT_EQ(error_of(with("\"deep\":" + std::string(100000, '[') + std::string(100000, ']') + ",")),
            ": nested deeper than 64 levels");
  EXPECT_EQ(error_of(with("\"text\":\"\\\"" + std::string(100000, '[') + "\",")), "accepted");
}

// --- the journal

std::string journal_of(const Run& run, bool complete = false) {
  results::Run header = run;
  header.jobs.clear();
  header.sweeps.clear();
  header.invocation.complete = complete;
  std::string text = journal_head(header) + "\n";
  for (const Job& job : run.jobs) text += journal_line(job) + "\n";
  return text;
}

TEST(Journal, WriteReadWriteIsByteIdentical) {
  const std::string text = journal_of(full_run());
  const Scratch scratch;
  const JournalContent content = load_journal(scratch.write("r.json.journal", text));
  EXPECT_EQ(journal_of(content.run), text);
  EXPECT_EQ(content.whole_bytes, static_cast<int64_t>(text.size()));
  EXPECT_FALSE(content.cut);
}

TEST(Journal, IsARunThatIsNotComplete) {
  const results::Run run = load(journal_of(make_run(softmax_pair()), true));  // whatever its head says
  EXPECT_EQ(run.jobs.size(), 2u);
  EXPECT_FALSE(run.invocation.complete);
  ASSERT_EQ(run.invocation.warnings.size(), 1u);
  EXPECT_THAT(run.invocation.warnings[0], HasSubstr("2 jobs had finished"));
  EXPECT_EQ(load(journal_of(make_run({}))).jobs.size(), 0u);
}

TEST(Journal, ALineWithoutItsNewlineIsIgnoredAndNamed) {
  const std::string text = journal_of(make_run(softmax_pair()));
  const size_t last_line = text.rfind('\n', text.size() - 2) + 1;
  for (size_t length = last_line + 1; length < text.size(); length += 131) {
    const results::Run run = load(text.substr(0, length));
    EXPECT_EQ(run.jobs.size(), 1u);
    ASSERT_EQ(run.invocation.warnings.size(), 2u);
    EXPECT_EQ(run.invocation.warnings[1], "the journal's last line is cut and was ignored");
  }
  const Scratch scratch;
  const JournalContent content = load_journal(scratch.write("j", text.substr(0, text.size() - 1)));
  EXPECT_TRUE(content.cut);
  EXPECT_EQ(content.whole_bytes, static_cast<int64_t>(last_line)) << "where another process goes on";
}

// A crash between the lines of a case has --resume measure it again.
TEST(Journal, OfAJobThatStandsTwiceTheLaterLineCounts) {
  results::Run run = make_run(softmax_pair());
  const std::string text = journal_of(run);
  run.jobs[1].family = "later";
  const results::Run read = load(text + journal_line(run.jobs[1]) + "\n");
  ASSERT_EQ(read.jobs.size(), 2u);
  EXPECT_EQ(read.jobs[1].family, "later");
}

TEST(Journal, ADamagedLineIsLeftOutAndNamed) {
  const std::string text = journal_of(make_run(softmax_pair()));
  const size_t row = text.find("{\"job\"");
  for (size_t at = row; at + 1 < text.find('\n', row); at += 29)
    for (const char bit : {'\x01', '\x10', '\x40'}) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ bit);
      const results::Run run = load(damaged);
      ASSERT_EQ(run.jobs.size(), 1u) << at;
      EXPECT_THAT(run.invocation.warnings.back(), HasSubstr("of the journal w")) << at;
    }
}

TEST(Journal, OfTwoHeadsOneMayBeDamaged) {
  const std::string text = journal_of(make_run(softmax_pair()));
  const std::string head = text.substr(0, text.find('\n') + 1);
  for (size_t at = 0; at < head.size(); at += 101) {
    std::string damaged = head;
    damaged[at] ^= 2;
    EXPECT_EQ(load(damaged + "\n" + text).jobs.size(), 2u) << at;
    EXPECT_EQ(load(head + "\n" + damaged + "\n" + text.substr(head.size())).jobs.size(), 2u) << at;
  }
}

TEST(Journal, RefusesWhatIsNone) {
  std::string text = journal_of(make_run(softmax_pair()));
  EXPECT_THAT(error_of(text.substr(0, text.find('\n') - 5)), HasSubstr("the file ends too early"));
  EXPECT_THAT(error_of("{\"duet_journal\":3}\n"), HasSubstr("duet_journal: 3 is newer"));
  const Scratch scratch;
  EXPECT_THROW(load_journal(scratch.write("j", std::string("no json\n"))), Error);
  EXPECT_THROW(load_journal(scratch.write("j", std::string())), Error);
}

// --- schema 1: tests/results/schema_1.json is a run of bench_all at commit d4a3fa9, `--scale smoke --min-time 0.0005
// --repetitions 3`, of which most jobs, samples of ceilings and names of the machine were removed.

const std::string& schema_1_text() {
  static const std::string text = read(fs::path(DUET_SOURCE_DIR) / "tests/results/schema_1.json");
  return text;
}

TEST(Schema1, IsReadWithVerdicts) {
  const results::Run run = load(schema_1_text());
  ASSERT_EQ(run.jobs.size(), 6u);
  const auto find = [&](const std::string& start) -> const Job& {
    for (const Job& job : run.jobs)
      if (job.name.starts_with(start)) return job;
    throw Error("no job {}", start);
  };
  const Job& good = find("gemm/cpu.openblas/");
  EXPECT_TRUE(good.comparable);
  EXPECT_TRUE(good.series[0].has_flag("weak_cpu"));
  EXPECT_EQ(good.bytes, 634880);
  EXPECT_GT(good.series[0].repetitions[0].foreign_cores, 0) << "foreign_cpu";
  const Job& suspect = find("gemm/cpu.tuned/");
  EXPECT_FALSE(suspect.comparable);
  EXPECT_THAT(suspect.reason, HasSubstr("153 % of its roof (cpu.fma.f32)"));
  const Job& skipped = find("gemm/cuda.cublas/");
  EXPECT_EQ(skipped.status, Status::skipped);
  EXPECT_EQ(skipped.reason, "this build has no CUDA (DUET_CUDA=OFF)");
  const Job& step = find("step/mlp/cpu/");
  ASSERT_TRUE(step.step);
  EXPECT_EQ(step.step->peak_memory_bytes, 1461328) << "memory_peak";
  EXPECT_EQ(step.step->nodes_s.size(), 10u) << "parts_s";
  EXPECT_EQ(step.step->samples, 7);
  EXPECT_EQ(run.build.cuda, "");
  EXPECT_FALSE(run.state.cpu_quota_cores);
  EXPECT_EQ(run.invocation.no_gpu, "this build has no CUDA (DUET_CUDA=OFF)");
}

TEST(Schema1, IsWrittenAsTheSchemaOfToday) {
  const std::string text = run_text(load(schema_1_text()));
  EXPECT_EQ(Json::parse(text)["duet"]["schema"], kSchema);
  EXPECT_EQ(run_text(load(text)), text);
}

TEST(Schema1, ItsJournalsAreRead) {
  Json document = Json::parse(schema_1_text());
  Json header = document;
  header["benchmarks"] = header["duet"]["jobs"] = header["duet"]["steps"] = Json::array();
  std::string text = Json{{"duet_journal", 1}, {"document", header}}.dump() + "\n";
  for (const Json& job : document["duet"]["jobs"]) {
    Json line{{"job", job}};
    for (const Json& step : document["duet"]["steps"])
      if (step["job"] == job["name"]) line["step"] = step;
    text += line.dump() + "\n";
  }
  const results::Run run = load(text);
  EXPECT_EQ(run.jobs.size(), 6u);
  EXPECT_TRUE(run.jobs[4].step);
  // They had no checksums.
  EXPECT_THAT(error_of(text + "{\"job\" 1}\n"), HasSubstr(", line 8: not JSON"));
  EXPECT_THAT(error_of(text + "17\n"), HasSubstr(", line 8: 17 is not an object"));
  EXPECT_THAT(error_of(text + "{\"job\": {\"name\": 3}}\n"), HasSubstr(", line 8: job.name: 3 is not a string"));
}

TEST(Schema1, IsRefusedWhereItIsDamaged) {
  Json document = Json::parse(schema_1_text());
  document["duet"]["steps"][0]["residual_s"] = 3;
  EXPECT_THAT(error_of(document.dump()), HasSubstr("duet.jobs[4].step: residual_s is 3"));
  document["duet"]["steps"] = 7;
  document["duet"]["jobs"][0].erase("flops");
  EXPECT_THAT(error_of(document.dump()), HasSubstr("duet.jobs[0]: member 'flops' is missing"));
}

// --- schema 2: today's document without what schema 3 added.

TEST(Schema2, IsReadAndItsRoofsAreThoseOfTheRun) {
  results::Run run = make_run(softmax_pair());
  Json document = Json::parse(run_text(run));
  Json& duet = document["duet"];
  duet["schema"] = 2;
  for (const char* name : {"processes", "trust", "doubts"}) duet["run"].erase(name);
  for (const char* name : {"cases", "exclude"}) duet["run"]["selection"].erase(name);
  duet["state"].erase("usable_threads");
  for (Json& job : duet["jobs"]) {
    job.erase("trust");
    for (const char* name : {"coverage", "sampled_reason"}) job["check"].erase(name);
    for (Json& series : job["series"]) {
      series.erase("foreign_cores");
      for (const char* name : {"lo", "hi", "interval", "source", "quiet"})
        if (!series["roof"].is_null()) series["roof"].erase(name);
      for (Json& repetition : series["repetitions"])
        for (const char* name :
             {"process", "roof_s", "wall_s", "steal_share", "sm_clock_mhz", "memory_clock_mhz", "throttled_by"})
          repetition.erase(name);
    }
  }
  const results::Run then = load(document.dump());
  ASSERT_EQ(then.jobs.size(), 2u);
  EXPECT_EQ(then.jobs[0].trust, Trust::trustworthy);
  EXPECT_EQ(then.jobs[0].check->coverage, "sampled");
  EXPECT_FALSE(then.jobs[0].check->sampled_reason);
  EXPECT_EQ(then.jobs[0].series[0].roof->source, RoofSource::run);
  EXPECT_EQ(then.jobs[0].series[0].roof->fraction, run.jobs[0].series[0].roof->fraction);
  EXPECT_EQ(then.invocation.processes, 1);
  EXPECT_EQ(then.state.usable_threads, 4);
  EXPECT_EQ(run_text(load(run_text(then))), run_text(then));
}

}  // namespace
}  // namespace duet::results::testing
