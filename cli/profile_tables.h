// SPDX-License-Identifier: Apache-2.0
// Reads what profilers write, in the formats that their documentation gives: CSV of `nsys stats` and of `ncu --page
// details`, `perf report` separated by tabs, callgrind's output file, and the trace of the recorder (core/recorder.h).
// profile.cpp makes its summary of them. Each reader throws Error, which names the file, where the text is something
// else.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace duet::profile {

// A file's text, or Error.
std::string read_text(const std::string& path);

// --- any CSV: lines before the header are skipped, as profilers print some there

struct Csv {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  size_t column(const std::string& name) const;  // header.size() where there is none
};
// required: names of columns by which the header is found.
// short_rows: rows may end behind the last required column, as those of ncu without advice do.
Csv parse_csv(const std::string& text, const std::vector<std::string>& required, const std::string& file,
              bool short_rows = false);

// --- nsys stats --format csv

struct GpuRange {  // nvtx_gpu_proj_sum
  std::string domain, name;
  int64_t instances = 0;
  double gpu_s = 0;       // from the first to the last work on the GPU that the range started, added up
  double host_s = 0;      // of the range itself
  double operations = 0;  // kernels and copies
};
struct KernelTime {  // cuda_gpu_kern_sum
  std::string name;
  int64_t instances = 0;
  double total_s = 0;
};
struct CopyTime {  // cuda_gpu_mem_time_sum
  std::string name;
  int64_t count = 0;
  double total_s = 0;
};
// From the start and duration of each operation of the GPU (cuda_gpu_trace), over all streams.
struct Gaps {
  int64_t operations = 0, gaps = 0;
  double span_s = 0, busy_s = 0, longest_s = 0;
  std::string longest_before;  // the operation that follows the longest gap
};
std::vector<GpuRange> parse_nsys_ranges(const std::string& text, const std::string& file);
std::vector<KernelTime> parse_nsys_kernels(const std::string& text, const std::string& file);  // longest total first
std::vector<CopyTime> parse_nsys_copies(const std::string& text, const std::string& file);
Gaps parse_nsys_gaps(const std::string& text, const std::string& file);

// --- ncu --csv --page details --print-units base

enum class Limiter : uint8_t { memory, compute, latency };
const char* to_text(Limiter limiter);

struct KernelMetrics {
  std::string kernel;
  double duration_s = 0;
  // Of the peak, in percent; negative where the file does not have it.
  double memory = -1, compute = -1, dram = -1, occupancy = -1;
  std::vector<std::pair<std::string, std::string>> other;  // "L2 Hit Rate": "54.2 %"
  std::vector<std::string> advice;                         // of ncu's rules
  // Both far below the peak: the kernel waits. The threshold is that of ncu's own rule.
  Limiter limiter() const;
};
std::vector<KernelMetrics> parse_ncu(const std::string& text, const std::string& file);  // in the order of launches

// --- functions of the CPU

struct FunctionShare {
  std::string function, module;
  double share = 0;  // of all samples or instructions
};
struct Functions {
  std::string unit;  // "samples of cpu-clock:u", "instructions"
  int64_t total = 0;
  std::vector<FunctionShare> list;  // largest first
};
Functions parse_perf(const std::string& text, const std::string& file);
Functions parse_callgrind(const std::string& text, const std::string& file);

// --- perf stat --field-separator ,

struct Counter {
  std::string event;
  std::optional<double> count;     // none where it was not counted
  std::string unavailable_reason;  // then this says why
};
std::vector<Counter> parse_perf_stat(const std::string& text, const std::string& file);

// --- the recorder's trace

struct TraceRange {
  std::string id, category;
  int process = 0, thread = 0, depth = 0;
  double begin_s = 0, time_s = 0;
  double bytes = 0, flops = 0;
  bool unfinished = false;
};
struct Trace {
  std::vector<TraceRange> ranges;  // a range before those in it
  std::string incomplete;          // of which processes the recording was cut; empty: of none
};
Trace parse_trace(const std::string& text, const std::string& file);

}  // namespace duet::profile
