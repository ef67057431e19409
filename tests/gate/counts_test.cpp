// SPDX-License-Identifier: Apache-2.0
// The gate by exact counts: what is read, compared and refused.
#include "reports/gate/counts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/results/fixture.h"

namespace duet::reports {
namespace {

using results::testing::Scratch;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

Counts counts_of(const std::map<std::string, double>& rows, const std::string& counter = "valgrind-3.19.0") {
  Counts counts;
  counts.counter = counter;
  for (const auto& [name, count] : rows) counts.rows[name] = {name, "relu", count};
  return counts;
}

std::string verdict_of(double base, double head) {
  const Comparison c = compare_counts(counts_of({{"a", base}}), counts_of({{"a", head}}));
  return std::string(name_of(c.rows.at(0).verdict)) + " " + c.rows[0].code;
}

TEST(Counts, OnePerCentIsVisible) {
  EXPECT_EQ(verdict_of(10'000, 10'000), "SAME count_equal");
  EXPECT_EQ(verdict_of(10'000, 10'100), "SAME small_shift");
  EXPECT_EQ(verdict_of(10'000, 10'101), "SLOWER count_changed");
  EXPECT_EQ(verdict_of(10'101, 10'000), "FASTER count_changed");
  EXPECT_EQ(verdict_of(0, 0), "SAME count_equal");
  EXPECT_EQ(verdict_of(0, 8), "SLOWER count_changed") << "the first spilled bytes";
}

TEST(Counts, RowsOfOneSide) {
  Counts head = counts_of({{"b", 1}});
  head.without["a"] = "not built here";
  const Comparison c = compare_counts(counts_of({{"a", 1}}), head);
  EXPECT_EQ(c.count(Verdict::missing), 1U);
  EXPECT_EQ(c.count(Verdict::added), 1U);
  EXPECT_EQ(c.rows[0].detail, "not built here");
  EXPECT_EQ(c.compared(), 0U);
}

TEST(Counts, OtherCountersAreNotComparable) {
  EXPECT_THROW(compare_counts(counts_of({{"a", 1}}), counts_of({{"a", 1}}, "another")), NotComparable);
}

TEST(Counts, UnlikeBuildsAndSettingsAreRefused) {
  Counts base = counts_of({{"a", 1}}), head = counts_of({{"a", 1}});
  base.keys = {{"build.flags", "-O3"}, {"settings.seed", "1"}};
  head.keys = {{"build.flags", "-O2"}, {"settings.seed", "1"}};
  const auto message = [&](const std::vector<std::string>& allowed) -> std::string {
    try {
      return fmt::format("{} allowed", compare_counts(base, head, allowed).allowed.size());
    } catch (const NotComparable& e) {
      return e.what();
    }
  };
  EXPECT_THAT(message({}), HasSubstr("build.flags is '-O3' in base and '-O2' in head"));
  EXPECT_EQ(message({"build"}), "1 allowed");
  head.keys = {{"build.flags", "-O3"}, {"settings.seed", "2"}};
  EXPECT_THAT(message({"build"}), HasSubstr("settings.seed is '1' in base and '2' in head"));
  head.keys.clear();  // of an older program
  EXPECT_THAT(message({}), HasSubstr("build.flags is '-O3' in base and 'none' in head"));
}

TEST(Counts, ARowThatWasZeroIsCompared) {
  const Comparison c = compare_counts(counts_of({{"a", 0}}), counts_of({{"a", 8}}));
  EXPECT_EQ(c.compared(), 1U);
  EXPECT_EQ(c.count(Verdict::slower), 1U);
  EXPECT_THAT(answer(c), HasSubstr("Of 1 count, 1 is higher"));
}

TEST(Counts, OutputsSayCounts) {
  const Comparison c = compare_counts(counts_of({{"a", 1000}}), counts_of({{"a", 2000}}));
  EXPECT_THAT(answer(c), HasSubstr("Of 1 count, 1 is higher (most: a, 2.00×)"));
  EXPECT_THAT(comparison_text(c, true), HasSubstr("2000"));
  EXPECT_THAT(comparison_json(c), HasSubstr("\"counts\""));
}

TEST(Counts, BadFilesSayWhatIsWrong) {
  const Scratch scratch;
  const auto message = [&](const std::string& text) -> std::string {
    try {
      load_counts(scratch.write("c.json", text));
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(message(R"({"duet_counts": 1, "counter": "x", "rows": {"a/cpu.tuned/f32": 5}, "without": {}})"), "none");
  EXPECT_THAT(message("{}"), HasSubstr("member 'duet_counts' is missing"));
  EXPECT_THAT(message(R"({"duet_counts": 2, "counter": "x", "rows": {}, "without": {}})"), HasSubstr("1 is expected"));
  EXPECT_THAT(message(R"({"duet_counts": 1, "counter": "x", "rows": {"a": -5}, "without": {}})"),
              HasSubstr("-5 is not a number of at least 0"));
  EXPECT_THAT(message("x"), HasSubstr("not JSON"));
}

constexpr const char* kProfile = R"({"job": "softmax/cuda.tuned/f32/rows:64", "kernels": [
 {"kernel": "k", "file": "softmax_tuned.cu", "block_barriers": 4,
  "global": {"load": {"sectors": 100}, "store": {"sectors": 50}, "atomic": {"sectors": 0}},
  "shared": {"load": {"wavefronts": 8}, "store": {"wavefronts": 2}, "atomic": {"wavefronts": 0}},
  "compiled": [{"architecture": "sm_90", "registers": 40, "spill_store_bytes": 4, "spill_load_bytes": 8}]},
 {"kernel": "l", "block_barriers": 1,
  "global": {"load": {"sectors": 1}, "store": {"sectors": 0}, "atomic": {"sectors": 0}},
  "shared": {"load": {"wavefronts": 0}, "store": {"wavefronts": 0}, "atomic": {"wavefronts": 0}},
  "compiled": [{"architecture": "sm_90", "registers": 32, "spill_store_bytes": 0, "spill_load_bytes": 0}],
  "code": [{"architecture": "sm_90", "instructions": 300}]}]})";

TEST(Counts, ProfilesOfKernelsAreAddedUpAndKept) {
  Counts counts;
  add_kernel_profile("head", kProfile, counts);
  const auto count = [&](const std::string& what) {
    return counts.rows.at("softmax/cuda.tuned/f32/rows:64: " + what).count;
  };
  EXPECT_EQ(count("barriers"), 5);
  EXPECT_EQ(count("global load sectors"), 101);
  EXPECT_EQ(count("shared store wavefronts"), 2);
  EXPECT_EQ(count("registers sm_90"), 40) << "of the kernel with the most";
  EXPECT_EQ(count("spilled bytes sm_90"), 12);
  EXPECT_EQ(count("instructions sm_90"), 300) << "of the kernels whose code is known";
  EXPECT_EQ(count("k in softmax_tuned.cu: global load sectors"), 100);
  EXPECT_EQ(count("l: global load sectors"), 1) << "a template that files share has none";
  EXPECT_EQ(count("l: registers sm_90"), 32);
  EXPECT_EQ(count("l: instructions sm_90"), 300);
  Counts again;
  EXPECT_THROW(add_kernel_profile("head", "no JSON", again), Error);
  EXPECT_THROW(add_kernel_profile("head", "{}", again), Error);
}

// The profile of a job with two kernels of one name, in a.cu and b.cu, and this many instructions.
Counts of_two_kernels(int in_a, int in_b, const std::string& second_file = "b.cu") {
  const auto kernel = [](const std::string& file, int instructions) {
    return fmt::format(
        R"({{"kernel": "clear_kernel", "file": "{}", "block_barriers": 0,
            "global": {{"load": {{"sectors": 0}}, "store": {{"sectors": 1}}, "atomic": {{"sectors": 0}}}},
            "shared": {{"load": {{"wavefronts": 0}}, "store": {{"wavefronts": 0}}, "atomic": {{"wavefronts": 0}}}},
            "code": [{{"architecture": "sm_90", "instructions": {}}}]}})",
        file, instructions);
  };
  Counts counts;
  add_kernel_profile("side",
                     fmt::format(R"({{"job": "unscale/cuda.tuned/f32/n:64", "kernels": [{}, {}]}})",
                                 kernel("a.cu", in_a), kernel(second_file, in_b)),
                     counts);
  return counts;
}

