// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "reports/render.h"

namespace duet::reports {
namespace {

constexpr const char* kHeader =
    "job,op,family,case,impl,device,dtype,status,reason,in_ratios,scope,cache,threads,batch,iterations,repetitions,"
    "median_s,lo_s,hi_s,interval,min_s,flops,bytes,footprint_bytes,flop_per_s,byte_per_s,bound,ceiling,ceiling_value,"
    "roof_fraction,flags,max_error_ratio,slices,elements,isa,algorithm,workspace_bytes,create_s,first_call_s";

class Line {
 public:
  Line& text(const std::string& value) {
    const bool quote = value.find_first_of(",\"\r\n") != std::string::npos;
    std::string safe;
    for (const char c : value) safe += c == '"' ? "\"\"" : std::string(1, c);
    return add(quote ? "\"" + safe + "\"" : safe);
  }
  Line& number(double value) { return add(fmt::format("{:.9g}", value)); }
  Line& number(std::optional<double> value) { return value ? number(*value) : add(""); }
  Line& number(std::optional<int64_t> value) { return add(value ? fmt::format("{}", *value) : ""); }
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

std::string device_name(Device device) { return device == Device::cpu ? "cpu" : "gpu"; }
std::string scope_name(Scope scope) { return scope == Scope::end_to_end ? "end_to_end" : to_text(scope); }

void series_fields(Line& line, const Job& job, const Series& s) {
  std::string flags;
  for (const std::string& flag : s.flags) flags += (flags.empty() ? "" : " ") + flag;
  line.text(scope_name(s.scope)).text(to_text(s.cache)).number(std::optional(s.threads)).number(std::optional(s.batch));
  line.number(std::optional(s.iterations)).number(std::optional(static_cast<int64_t>(s.repetitions.size())));
  line.number(s.summary.median_s).number(s.summary.lo_s).number(s.summary.hi_s).text(s.summary.interval);
  line.number(s.summary.min_s).number(job.flops).number(job.bytes).number(job.footprint_bytes);
  line.number(job.flops / s.summary.median_s).number(job.bytes / s.summary.median_s);
  if (s.roof)
    line.text(to_text(s.roof->bound)).text(s.roof->ceiling).number(s.roof->value).number(s.roof->fraction);
  else
    line.nothing(4);
  line.text(flags);
}

std::string job_line(const Job& job, const Series* series) {
  Line line;
  const std::string refused = refusal(job).empty() ? suspicion(job) : refusal(job);
  line.text(job.name).text(job.op).text(job.family).text(job.case_name).text(job.impl).text(device_name(job.device));
  line.text(job.dtype).text(to_text(job.status)).text(refused).text(refused.empty() ? "yes" : "no");
  if (series)
    series_fields(line, job, *series);
  else
    line.nothing(11).number(job.flops).number(job.bytes).number(job.footprint_bytes).nothing(7);
  const Check check = job.check.value_or(Check{});
  line.number(check.max_error_ratio).number(check.slices).number(check.elements);
  line.text(job.plan.isa).text(job.plan.algorithm).number(job.plan.workspace_bytes).number(job.plan.create_s);
  line.number(series && series->first_call_s ? series->first_call_s : job.plan.first_call_s);
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
