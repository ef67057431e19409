// SPDX-License-Identifier: Apache-2.0
// A synthetic run file for the tests of reports/. No number in it is a measurement.
#pragma once
#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#include "reports/run.h"

namespace duet::reports::testing {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// Medians spread by 1 % round `time_s`, five repetitions unless said otherwise.
inline Json make_series(const std::string& scope, double time_s, double fraction, int threads = 1,
                        const std::string& cache = "warm", int repetitions = 5) {
  Json list = Json::array();
  for (int i = 0; i < repetitions; ++i) {
    const double t = time_s * (1 + 0.005 * (i - repetitions / 2));
    list.push_back({{"order", i}, {"samples_s", {t, t, t}}, {"foreign_cpu", 0.01}, {"flags", Json::array()}});
  }
  return {{"scope", scope},
          {"cache", cache},
          {"threads", threads},
          {"batch", 1},
          {"iterations", 10},
          {"repetitions", list},
          {"summary",
           {{"median_s", time_s},
            {"lo_s", 0.99 * time_s},
            {"hi_s", 1.01 * time_s},
            {"interval", "min-max"},
            {"min_s", 0.98 * time_s}}},
          {"roof", {{"bound", "memory"}, {"ceiling", threads > 1 ? "cpu.copy" : "gpu.copy"}, {"fraction", fraction}}},
          {"flags", Json::array()}};
}

// "softmax/cpu.tuned/f32/rows:64"; its case is the name without the implementation.
inline Json make_job(const std::string& name, std::vector<Json> series) {
  const size_t op = name.find('/'), impl = name.find('/', op + 1), dtype = name.find('/', impl + 1);
  const std::string implementation = name.substr(op + 1, impl - op - 1);
  return {{"name", name},
          {"op", name.substr(0, op)},
          {"case", name.substr(0, op) + name.substr(impl)},
          {"impl", implementation},
          {"device", implementation.starts_with("cuda") ? "gpu" : "cpu"},
          {"dtype", name.substr(impl + 1, dtype - impl - 1)},
          {"family", "norm"},
          {"formula", "y = f(x)"},
          {"params", {{"rows", 64}}},
          {"flops", 1e6},
          {"bytes", 1e6},
          {"footprint_bytes", 1e6},
          {"status", "ok"},
          {"plan", {{"threads", 4}, {"isa", "avx2"}, {"algorithm", ""}, {"create_s", 1e-3}}},
          {"check", {{"max_error_ratio", 0.25}, {"slices", 24}, {"elements", 4096}}},
          {"series", series}};
}

inline Json make_missing(const std::string& name, const std::string& status, const std::string& reason) {
  Json job = make_job(name, {});
  job["status"] = status;
  job["reason"] = reason;
  job["check"] = nullptr;
  return job;
}

inline Json make_document(std::vector<Json> jobs) {
  const auto ceiling = [](const char* name, const char* device, double value, const char* unit, double footprint,
                          int threads) {
    return Json{
        {"name", name},      {"device", device}, {"value", value}, {"unit", unit}, {"footprint_bytes", footprint},
        {"threads", threads}};
  };
  return {
      {"context", {{"date", "2026-01-01"}, {"num_cpus", 4}, {"mhz_per_cpu", 2000}, {"library_build_type", "release"}}},
      {"benchmarks", Json::array()},
      {"duet",
       {{"schema", 1},
        {"run", {{"id", "r1"}, {"started_at", "2026-01-01"}, {"seed", 1}, {"argv", {"bench_all"}}, {"complete", true}}},
        {"build",
         {{"git_sha", "abc"},
          {"git_dirty", false},
          {"type", "Release"},
          {"compiler", "g++"},
          {"libraries", {{"openblas", "0.3"}}}}},
        {"machine", {{"fingerprint", "f"}, {"cpu", {{"name", "a CPU"}, {"cores", 4}}}, {"gpu", {{"name", "a GPU"}}}}},
        {"state", {{"governor", "performance"}}},
        {"ceilings",
         {ceiling("cpu.copy", "cpu", 2e10, "B/s", 1e6, 4), ceiling("cpu.copy", "cpu", 1e10, "B/s", 1e9, 4),
          ceiling("cpu.copy", "cpu", 5e9, "B/s", 1e9, 1), ceiling("cpu.fma.f32", "cpu", 1e11, "FLOP/s", 0, 4),
          ceiling("gpu.copy", "gpu", 1e12, "B/s", 1e9, 1), ceiling("gpu.fma.f32", "gpu", 1e13, "FLOP/s", 0, 1)}},
        {"jobs", jobs}}}};
}

// One case on both sides: 1 ms on 4 CPU threads, 3 ms on one; GPU kernel 10 us, call 20 us, end to end 2 ms.
inline std::vector<Json> softmax_pair() {
  return {
      make_job("softmax/cpu.tuned/f32/rows:64", {make_series("call", 1e-3, 0.8, 4), make_series("call", 3e-3, 0.9, 1)}),
      make_job("softmax/cuda.tuned/f32/rows:64", {make_series("kernel", 1e-5, 0.9), make_series("call", 2e-5, 0.45),
                                                  make_series("end_to_end", 2e-3, 0.005)})};
}

// A folder of its own, removed at the end.
class Scratch {
 public:
  Scratch() {
    static std::atomic<int> count = 0;
    folder_ = fs::temp_directory_path() / ("duet_reports_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    fs::create_directories(folder_);
  }
  ~Scratch() { fs::remove_all(folder_); }
  fs::path operator/(const std::string& name) const { return folder_ / name; }
  std::string write(const std::string& name, const char* text) const { return write(name, std::string(text)); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  std::string write(const std::string& name, const Json& document) const {
    return write(name, std::string(document.dump(1)));
  }

 private:
  fs::path folder_;
};

inline std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline Run load(const Json& document) { return load_run(Scratch().write("run.json", document)); }

inline size_t count_in(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

}  // namespace duet::reports::testing
