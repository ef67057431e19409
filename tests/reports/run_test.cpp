// SPDX-License-Identifier: Apache-2.0
// Reading run files and journals: what is refused, in which words, and what a crash may leave behind.
#include <gtest/gtest.h>

#include "tests/reports/fixture.h"

namespace duet::reports::testing {
namespace {

std::string error_of(const std::string& text) {
  const Scratch scratch;
  try {
    load_run(scratch.write("r.json", text));
  } catch (const RunError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_NE(message.find("r.json"), std::string::npos) << message;
    return message.substr(message.find("r.json") + 6);
  }
  return "accepted";
}

template <class Edit>
std::string error_after(Edit edit) {
  Json document = make_document(softmax_pair());
  edit(document["duet"]);
  return error_of(document.dump());
}

TEST(ReportsRun, ReadsEveryMember) {
  Json document = make_document(softmax_pair());
  document["duet"]["jobs"][0]["series"][0]["flags"] = {"weak_cpu", "a_new_flag"};
  document["duet"]["jobs"][0]["series"][1]["roof"] = nullptr;
  document["duet"]["jobs"][0]["a_new_member"] = {1, 2};
  document["duet"]["steps"] = {{{"job", "step/mlp/cpu/f32/batch:1"},
                                {"phases_s", {{"forward", 1.0}}},
                                {"parts_s", {{"gemm", 0.5}}},
                                {"residual_s", -0.5},
                                {"memory_peak", 100},
                                {"implementations", {{"gemm", "cpu.openblas"}}}}};
  document["duet"]["sweeps"] = {
      {{"op", "gelu"},
       {"points", {{{"size", 8}, {"cpu_s", 1.0}, {"gpu_call_s", nullptr}}, {{"size", 4}, {"cpu_s", 0.5}}}}}};
  const auto run = load(document);
  ASSERT_EQ(run.jobs.size(), 2u);
  const Job& job = run.jobs[0];
  EXPECT_EQ(job.case_name, "softmax/f32/rows:64");
  EXPECT_EQ(job.family, "norm");
  EXPECT_EQ(job.device, Device::cpu);
  EXPECT_EQ(*job.check->max_error_ratio, 0.25);
  EXPECT_EQ(job.plan.isa, "avx2");
  EXPECT_EQ(job.params, (Facts{{"rows", "64"}}));
  EXPECT_TRUE(job.series[0].has_flag("weak_cpu"));
  EXPECT_EQ(job.series[0].threads, 4);
  EXPECT_FALSE(job.series[1].roof);
  EXPECT_EQ(run.ceilings.size(), 6u);
  EXPECT_EQ(run.steps[0].residual_s, -0.5);
  EXPECT_EQ(run.sweeps[0].points[0].size, 4);  // sorted
  EXPECT_FALSE(run.sweeps[0].points[1].gpu_call_s);
  EXPECT_TRUE(run.complete);
  EXPECT_TRUE(run.has_gpu);
}

TEST(ReportsRun, RefusesWhatIsNoRunFile) {
  EXPECT_EQ(error_of(""),
            ": the file ends too early: parse error at line 1, column 1: syntax error while parsing value - "
            "unexpected end of input; expected '[', '{', or a literal");
  EXPECT_NE(error_of("{\"a\" 1}").find(": not JSON: "), std::string::npos);
  EXPECT_NE(error_of("\x7f"
                     "ELF\x01")
                .find(": not JSON: "),
            std::string::npos);
  EXPECT_NE(error_of("[1, 2]").find("array is not an object"), std::string::npos);
  EXPECT_NE(error_of("{\"context\": {}, \"benchmarks\": []}").find("member 'duet' is missing: not a run file"),
            std::string::npos);
  EXPECT_NE(error_of("{\"duet\": {\"schema\": 1, \"x\": 1e999}}").find("not JSON"), std::string::npos);
}

TEST(ReportsRun, EveryTruncationIsAnError) {
  const std::string text = make_document(softmax_pair()).dump();
  for (size_t length = 0; length < text.size(); length += 97)
    EXPECT_NE(error_of(text.substr(0, length)).find("the file ends too early"), std::string::npos) << length;
}

TEST(ReportsRun, RefusesANewerSchema) {
  EXPECT_EQ(error_after([](Json& duet) { duet["schema"] = 2; }),
            ": duet.schema: 2 is newer than the 1 that this program reads");
  EXPECT_NE(error_after([](Json& duet) { duet["schema"] = "1"; }), "accepted");
}

TEST(ReportsRun, NamesTheMemberAndWhatIsAllowed) {
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][1]["status"] = "okay"; }),
            ": duet.jobs[1].status: \"okay\" is not one of ok, skipped, failed");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["device"] = "tpu"; }),
            ": duet.jobs[0].device: \"tpu\" is not one of cpu, gpu");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0].erase("case"); }), ": duet.jobs[0]: member 'case' is missing");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["series"][1]["summary"]["median_s"] = 0; }),
            ": duet.jobs[0].series[1].summary.median_s: 0 is not a number above 0");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["series"][0]["repetitions"][2]["samples_s"][1] = nullptr; }),
            ": duet.jobs[0].series[0].repetitions[2].samples_s[1]: null is not a number");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["series"][0]["threads"] = 1.5; }),
            ": duet.jobs[0].series[0].threads: 1.5 is not an integer of at least 1");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["series"] = Json::array(); }),
            ": duet.jobs[0].series: a job that is ok has at least one series");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][0]["status"] = "skipped"; }),
            ": duet.jobs[0]: member 'reason' is missing");
  EXPECT_EQ(error_after([](Json& d) { d["jobs"][1]["name"] = d["jobs"][0]["name"]; }),
            ": duet.jobs[1].name: \"softmax/cpu.tuned/f32/rows:64\" stands twice: job names are unique");
  EXPECT_EQ(error_after([](Json& d) { d["ceilings"][0]["unit"] = "GB/s"; }),
            ": duet.ceilings[0].unit: \"GB/s\" is not one of B/s, FLOP/s, OP/s, s");
  EXPECT_EQ(error_after([](Json& d) { d["run"].erase("complete"); }), ": duet.run: member 'complete' is missing");
}

