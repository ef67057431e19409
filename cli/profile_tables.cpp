// SPDX-License-Identifier: Apache-2.0
#include "cli/profile_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/regular_file.h"

namespace duet::profile {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 30;

// "1,234.5" and "1234.5", as ncu and nsys write numbers.
std::optional<double> number(std::string text) {
  std::erase(text, ',');
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

double required_number(const Csv& csv, const std::vector<std::string>& row, const std::string& column,
                       const std::string& file) {
  const std::optional<double> value = number(row[csv.column(column)]);
  if (!value) throw Error("{}: '{}' in column '{}' is not a number", file, row[csv.column(column)], column);
  return *value;
}

// Fields of a line, in quotes where they hold commas or quotes; `line` may go on in the next lines of the stream.
std::vector<std::string> fields_of(std::string line, std::istream& more) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0;; ++i) {
    if (i == line.size()) {
      if (std::string next; quoted && std::getline(more, next)) {
        line += "\n" + next;
      } else {
        return fields;
      }
    }
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c != '\r' || quoted) {
      fields.back() += c;
    }
  }
}

}  // namespace

std::string read_text(const std::string& path) {
  RegularFile file(path, kMaxBytes);
  std::string text(static_cast<size_t>(file.bytes), '\0');
  file.read(text.data(), file.bytes);
  return text;
}

size_t Csv::column(const std::string& name) const {
  return static_cast<size_t>(std::find(header.begin(), header.end(), name) - header.begin());
}

Csv parse_csv(const std::string& text, const std::vector<std::string>& required, const std::string& file,
              bool short_rows) {
  std::istringstream lines(text);
  Csv csv;
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> fields = fields_of(line, lines);
    if (csv.header.empty()) {
      const bool is_header = std::all_of(required.begin(), required.end(), [&](const std::string& name) {
        return std::find(fields.begin(), fields.end(), name) != fields.end();
      });
      if (is_header) csv.header = std::move(fields);
    } else if (fields.size() == csv.header.size() ||
               (short_rows && fields.size() < csv.header.size() && fields.size() > csv.column(required.back()))) {
      fields.resize(csv.header.size());
      csv.rows.push_back(std::move(fields));
    } else if (!csv.rows.empty()) {
      break;  // the end of the table: another one or a message follows
    }
  }
  if (csv.header.empty()) throw Error("{}: has no table with a column '{}'", file, required.front());
  return csv;
}

// --- nsys

std::vector<GpuRange> parse_nsys_ranges(const std::string& text, const std::string& file) {
  const Csv csv = parse_csv(text, {"Range", "Total Proj Time (ns)", "Range Instances"}, file);
  const bool has_host = csv.column("Total Range Time (ns)") < csv.header.size();
  const bool has_operations = csv.column("Total GPU Ops") < csv.header.size();
  std::vector<GpuRange> ranges;
  for (const auto& row : csv.rows) {
    GpuRange r;
    const std::string& name = row[csv.column("Range")];  // "domain:name", and ":name" of the default domain
    const size_t colon = name.find(':');
    r.domain = colon == name.npos ? "" : name.substr(0, colon);
    r.name = colon == name.npos ? name : name.substr(colon + 1);
    r.instances = static_cast<int64_t>(required_number(csv, row, "Range Instances", file));
    r.gpu_s = 1e-9 * required_number(csv, row, "Total Proj Time (ns)", file);
    if (has_host) r.host_s = 1e-9 * required_number(csv, row, "Total Range Time (ns)", file);
    if (has_operations) r.operations = required_number(csv, row, "Total GPU Ops", file);
    ranges.push_back(std::move(r));
  }
  return ranges;
}

std::vector<KernelTime> parse_nsys_kernels(const std::string& text, const std::string& file) {
  const Csv csv = parse_csv(text, {"Total Time (ns)", "Instances", "Name"}, file);
  std::vector<KernelTime> kernels;
  for (const auto& row : csv.rows)
    kernels.push_back({row[csv.column("Name")], static_cast<int64_t>(required_number(csv, row, "Instances", file)),
                       1e-9 * required_number(csv, row, "Total Time (ns)", file)});
  std::stable_sort(kernels.begin(), kernels.end(), [](auto& a, auto& b) { return a.total_s > b.total_s; });
  return kernels;
}

std::vector<CopyTime> parse_nsys_copies(const std::string& text, const std::string& file) {
  const Csv csv = parse_csv(text, {"Total Time (ns)", "Count", "Operation"}, file);
  std::vector<CopyTime> copies;
  for (const auto& row : csv.rows)
    copies.push_back({row[csv.column("Operation")], static_cast<int64_t>(required_number(csv, row, "Count", file)),
                      1e-9 * required_number(csv, row, "Total Time (ns)", file)});
  return copies;
}

