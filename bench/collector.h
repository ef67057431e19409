// SPDX-License-Identifier: Apache-2.0
// Silences Google Benchmark's own output: rows, progress and JSON come from our series, which keep every sample.
#pragma once
#include <benchmark/benchmark.h>

namespace duet::bench {

class Collector final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<benchmark::BenchmarkReporter::Run>&) override {}
};

}  // namespace duet::bench
