// SPDX-License-Identifier: Apache-2.0
// Our own CPU code beside the libraries: which rows are compared, the means, and the section.
#include <gtest/gtest.h>

#include <cmath>

#include "reports/analysis.h"
#include "reports/format.h"
#include "reports/render.h"
#include "reports/report.h"
#include "reports/sections.h"
#include "tests/results/fixture.h"

namespace duet::reports {
namespace {

using results::testing::make_job;
using results::testing::make_run;
using results::testing::make_series;

Job call_of(const std::string& name, double time_s) { return make_job(name, {make_series(Scope::call, time_s, 0.5)}); }

const std::string kSmall = "/f32/rows:64/cols:768", kLarge = "/f32/rows:8192/cols:768";

TEST(Libraries, AreDividedByTheFastestOfOurOwn) {
  const results::Run run =
      make_run({call_of("softmax/cpu.tuned" + kSmall, 1e-3), call_of("softmax/cpu.other" + kSmall, 2e-3),
                call_of("softmax/cpu.onednn" + kSmall, 4e-3), call_of("softmax/cpu.tuned" + kLarge, 2e-3),
                call_of("softmax/cpu.onednn" + kLarge, 1e-3), call_of("softmax/cpu.openblas" + kLarge, 1e-3),
                call_of("softmax/cuda.cudnn" + kLarge, 1e-5), call_of("layernorm/cpu.onednn" + kLarge, 1e-3)});
  const Analysis a = analyse(run);
  ASSERT_EQ(a.libraries.size(), 2u);
  EXPECT_EQ(a.libraries[0].library, "cpu.onednn");
  EXPECT_EQ(a.libraries[0].family, "norm");
  ASSERT_EQ(a.libraries[0].cases.size(), 2u);
  EXPECT_NEAR(a.libraries[0].cases[0].ratio, 0.5, 0.01);
  EXPECT_NEAR(a.libraries[0].cases[1].ratio, 4, 0.05);
  EXPECT_NEAR(a.libraries[0].geometric_mean, std::sqrt(2.0), 0.02);
  EXPECT_EQ(a.libraries[1].library, "cpu.openblas");
  EXPECT_NEAR(a.libraries[1].geometric_mean, 0.5, 0.01);

  const Document document = make_document(run, a, {});
  const std::string page = render_markdown(document);
  EXPECT_NE(page.find("Our CPU code beside libraries"), std::string::npos);
  EXPECT_NE(page.find("a library is faster than our own code in norm by cpu.openblas (0.50×)."), std::string::npos)
      << page.substr(page.find("Our CPU code"), 1500);
  EXPECT_NE(page.find("| 2 | 1.41× | 1 | softmax f32 rows:8192 cols:768 | 0.50× |"), std::string::npos)
      << page.substr(page.find("Our CPU code"), 1500);
  EXPECT_NE(render_html(document).find("Our CPU code beside libraries"), std::string::npos);
}

// A library that packs its weights before the clock may be the best of its side, and every table says so.
TEST(Libraries, ThatPrepareBeforeTheClockAreMarked) {
  std::vector<Job> jobs{call_of("softmax/cpu.tuned" + kSmall, 2e-3),
                        call_of("softmax/cpu.onednn_packed" + kSmall, 1e-3)};
  const auto page_of = [&](std::string algorithm) {
    jobs[1].plan.emplace().algorithm = std::move(algorithm);
    const results::Run run = make_run(jobs);
    const Analysis a = analyse(run);
    EXPECT_EQ(a.one_sided.at(0).choice.job->impl, "cpu.onednn_packed");
    EXPECT_EQ(a.libraries.at(0).library, "cpu.onednn_packed");
    return render_markdown(make_document(run, a, {})) + console_table(run);
  };
  const std::string page = page_of(std::string("brgemm; ") + results::kBeforeTheClock + "w");
  EXPECT_NE(page.find("cpu.onednn_packed§"), std::string::npos);
  EXPECT_NE(page.find(std::string("§ ") + kPreparedNote), std::string::npos) << page;
  EXPECT_NE(page.find(std::string("§ ") + kPreparedNote + "\n"), std::string::npos) << "the console's";
  EXPECT_EQ(page_of("brgemm").find("§"), std::string::npos);
}

// Nor does a table hide that a series was too short to see other processes.
TEST(Console, MarksSeriesThatWereTooShortToCheck) {
  std::vector<Job> jobs{call_of("softmax/cpu.tuned" + kSmall, 2e-3)};
  const auto page_of = [&](std::vector<std::string> flags) {
    jobs[0].series[0].flags = std::move(flags);
    const results::Run run = make_run(jobs);
    return std::pair{render_markdown(make_document(run, analyse(run), {})), console_table(run)};
  };
  const auto [page, console] = page_of({results::flag::kUnchecked});
  EXPECT_NE(page.find(std::string("° ") + kUncheckedNote), std::string::npos) << page;
  EXPECT_NE(console.find(std::string("° ") + kUncheckedNote + "\n"), std::string::npos) << console;
  const auto [checked_page, checked_console] = page_of({});
  EXPECT_EQ(checked_page.find("°"), std::string::npos) << checked_page;
  EXPECT_EQ(checked_console.find("°"), std::string::npos) << checked_console;
}

TEST(Libraries, AreAbsentWhereNoCaseHasBoth) {
  const results::Run run =
      make_run({call_of("softmax/cpu.tuned" + kSmall, 1e-3), call_of("softmax/cpu.onednn" + kLarge, 1e-3)});
  const Analysis a = analyse(run);
  EXPECT_TRUE(a.libraries.empty());
  EXPECT_EQ(render_markdown(make_document(run, a, {})).find("Our CPU code beside"), std::string::npos);
}

}  // namespace
}  // namespace duet::reports