Gaps parse_nsys_gaps(const std::string& text, const std::string& file) {
  const Csv csv = parse_csv(text, {"Start (ns)", "Duration (ns)", "Name"}, file);
  struct Operation {
    double begin_ns, end_ns;
    std::string name;
  };
  std::vector<Operation> operations;
  for (const auto& row : csv.rows) {
    const double begin_ns = required_number(csv, row, "Start (ns)", file);
    operations.push_back(
        {begin_ns, begin_ns + required_number(csv, row, "Duration (ns)", file), row[csv.column("Name")]});
  }
  std::sort(operations.begin(), operations.end(), [](auto& a, auto& b) { return a.begin_ns < b.begin_ns; });
  Gaps gaps;
  gaps.operations = static_cast<int64_t>(operations.size());
  if (operations.empty()) return gaps;
  double end_ns = operations.front().begin_ns, idle_ns = 0;
  for (const Operation& o : operations) {
    const double gap_ns = o.begin_ns - end_ns;
    if (gap_ns > 0) {
      ++gaps.gaps;
      idle_ns += gap_ns;
      if (1e-9 * gap_ns > gaps.longest_s) {
        gaps.longest_s = 1e-9 * gap_ns;
        gaps.longest_before = o.name;
      }
    }
    end_ns = std::max(end_ns, o.end_ns);
  }
  gaps.span_s = 1e-9 * (end_ns - operations.front().begin_ns);
  gaps.busy_s = gaps.span_s - 1e-9 * idle_ns;
  return gaps;
}

// --- ncu

const char* to_text(Limiter limiter) {
  switch (limiter) {
    case Limiter::memory:
      return "memory";
    case Limiter::compute:
      return "compute";
    case Limiter::latency:
      break;
  }
  return "latency";
}

Limiter KernelMetrics::limiter() const {
  constexpr double kLatencyBelow = 60;  // percent of both peaks
  if (std::max(memory, compute) < kLatencyBelow) return Limiter::latency;
  return memory >= compute ? Limiter::memory : Limiter::compute;
}

namespace {

// Of the units of --print-units base and auto.
double in_seconds(double value, const std::string& unit) {
  static const std::map<std::string, double> kUnits{{"second", 1},     {"s", 1},     {"msecond", 1e-3}, {"ms", 1e-3},
                                                    {"usecond", 1e-6}, {"us", 1e-6}, {"nsecond", 1e-9}, {"ns", 1e-9}};
  const auto at = kUnits.find(unit);
  return at == kUnits.end() ? 0 : value * at->second;
}

void take_metric(const std::string& name, const std::string& unit, const std::string& text, KernelMetrics& k) {
  const std::optional<double> value = number(text);
  if (!value) return;
  if (name == "Duration")
    k.duration_s = in_seconds(*value, unit);
  else if (name == "Memory Throughput" && unit == "%")  // MemoryWorkloadAnalysis has one in bytes per second
    k.memory = *value;
  else if (name == "Compute (SM) Throughput")
    k.compute = *value;
  else if (name == "DRAM Throughput")
    k.dram = *value;
  else if (name == "Achieved Occupancy")
    k.occupancy = *value;
  else
    k.other.emplace_back(name, text + (unit.empty() ? "" : " " + unit));
}

}  // namespace

std::vector<KernelMetrics> parse_ncu(const std::string& text, const std::string& file) {
  const Csv csv = parse_csv(text, {"ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value"}, file, true);
  const size_t rule = csv.column("Rule Description");
  std::vector<KernelMetrics> kernels;
  std::map<std::string, size_t> by_id;
  for (const auto& row : csv.rows) {
    const auto [at, is_new] = by_id.try_emplace(row[csv.column("ID")], kernels.size());
    if (is_new) kernels.emplace_back().kernel = row[csv.column("Kernel Name")];
    KernelMetrics& k = kernels[at->second];
    const std::string& name = row[csv.column("Metric Name")];
    if (!name.empty()) take_metric(name, row[csv.column("Metric Unit")], row[csv.column("Metric Value")], k);
    if (rule < row.size() && !row[rule].empty()) k.advice.push_back(row[rule]);
  }
  return kernels;
}

// --- functions

Functions parse_perf(const std::string& text, const std::string& file) {
  // "# Samples: 1K of event 'cpu-clock:u'", then lines of overhead, samples, module and symbol between tabs.
  Functions functions;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (const size_t event = line.find("of event '"); line.starts_with("# Samples:") && event != line.npos) {
      const size_t begin = event + 10;
      functions.unit = "samples of " + line.substr(begin, line.find('\'', begin) - begin);
    }
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> fields(1);
    for (const char c : line) {
      if (c == '\t')
        fields.emplace_back();
      else
        fields.back() += c;
    }
    for (std::string& field : fields) {
      field.erase(0, field.find_first_not_of(' '));
      field.erase(field.find_last_not_of(' ') + 1);
    }
    if (fields.size() < 4 || !fields[0].ends_with('%')) continue;
    const std::optional<double> percent = number(fields[0].substr(0, fields[0].size() - 1));
    const std::optional<double> samples = number(fields[1]);
    if (!percent || !samples) continue;
    std::string symbol = fields[3];
    if (symbol.starts_with("["))
      symbol.erase(0, std::min(symbol.size(), symbol.find(']') + 2));  // "[.] name": user mode
    functions.list.push_back({symbol, fields[2], *percent / 100});
    functions.total += static_cast<int64_t>(*samples);
  }
  if (functions.unit.empty()) throw Error("{}: is no table of perf report", file);
  std::stable_sort(functions.list.begin(), functions.list.end(), [](auto& a, auto& b) { return a.share > b.share; });
  return functions;
}