TEST(ReportsRun, MissingFileAndFolderAreErrors) {
  const Scratch scratch;
  EXPECT_THROW(load_run((scratch / "none.json").string()), RunError);
  EXPECT_THROW(load_run(fs::temp_directory_path().string()), RunError);
}

TEST(ReportsRun, SurvivesDeepNesting) {
  EXPECT_EQ(error_of(std::string(200000, '[')), ": nested deeper than 64 levels");
  const std::string good = make_document(softmax_pair()).dump();
  const auto with = [&](const std::string& member) {
    return std::string(good).insert(good.find("\"schema\""), member);
  };
  EXPECT_EQ(error_of(with("\"deep\":" + std::string(100000, '[') + std::string(100000, ']') + ",")),
            ": nested deeper than 64 levels");
  EXPECT_EQ(error_of(with("\"text\":\"\\\"" + std::string(100000, '[') + "\",")), "accepted");
}

struct Journal {
  Journal() {
    Json document = make_document({});
    document["duet"]["run"]["complete"] = false;
    text = Json{{"duet_journal", 1}, {"document", document}}.dump() + "\n";
    for (const Json& job : softmax_pair()) text += Json{{"job", job}}.dump() + "\n";
  }
  std::string text;
};

TEST(ReportsRun, ReadsAJournal) {
  const auto run = load_run(Scratch().write("r.json", Journal().text));
  EXPECT_EQ(run.jobs.size(), 2u);
  EXPECT_FALSE(run.complete);
  ASSERT_EQ(run.warnings.size(), 1u);
  EXPECT_NE(run.warnings[0].find("2 jobs had finished"), std::string::npos);
}

TEST(ReportsRun, IgnoresACutLastLineOfAJournalWithANote) {
  const std::string text = Journal().text;
  const size_t last_line = text.rfind('\n', text.size() - 2) + 1;
  for (size_t length = last_line + 1; length < text.size() - 1; length += 131) {
    const auto run = load_run(Scratch().write("r.json", text.substr(0, length)));
    EXPECT_EQ(run.jobs.size(), 1u);
    ASSERT_EQ(run.warnings.size(), 2u);
    EXPECT_EQ(run.warnings[1], "the journal's last line is cut and was ignored");
  }
  const auto whole =
      load_run(Scratch().write("r.json", text.substr(0, text.size() - 1)));  // only the newline is missing
  EXPECT_EQ(whole.jobs.size(), 2u);
}

TEST(ReportsRun, RefusesADamagedJournal) {
  std::string text = Journal().text;
  std::string damaged = text;
  damaged.replace(text.find("{\"job\""), 6, "{\"job ");  // not the last line
  EXPECT_NE(error_of(damaged).find(", line 2: not JSON"), std::string::npos);
  EXPECT_NE(error_of(text + "17\n").find(", line 4: 17 is not an object"), std::string::npos);
  EXPECT_NE(error_of(text + "{\"job\": {\"name\": 3}}\n").find("duet.jobs[2].name: 3 is not a string"),
            std::string::npos);
  EXPECT_NE(error_of(text.substr(0, text.find('\n') - 5)).find("the file ends too early"), std::string::npos);
  text.replace(text.find("\"duet_journal\":1"), 16, "\"duet_journal\":2");
  EXPECT_NE(error_of(text).find("duet_journal: 2 is newer"), std::string::npos);
}

TEST(ReportsRun, AJournalOfNoJobsIsARun) {
  const std::string text = Journal().text;
  EXPECT_EQ(load_run(Scratch().write("r.json", text.substr(0, text.find('\n') + 1))).jobs.size(), 0u);
}

}  // namespace
}  // namespace duet::reports::testing
