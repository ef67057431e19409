// SPDX-License-Identifier: Apache-2.0
// The table that `duet report --console` prints.
#include <fmt/format.h>

#include <algorithm>

#include "reports/answer.h"
#include "reports/format.h"
#include "reports/render.h"
#include "reports/report.h"

namespace duet::reports {
namespace {

constexpr const char* kSlower = "others: × its time";

std::string clean(const Cell& cell) {
  std::string text;
  for (const Span& span : cell.text) text += span.text;
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';  // no escape sequences from a file to a terminal
  return text;
}

std::string padded(const std::string& text, size_t width, bool right) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return right ? space + text : text + space;
}

// "cpu.openblas 1.31×, cuda.naive 12.0×": the time of each over that of the fastest on its side.
std::string slower_text(const std::vector<SlowerJob>& slower) {
  std::string text;
  for (const SlowerJob& other : slower)
    text += (text.empty() ? "" : ", ") + impl_text(*other.job) + " " + times(other.factor);
  return text.empty() ? "-" : text;
}

Table speedups(const Analysis& analysis) {
  Table table{.caption = {},
              .columns = {{"case"},
                          {"cache"},
                          {"CPU"},
                          {"call", true},
                          {"of roof", true},
                          {"GPU"},
                          {"call", true},
                          {"of roof", true},
                          {"× kernel", true},
                          {"× call", true},
                          {"× end to end", true},
                          {"interval of × call"},
                          {kSlower}},
              .rows = {}};
  for (const SpeedupRow& row : analysis.speedups) {
    const auto ratio = [&](Scope scope) {
      const auto& found = row.ratio[static_cast<size_t>(scope)];
      return cell(found ? times(found->value) + marks_text(row) : "-");
    };
    const Interval& call = *row.ratio[static_cast<size_t>(Scope::call)];
    table.rows.push_back(
        {cell(case_text(row.case_name)), cell(cache_text(row)),
         cell(impl_text(*row.cpu.job) + ", " + threads_text(row.cpu)), cell(seconds(row.cpu.call->summary.median_s)),
         cell(roof_text(*row.cpu.call)), cell(impl_text(*row.gpu.job)), cell(seconds(row.gpu.call->summary.median_s)),
         cell(roof_text(*row.gpu.device_time())), ratio(Scope::kernel), ratio(Scope::call), ratio(Scope::end_to_end),
         cell(fmt::format("{} to {} ({})", significant(call.lo), significant(call.hi), call.label)),
         cell(slower_text(row.slower))});
  }
  return table;
}

Table one_sided(const Analysis& analysis, bool with_reason) {
  Table table{
      .caption = {},
      .columns =
          {{"case"}, {"cache"}, {"implementation"}, {"threads", true}, {"call", true}, {"of roof", true}, {kSlower}},
      .rows = {}};
  if (with_reason) table.columns.push_back({"no ratio, since"});
  for (const OneSidedRow& row : analysis.one_sided) {
    const Series& call = *row.choice.call;
    table.rows.push_back({cell(case_text(row.case_name)), cell(to_text(call.cache)), cell(impl_text(*row.choice.job)),
                          cell(fmt::format("{}", call.threads)), cell(seconds(call.summary.median_s)),
                          cell(roof_text(*row.choice.device_time()) + (row.weak_cpu ? "*" : "")),
                          cell(slower_text(row.slower))});
    if (with_reason) table.rows.back().push_back(cell(row.no_ratio_reason));
  }
  return table;
}

// The table, and below it what is the same in every row.
std::string with_constants(Table table) {
  state_constant_columns(table, {"cache", "threads"});
  std::string out = render_text(table);
  if (!table.caption.empty()) out += clean({table.caption, {}}) + "\n";
  return out;
}

// What stands in no table, with the reason: failed, suspect and excluded rows, not those that this machine skips.
std::string left_out(const Analysis& analysis) {
  constexpr size_t kMax = 20;
  std::string out;
  size_t rows = 0;
  for (const MissingGroup& group : analysis.missing) {
    if (group.status == "skipped") continue;
    for (const std::string& job : group.jobs)
      if (rows++ < kMax) out += fmt::format("{}: {}: {}\n", group.status, clean(cell(job)), clean(cell(group.reason)));
  }
  if (rows > kMax) out += fmt::format("and {} more, which the report lists\n", rows - kMax);
  return out;
}

// Of how many series it is known whether other work ran beside them. The doubts of a disturbed run say it, too.
std::string checked_for_contention(const results::Run& run) {
  const results::ContentionChecked checked = results::count_contention_checked(run.jobs);
  if (checked.all == 0 || run.invocation.trust != results::Trust::trustworthy) return "";
  return fmt::format("; {} of {} series on the CPU could be checked for other work", checked.checked, checked.all);
}

std::string verdict(const Analysis& analysis) {
  const auto count = [&](Status status) {
    const auto found = analysis.count.find(status);
    return found == analysis.count.end() ? size_t{0} : found->second;
  };
  return fmt::format("{} measured, {} skipped, {} failed, {} suspect\n", count(Status::ok), count(Status::skipped),
                     count(Status::failed), analysis.suspect_jobs);
}

// Breaks lines between words. A longer word stands alone.
std::string wrapped(const std::string& text, size_t columns) {
  std::string out, line;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && width_of(line) + 1 + width_of(word) > columns) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return out + line + "\n";
}

}  // namespace

