// SPDX-License-Identifier: Apache-2.0
#include "cli/compare.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <future>
#include <memory>

#include "cli/exit_status.h"
#include "cli/text_output.h"
#include "core/command_line.h"
#include "reports/compare/compare.h"
#include "reports/render.h"

namespace duet {

int run_compare(const CompareOptions& options) {
  using namespace reports;
  require_one_to_stdout({{"--json", options.json}, {"--markdown", options.markdown}});
  const Metric metric = options.metric == "speedup" ? Metric::speedup : Metric::time;
  // At once: of a comparison of large files nearly all the time goes into reading them.
  auto reading = std::async(std::launch::async, [&] { return load_measured(options.base, metric); });
  const MeasuredRun head = load_measured(options.head, metric);
  const MeasuredRun base = reading.get();
  CompareRule rule;
  rule.floor = options.threshold / 100;
  Comparison comparison;
  try {
    comparison = compare_runs(base, head, rule, options.allowed);
  } catch (const NotComparable& e) {
    fmt::print(stderr, "duet: {}\n", one_line(e.what()));
    return kIncomparable;
  }
  const bool table = options.json != "-" && options.markdown != "-";
  write_text(options.json, [&] { return comparison_json(comparison); });
  write_text(options.markdown, [&] { return render_markdown(comparison_document(comparison)); });
  if (table) fmt::print("{}", comparison_text(comparison, options.all));
  const bool lost = comparison.count(Verdict::error) + comparison.count(Verdict::missing) > 0;
  if (options.fail_on_slower && lost) return kLost;
  if (comparison.compared() == 0) return kIncomparable;
  if (!options.fail_on_slower) return 0;
  return comparison.count(Verdict::slower) > 0 ? kFailed : 0;
}

void add_compare(CLI::App& app) {
  const auto o = std::make_shared<CompareOptions>();
  CLI::App* compare = app.add_subcommand(
      "compare", "compare two runs row by row: run files of bench_all, or JSON of any Google Benchmark program");
  compare->add_option("BASE", o->base, "the run to compare with")->required();
  compare->add_option("HEAD", o->head, "the run that is compared with it")->required();
  compare
      ->add_option("--metric", o->metric, "time; or speedup: of the best GPU implementation over the best of the CPU")
      ->check(CLI::IsMember({"time", "speedup"}));
  compare->add_option("--threshold", o->threshold, "smallest shift that counts, in per cent (default 3)")
      ->check([](const std::string& text) {
        double value = 0;
        return CLI::detail::lexical_cast(text, value) && value > 0 && value <= 1000
                   ? std::string()
                   : fmt::format("{} is not a number above 0 and up to 1000", text);
      });
  compare
      ->add_option("--allow", o->allowed,
                   "compare although this differs: a key such as build.flags, a group (machine state build settings "
                   "context), or all; repeatable, or with commas")
      ->delimiter(',')
      ->expected(1)
      ->take_all();
  compare->add_option("--json", o->json, "write the comparison here as JSON; '-': to standard output");
  compare->add_option("--markdown", o->markdown, "write it here as Markdown; '-': to standard output");
  compare->add_flag("--all", o->all, "print every row, those without a change too");
  compare->add_flag("--fail-on-slower", o->fail_on_slower,
                    "exit with status 1 where a row is SLOWER, 3 where one is lost");
  compare->footer(
      "Verdicts: SLOWER, FASTER, SAME, AMBIGUOUS (a shift that the data neither prove nor rule out), NEW, MISSING, "
      "ERROR. Exit status: 0 compared; 4 unlike machines, builds or settings, or no row on both sides; 2 a file or "
      "option that cannot be used; 5 an error of this program or its environment, such as a full disk; with "
      "--fail-on-slower also 3 (ERROR or MISSING; it goes before 4) and 1 (SLOWER).");
  compare->callback([o] {
    if (const int status = run_compare(*o); status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace duet