Functions parse_callgrind(const std::string& text, const std::string& file) {
  // "fn=(3) name" names a function and "fn=(3)" goes back to it, likewise "ob=" of its object. Then come lines of
  // positions and costs. A line after "calls=" has the costs of the called function, which count where that one stands.
  std::map<std::string, std::string> names[2];  // of functions, of objects; by number
  std::map<std::pair<std::string, std::string>, double> own;
  size_t positions = 1;
  std::string function, object;
  double total = 0;
  bool is_call = false, found = false;
  std::istringstream lines(text);
  const auto named = [&](const std::string& value, std::map<std::string, std::string>& known) {
    if (!value.starts_with('(')) return value;
    const size_t end = value.find(')');
    const std::string number = value.substr(0, end);
    if (end != value.npos && end + 2 < value.size()) known[number] = value.substr(end + 2);
    return known[number];
  };
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("positions:")) {
      positions = line.find("instr") != line.npos && line.find("line") != line.npos ? 2 : 1;
    } else if (line.starts_with("events:")) {
      found = line.find("Ir") != line.npos;
    } else if (line.starts_with("fn=")) {
      function = named(line.substr(3), names[0]);
    } else if (line.starts_with("ob=")) {
      object = named(line.substr(3), names[1]);
    } else if (line.starts_with("cfn=")) {
      named(line.substr(4), names[0]);
    } else if (line.starts_with("cob=")) {
      named(line.substr(4), names[1]);
    } else if (line.starts_with("calls=")) {
      is_call = true;
    } else if (!line.empty() && (std::isdigit(static_cast<unsigned char>(line[0])) || line[0] == '+' ||
                                 line[0] == '-' || line[0] == '*')) {
      if (std::exchange(is_call, false)) continue;
      std::istringstream words(line);
      std::string word;
      for (size_t i = 0; i <= positions; ++i) words >> word;
      if (const std::optional<double> cost = words ? number(word) : std::nullopt) {
        own[{function, object}] += *cost;
        total += *cost;
      }
    }
  }
  if (!found) throw Error("{}: counts no instructions of callgrind", file);
  Functions functions{.unit = "instructions", .total = static_cast<int64_t>(total), .list = {}};
  for (const auto& [key, cost] : own)
    functions.list.push_back({key.first, key.second.substr(key.second.rfind('/') + 1), total > 0 ? cost / total : 0});
  std::stable_sort(functions.list.begin(), functions.list.end(), [](auto& a, auto& b) { return a.share > b.share; });
  return functions;
}

// --- counters

std::vector<Counter> parse_perf_stat(const std::string& text, const std::string& file) {
  // "1234,,instructions:u,1000,100.00,,": count, unit, event, time it was counted in, share of the time, a metric.
  std::vector<Counter> counters;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> fields = fields_of(line, lines);
    if (fields.size() < 5) continue;
    Counter c{.event = fields[2].substr(0, fields[2].find(':')), .count = number(fields[0]), .unavailable_reason = ""};
    if (!c.count)
      c.unavailable_reason = fields[0] == "<not supported>" ? "this machine has no such counter, as most virtual ones"
                             : fields[0] == "<not counted>" ? "other programs use the counters"
                                                            : fields[0];
    counters.push_back(std::move(c));
  }
  if (counters.empty()) throw Error("{}: is no table of perf stat", file);
  return counters;
}

// --- the trace

Trace parse_trace(const std::string& text, const std::string& file) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("traceEvents") || !json["traceEvents"].is_array())
    throw Error("{}: is no trace of bench_all --trace", file);
  Trace trace;
  try {
    for (const nlohmann::json& event : json["traceEvents"]) {
      if (event.value("ph", "") != "X") continue;
      const nlohmann::json arguments = event.value("args", nlohmann::json::object());
      trace.ranges.push_back({.id = arguments.value("id", ""),
                              .category = event.value("cat", ""),
                              .process = event.value("pid", 0),
                              .thread = event.value("tid", 0),
                              .depth = arguments.value("depth", 0),
                              .begin_s = 1e-6 * event.value("ts", 0.0),
                              .time_s = 1e-6 * event.value("dur", 0.0),
                              .bytes = arguments.value("bytes", 0.0),
                              .flops = arguments.value("flops", 0.0),
                              .unfinished = arguments.contains("unfinished")});
    }
    if (json.contains("otherData")) trace.incomplete = json["otherData"].value("incomplete", "");
  } catch (const nlohmann::json::exception& e) {
    throw Error("{}: {}", file, e.what());
  }
  std::stable_sort(trace.ranges.begin(), trace.ranges.end(), [](const TraceRange& a, const TraceRange& b) {
    return std::tie(a.process, a.thread, a.begin_s, a.depth) < std::tie(b.process, b.thread, b.begin_s, b.depth);
  });
  return trace;
}

}  // namespace duet::profile
