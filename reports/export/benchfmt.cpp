// SPDX-License-Identifier: Apache-2.0
// Go's benchmark format (golang.org/design/14313-benchmark-format), which benchstat reads:
//
//   cpu: AMD EPYC
//   BenchmarkSoftmax/impl=cpu.tuned/dtype=f32/rows=64/scope=call/cache=warm-4  300  990000 ns/op
//
// One line a process where the run had several, else one a repetition: benchstat takes lines of one name for
// independent values. The number after the last hyphen is that of threads, as Go's GOMAXPROCS.
#include <fmt/format.h>

#include <cstdint>

#include "reports/export/export.h"
#include "results/rules.h"

namespace duet::reports {
namespace {

// A name has no space, and '%' marks what was replaced. Other bytes above 0x7f may be spaces of Unicode: Go's readers
// split at those as well.
std::string name_part(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code <= 0x20 || code >= 0x7f || c == '%')
      safe += fmt::format("%{:02x}", code);
    else
      safe += c;
  }
  return safe;
}

// "Softmax/impl=cpu.tuned/dtype=f32/rows=64" from "softmax/cpu.tuned/f32/rows:64".
std::string job_part(const results::Job& job) {
  std::string rest = job.name, start;
  const std::string usual = fmt::format("{}/{}/{}", job.op, job.impl, job.dtype);
  if (rest == usual || rest.starts_with(usual + "/")) {
    start = fmt::format("{}/impl={}/dtype={}", job.op, job.impl, job.dtype);
    rest = rest.substr(usual.size());
  }
  bool first = true;  // colon of its part
  for (char& c : rest) {
    if (c == '/')
      first = true;
    else if (c == ':' && first) {
      c = '=';
      first = false;
    }
  }
  std::string name = name_part(start + rest);
  // "Benchmark" is followed by an upper-case letter.
  if (!name.empty() && name[0] >= 'a' && name[0] <= 'z')
    name[0] = static_cast<char>(name[0] - 'a' + 'A');
  else if (name.empty() || name[0] < 'A' || name[0] > 'Z')
    name = "X" + name;
  return name;
}

}  // namespace

std::string benchfmt_text(const results::Run& run) {
  // benchstat compares only lines with equal keys: what differs from run to run stands in comments.
  std::string text = fmt::format("# duet run {}, {}, commit {}\n", visible(run.invocation.id),
                                 visible(run.invocation.started_at), visible(run.build.git_sha));
  text += fmt::format("cpu: {}\n", visible(run.machine.cpu.name));
  if (run.machine.gpu) text += fmt::format("gpu: {}\n", visible(run.machine.gpu->name));
  for (const auto& [job, series, name] : exported_series(run)) {
    const std::string full = fmt::format("Benchmark{}/scope={}/cache={}-{}", job_part(*job), name_of(series->scope),
                                         name_of(series->cache), series->threads);
    int64_t iterations = 0;
    if (__builtin_mul_overflow(series->iterations, series->batch, &iterations)) iterations = INT64_MAX;
    for (const double value_s : results::counted_medians(series->repetitions))
      text += fmt::format("{} {} {} ns/op\n", full, iterations, value_s * 1e9);
  }
  return text;
}

}  // namespace duet::reports
