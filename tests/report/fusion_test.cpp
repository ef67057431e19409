// SPDX-License-Identifier: Apache-2.0
// What fusion buys: which rows are compared, the ratios, and the section.
#include <gtest/gtest.h>

#include "reports/analysis.h"
#include "reports/render.h"
#include "reports/sections.h"
#include "tests/results/fixture.h"

namespace duet::reports {
namespace {

using results::testing::make_job;
using results::testing::make_run;
using results::testing::make_series;

Job call_of(const std::string& name, double time_s, Cache cache = Cache::warm) {
  return make_job(name, {make_series(Scope::call, time_s, 0.5, 4, cache)});
}

// Keeps the run alive beside the analysis that points into it.
struct Analysed {
  explicit Analysed(std::vector<Job> jobs) : run(make_run(std::move(jobs))), result(analyse(run)) {}
  Analysed(const Analysed&) = delete;
  std::string markdown() const { return render_markdown(make_document(run, result, {})); }
  std::string html() const { return render_html(make_document(run, result, {})); }
  results::Run run;
  Analysis result;
};

const std::string kSmall = "/f32/rows:64/cols:768", kLarge = "/f32/rows:8192/cols:768";

TEST(Fusion, DividesTheTimeOfSeparateOpsByThatOfTheFusedOne) {
  const Analysed a(
      {call_of("add_layernorm/cpu.tuned" + kSmall, 1e-3), call_of("add_layernorm/cpu.unfused" + kSmall, 2e-3),
       call_of("add_layernorm/cpu.onednn" + kSmall, 5e-4), call_of("add_layernorm/cuda.naive" + kSmall, 3e-4),
       call_of("add_layernorm/cuda.tuned" + kSmall, 1e-4), call_of("add_layernorm/cuda.unfused" + kSmall, 1.5e-4)});
  ASSERT_EQ(a.result.fusions.size(), 2u);
  const FusionRow &cpu = a.result.fusions[0], &gpu = a.result.fusions[1];
  EXPECT_EQ(cpu.unfused.job->impl, "cpu.unfused");
  EXPECT_EQ(cpu.fastest.job->impl, "cpu.onednn");
  ASSERT_TRUE(cpu.tuned && cpu.ratio);
  EXPECT_EQ(cpu.tuned->job->impl, "cpu.tuned");
  EXPECT_NEAR(cpu.ratio->value, 2, 0.02);
  EXPECT_NEAR(cpu.fastest_ratio.value, 4, 0.04);
  EXPECT_EQ(cpu.ratio->label, "95 %");
  EXPECT_LT(cpu.ratio->lo, cpu.ratio->value);
  EXPECT_GT(cpu.ratio->hi, cpu.ratio->value);
  EXPECT_EQ(gpu.unfused.job->impl, "cuda.unfused");
  EXPECT_EQ(gpu.fastest.job->impl, "cuda.tuned");
  EXPECT_NEAR(gpu.fastest_ratio.value, 1.5, 0.02);
}

// The columns of the fastest one are there where a row fills them.
TEST(Fusion, NamesTheFastestWhereItIsAnother) {
  std::vector<Job> jobs{call_of("add_layernorm/cpu.tuned" + kSmall, 1e-3),
                        call_of("add_layernorm/cpu.unfused" + kSmall, 2e-3)};
  EXPECT_EQ(Analysed(jobs).markdown().find("fused, fastest"), std::string::npos);
  jobs.push_back(call_of("add_layernorm/cpu.onednn" + kSmall, 5e-4));
  const std::string page = Analysed(jobs).markdown();
  const size_t row = page.find("| CPU | 2.00 ms | 1.00 ms | 2.00×<br>");
  ASSERT_NE(row, std::string::npos) << page;
  EXPECT_NE(page.substr(row, page.find('\n', row) - row).find("| cpu.onednn | 500 µs | 4.00×<br>"), std::string::npos)
      << page.substr(row, 200);
}

TEST(Fusion, HasAGeometricMeanOfEachOpAndSide) {
  const Analysed a(
      {call_of("add_layernorm/cpu.tuned" + kSmall, 1e-3), call_of("add_layernorm/cpu.unfused" + kSmall, 1e-3),
       call_of("add_layernorm/cpu.tuned" + kLarge, 1e-3), call_of("add_layernorm/cpu.unfused" + kLarge, 4e-3),
       call_of("add_rmsnorm/cpu.tuned" + kSmall, 2e-3), call_of("add_rmsnorm/cpu.unfused" + kSmall, 1e-3)});
  ASSERT_EQ(a.result.fusion_totals.size(), 2u);
  EXPECT_EQ(a.result.fusion_totals[0].op, "add_layernorm");
  EXPECT_EQ(a.result.fusion_totals[0].ratios.size(), 2u);
  EXPECT_NEAR(a.result.fusion_totals[0].geometric_mean, 2, 0.02);
  EXPECT_NEAR(a.result.fusion_totals[1].geometric_mean, 0.5, 0.01);
  const char* const sentence =
      "In the geometric mean separate ops take 2.00× the time of add_layernorm on the CPU (2 cases), 0.50× the time "
      "of add_rmsnorm on the CPU (1 case).";
  EXPECT_NE(a.markdown().find("What fusion buys"), std::string::npos);
  EXPECT_NE(a.markdown().find("1.00×, level"), std::string::npos);
  for (const std::string& page : {a.markdown(), a.html()}) {
    std::string text = page;
    for (size_t at = 0; (at = text.find('\\', at)) != text.npos;) text.erase(at, 1);  // Markdown escapes _
    EXPECT_NE(text.find(sentence), std::string::npos) << text.substr(text.find("geometric mean"), 300);
  }
}

TEST(Fusion, ComparesOneCacheState) {
  std::vector<Job> jobs{call_of("add_layernorm/cpu.tuned" + kSmall, 1e-3),
                        call_of("add_layernorm/cpu.unfused" + kSmall, 3e-3)};
  jobs[0].series.push_back(make_series(Scope::call, 2e-3, 0.5, 4, Cache::cold));
  EXPECT_NEAR(Analysed(jobs).result.fusions.at(0).fastest_ratio.value, 3, 0.03);
  jobs[1].series[0].cache = Cache::cold;
  EXPECT_NEAR(Analysed(jobs).result.fusions.at(0).fastest_ratio.value, 1.5, 0.02);
}

TEST(Fusion, IsAbsentWithoutAComparablePair) {
  const Analysed alone({call_of("add_layernorm/cpu.tuned" + kSmall, 1e-3),
                        call_of("add_layernorm/cpu.unfused" + kLarge, 2e-3),
                        call_of("add_layernorm/cuda.unfused" + kSmall, 2e-3)});
  EXPECT_TRUE(alone.result.fusions.empty());
  EXPECT_EQ(alone.markdown().find("What fusion buys"), std::string::npos);
  std::vector<Job> jobs{call_of("add_layernorm/cpu.tuned" + kSmall, 1e-3),
                        call_of("add_layernorm/cpu.unfused" + kSmall, 2e-3)};
  jobs[1].check->max_error_ratio = 2;
  results::testing::decide(jobs[1]);
  EXPECT_TRUE(Analysed(jobs).result.fusions.empty());
}

// Its parts are our own code. It is the CPU's side where it is the fastest, and no library that beats cpu.tuned.
TEST(Fusion, SeparateOpsAreOurOwnCode) {
  const Analysed a({call_of("add_layernorm/cpu.tuned" + kSmall, 2e-3),
                    call_of("add_layernorm/cpu.unfused" + kSmall, 1e-3),
                    call_of("add_layernorm/cuda.tuned" + kSmall, 1e-4)});
  EXPECT_TRUE(a.result.beaten.empty());
  EXPECT_EQ(a.result.speedups.at(0).cpu.job->impl, "cpu.unfused");
}

}  // namespace
}  // namespace duet::reports