TEST(Counts, OneOfTwoKernelsOfOneNameShowsByItsFileAndUndiluted) {
  const Comparison c = compare_counts(of_two_kernels(10'000, 100), of_two_kernels(10'000, 102));
  ASSERT_EQ(c.count(Verdict::slower), 1U) << "2 % of the small one are 0.02 % of both";
  const auto row =
      std::find_if(c.rows.begin(), c.rows.end(), [](const auto& r) { return r.verdict == Verdict::slower; });
  EXPECT_EQ(row->name, "unscale/cuda.tuned/f32/n:64: clear_kernel in b.cu: instructions sm_90");
}

TEST(Counts, AKernelThatIsReplacedIsInTheRowOfItsJob) {
  const Comparison c = compare_counts(of_two_kernels(1000, 100), of_two_kernels(1000, 300, "c.cu"));
  EXPECT_EQ(c.count(Verdict::missing), 0U);
  EXPECT_EQ(c.count(Verdict::added), 0U);
  ASSERT_EQ(c.count(Verdict::slower), 1U);
  EXPECT_EQ(c.rows[0].name, "unscale/cuda.tuned/f32/n:64: instructions sm_90");
}

std::string script(const Scratch& scratch, const std::string& name, const std::string& text) {
  const std::string path = scratch.write(name, "#!/bin/sh\n" + text);
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

TEST(CountGate, ProgramsAreAskedForInstructions) {
  const Scratch scratch;
  const auto program = [&](const std::string& name, int count) {
    return script(scratch, name,
                  "for a in \"$@\"; do case $a in --json=*) echo '{\"duet_counts\": 1, \"counter\": \"v\", \"rows\": "
                  "{\"relu/cpu.tuned/f32\": " +
                      std::to_string(count) + "}, \"without\": {}}' > \"${a#--json=}\" ;; esac; done\n");
  };
  GateOptions options;
  options.base.program = program("base", 1000);
  options.head.program = program("head", 1020);
  EXPECT_EQ(run_count_gate(options, false).count(Verdict::slower), 1U);
  options.head.program = program("same", 1000);
  EXPECT_EQ(run_count_gate(options, false).count(Verdict::same), 1U);
  options.head.program = script(scratch, "crash", "kill -SEGV $$");
  EXPECT_THROW(run_count_gate(options, false), ProgramFailed);
  options.head.program = script(scratch, "nothing", "exit 77");
  EXPECT_EQ(run_count_gate(options, false).count(Verdict::missing), 1U);
  options.head = {"", {"file.json"}, {}};
  EXPECT_THROW(run_count_gate(options, false), Error);
}

TEST(CountGate, KernelsAreProfiledByTheProgramBeside) {
  const Scratch scratch;
  for (const char* side : {"a", "b"}) {
    fs::create_directories(scratch / side);
    script(
        scratch, std::string(side) + "/bench_all",
        "for a in \"$@\"; do case $a in --json=*) echo '[{\"name\": \"softmax/cuda.tuned/f32/rows:64\", "
        "\"unavailable_reason\": \"not built\"}, {\"name\": \"softmax/cpu.tuned/f32/rows:64\", \"unavailable_reason\": "
        "\"\"}]' > \"${a#--json=}\" ;; esac; done\n");
    scratch.write(std::string(side) + "/profile", kProfile);
    script(scratch, std::string(side) + "/duet", "cat '" + (scratch / side).string() + "/profile'\n");
  }
  GateOptions options;
  options.base.program = (scratch / "a/bench_all").string();
  options.head.program = (scratch / "b/bench_all").string();
  EXPECT_EQ(run_count_gate(options, true).count(Verdict::slower), 0U);
  std::string worse = kProfile;
  worse.replace(worse.find("\"sectors\": 100"), 14, "\"sectors\": 200");
  scratch.write("b/profile", worse);
  const Comparison c = run_count_gate(options, true);
  EXPECT_EQ(c.count(Verdict::slower), 2U) << "of the job, and of its kernel";
  EXPECT_THAT(c.rows[0].name, HasSubstr("global load sectors"));
}

}  // namespace
}  // namespace duet::reports