std::string render_text(const Table& table) {
  std::vector<size_t> widths;
  for (const Column& column : table.columns) widths.push_back(width_of(column.title));
  for (const auto& row : table.rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(clean(row[i])));
  std::string out;
  const auto add = [&](size_t i, const std::string& text) {
    const bool last = i + 1 == table.columns.size();
    out += last && !table.columns[i].number ? text : padded(text, widths[i], table.columns[i].number);
    out += last ? "\n" : "  ";
  };
  for (size_t i = 0; i < table.columns.size(); ++i) add(i, table.columns[i].title);
  for (const auto& row : table.rows)
    for (size_t i = 0; i < row.size(); ++i) add(i, clean(row[i]));
  return out;
}

std::string console_table(const Run& run) {
  const Analysis analysis = analyse(run);
  std::string out;
  bool star = false, dagger = false;
  for (const SpeedupRow& row : analysis.speedups) {
    star |= row.weak_cpu;
    dagger |= row.contested;
  }
  for (const OneSidedRow& row : analysis.one_sided) star |= row.weak_cpu;
  if (!analysis.gpu_measured) {
    if (!analysis.one_sided.empty()) out += with_constants(one_sided(analysis, false));
    out += "GPU: not measured (" + clean(cell(analysis.no_gpu_reason)) + ")\n";
  } else {
    out += analysis.speedups.empty() ? "No case has a verified and plausible result on both sides.\n"
                                     : with_constants(speedups(analysis));
    if (!analysis.one_sided.empty()) out += "\n" + with_constants(one_sided(analysis, true));
  }
  if (star) out += fmt::format("* the CPU is below {:.0f} % of its own roof\n", 100 * results::kWeakFraction);
  if (out.find(" (run)") != std::string::npos) out += "(run) by ceilings of the run, not by a probe beside the row\n";
  if (dagger) out += "† a suspect job claims to be faster than one of the two\n";
  out += mark_lines(out);
  out += left_out(analysis) + verdict(analysis);
  out += std::string("state: ") + name_of(run.invocation.trust) + checked_for_contention(run) + "\n";
  for (const std::string& doubt : run.invocation.doubts) out += "  " + clean(cell(doubt)) + "\n";
  constexpr size_t kColumns = 100;
  for (const Study& study : analysis.studies)
    if (!study.sentence.empty()) out += wrapped(clean(cell(study.name + ": " + study.sentence)), kColumns);
  out += "\n" + wrapped(clean(cell(answer(run, analysis).text())), kColumns);
  return out;
}

}  // namespace duet::reports
