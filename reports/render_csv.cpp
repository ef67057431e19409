// SPDX-License-Identifier: Apache-2.0
// The run as one CSV table: a line for each series, and one for each job that has none.
#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "reports/counters.h"
#include "reports/format.h"
#include "reports/render.h"

namespace duet::reports {
namespace {

constexpr const char* kHeader =
    "job,op,family,case,why,impl,machine,device,dtype,status,comparable,reason,repro,scope,cache,threads,batch,"
    "iterations,repetitions,median_s,lo_s,hi_s,interval,min_s,flops,bytes,footprint_bytes,flop_per_s,byte_per_s,bound,"
    "ceiling,ceiling_value,roof_fraction,roof_source,flags,max_error_ratio,slices,elements,isa,algorithm,"
    "workspace_bytes,create_s,first_call_s,p50_s,p90_s,p99_s,counted_applications,counter_window_s,"
    "counted_instructions,counted_cycles,counted_bytes,counted_cpu_energy_j,counted_dram_energy_j,counted_gpu_energy_j";

class Line {
 public:
  // A spreadsheet takes text that begins like this for a formula: an apostrophe before it says that it is text. Of
  // control characters only line ends and tabs stay, within quotes.
  Line& text(const std::string& value) {
    std::string safe =
        !value.empty() && std::string_view("=+-@\t\r\n").find(value[0]) != std::string_view::npos ? "'" : "";
    for (const char c : value) {
      const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f;
      safe += c == '"' ? "\"\"" : std::string(1, control ? ' ' : c);
    }
    const bool quote = value.find_first_of(",\"\r\n\t") != std::string::npos;
    return add(quote ? "\"" + safe + "\"" : safe);
  }
  Line& number(double value) { return add(fmt::format("{:.9g}", value)); }
  Line& number(std::optional<double> value) { return value ? number(*value) : add(""); }
  Line& number(int64_t value) { return add(fmt::format("{}", value)); }
  Line& nothing(int columns) {
    for (int i = 0; i < columns; ++i) add("");
    return *this;
  }
  std::string end() const { return line_ + "\r\n"; }

 private:
  Line& add(const std::string& field) {
    if (!first_) line_ += ',';
    first_ = false;
    line_ += field;
    return *this;
  }
  std::string line_;
  bool first_ = true;
};

void series_fields(Line& line, const Job& job, const Series& s) {
  std::string flags;
  for (const std::string& flag : s.flags) flags += (flags.empty() ? "" : " ") + flag;
  line.text(name_of(s.scope)).text(name_of(s.cache)).number(s.threads).number(s.batch);
  line.number(s.iterations).number(static_cast<int64_t>(s.repetitions.size()));
  line.number(s.summary.median_s).number(s.summary.lo_s).number(s.summary.hi_s).text(s.summary.interval);
  line.number(s.summary.min_s).number(job.flops).number(job.bytes).number(job.footprint_bytes);
  line.number(flop_per_s(job, s)).number(byte_per_s(job, s));
  if (s.roof)
    line.text(name_of(s.roof->bound))
        .text(s.roof->ceiling)
        .number(s.roof->value)
        .number(s.roof->fraction)
        .text(name_of(s.roof->source));
  else
    line.nothing(5);
  line.text(flags);
}

// Of one application, on the line of the series in whose circumstances it was counted.
void counter_fields(Line& line, const Job& job, const Series* series) {
  constexpr Quantity kColumns[] = {Quantity::instructions, Quantity::cycles,        Quantity::bytes,
                                   Quantity::cpu_energy_j, Quantity::dram_energy_j, Quantity::gpu_energy_j};
  const auto& c = job.counters;
  if (!c || !c->window || !series || c->scope != series->scope || c->cache != series->cache ||
      c->threads != series->threads) {
    line.nothing(2 + static_cast<int>(std::size(kColumns)));
    return;
  }
  line.number(c->window->applications).number(c->window->time_s);
  for (const Quantity quantity : kColumns) line.number(c->value_of(quantity));
}

std::string job_line(const Job& job, const Series* series) {
  Line line;
  line.text(job.name)
      .text(job.op)
      .text(job.family)
      .text(job.case_name)
      .text(job.why)
      .text(job.impl)
      .text(job.machine)
      .text(name_of(job.device));
  line.text(job.dtype).text(name_of(job.status)).text(job.comparable ? "yes" : "no").text(job.reason).text(job.repro);
  if (series)
    series_fields(line, job, *series);
  else
    line.nothing(11).number(job.flops).number(job.bytes).number(job.footprint_bytes).nothing(8);
  if (job.check)
    line.number(job.check->max_error_ratio).number(job.check->slices).number(job.check->elements);
  else
    line.nothing(3);
  if (job.plan)
    line.text(job.plan->isa).text(job.plan->algorithm).number(job.plan->workspace_bytes).number(job.plan->create_s);
  else
    line.nothing(4);
  line.number(series ? std::optional(series->first_call_s) : std::nullopt);
  const auto percentiles = series ? percentiles_of(*series) : std::nullopt;
  if (percentiles)
    line.number(percentiles->p50_s).number(percentiles->p90_s).number(percentiles->p99_s);
  else
    line.nothing(3);
  counter_fields(line, job, series);
  return line.end();
}

}  // namespace

std::string render_csv(const Run& run) {
  std::string out = std::string(kHeader) + "\r\n";
  for (const Job& job : run.jobs) {
    if (job.series.empty()) out += job_line(job, nullptr);
    for (const Series& series : job.series) out += job_line(job, &series);
  }
  return out;
}

}  // namespace duet::reports
