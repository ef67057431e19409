// SPDX-License-Identifier: Apache-2.0
#include "bench/run_file.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/roof.h"
#include "bench/sweeps.h"
#include "core/build_info.h"
#include "core/cpu_context.h"
#include "core/error.h"
#include "core/gpu.h"
#include "core/machine.h"
#include "core/atomic_file.h"
#include "reports/statistics.h"

namespace duet::bench {
namespace {

const char* name_of(Status s) { return s == Status::ok ? "ok" : s == Status::skipped ? "skipped" : "failed"; }

Json value_json(const AttributeValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

Json base_json(const BenchCase& c, const std::string& name, const std::string& implementation,
               const std::string& device) {
  Json params = Json::object();
  for (const Attribute& a : c.params)
    if (a.name != "dtype" && (a.dimension || !a.is_default)) params[a.name] = value_json(a.value);
  return {{"name", name},
          {"op", c.op},
          {"case", c.name()},
          {"family", c.family},
          {"formula", c.formula},
          {"why", c.why},
          {"impl", implementation},
          {"device", device},
          {"dtype", c.math == "ieee" ? c.dtype : c.dtype + "/" + c.math},
          {"params", params},
          {"flops", c.flops},
          {"bytes", static_cast<double>(c.bytes)},
          {"footprint_bytes", c.footprint_bytes},
          {"pattern", c.pattern}};
}

Json series_json(const Series& s) {
  Json repetitions = Json::array();
  for (const Repetition& r : s.repetitions)
    repetitions.push_back(
        {{"order", r.order}, {"samples_s", r.samples_s}, {"foreign_cpu", r.foreign_cores}, {"flags", r.flags}});
  return {{"scope", name_of(s.scope)},
          {"cache", name_of(s.cache)},
          {"threads", s.threads},
          {"batch", s.counts.batch},
          {"iterations", s.counts.samples},
          {"first_call_s", s.first_call_s},
          {"repetitions", repetitions},
          {"summary",
           {{"median_s", s.summary.median_s},
            {"lo_s", s.summary.lo_s},
            {"hi_s", s.summary.hi_s},
            {"interval", s.summary.interval},
            {"min_s", s.summary.min_s}}},
          {"roof", nullptr},
          {"flags", s.flags}};
}

// One row a repetition and the median, as Google Benchmark writes them; a job without a time is an error row.
void append_rows(const Json& job, Json& rows) {
  const std::string name = job["name"];
  for (const Json& s : job["series"]) {
    const std::string run_name = fmt::format("{}/{}/{}/threads:{}", name, s["scope"].get<std::string>(),
                                             s["cache"].get<std::string>(), s["threads"].get<int>());
    std::vector<double> medians_us;
    for (const Json& r : s["repetitions"])
      medians_us.push_back(reports::median(r["samples_s"].get<std::vector<double>>()) * 1e6);
    const auto row = [&](const std::string& suffix, double us) {
      return Json{{"name", run_name + suffix},
                  {"run_name", run_name},
                  {"run_type", suffix.empty() ? "iteration" : "aggregate"},
                  {"repetitions", medians_us.size()},
                  {"threads", 1},
                  {"iterations", s["iterations"]},
                  {"real_time", us},
                  {"cpu_time", us},
                  {"time_unit", "us"},
                  {"bytes_per_second", job["bytes"].get<double>() / (us * 1e-6)},
                  {"flop_per_second", job["flops"].get<double>() / (us * 1e-6)}};
    };
    for (size_t i = 0; i < medians_us.size(); ++i) {
      rows.push_back(row("", medians_us[i]));
      rows.back()["repetition_index"] = i;
    }
    rows.push_back(row("_median", s["summary"]["median_s"].get<double>() * 1e6));
    rows.back()["aggregate_name"] = "median";
    rows.back()["aggregate_unit"] = "time";
  }
  if (job["series"].empty())
    rows.push_back({{"name", name},
                    {"run_name", name},
                    {"run_type", "iteration"},
                    {"repetitions", 1},
                    {"repetition_index", 0},
                    {"threads", 1},
                    {"iterations", 0},
                    {"real_time", 0.0},
                    {"cpu_time", 0.0},
                    {"time_unit", "us"},
                    {"error_occurred", true},
                    {"error_message", job["status"].get<std::string>() + ": " + job["reason"].get<std::string>()}});
}

// What decides which jobs run and how.
Json selection_json(const Options& o) {
  return {{"scale", name_of(o.size)},
          {"filter", o.filter},
          {"implementations", o.implementations},
          {"dtypes", o.dtypes},
          {"scopes", o.scopes},
          {"cpu", o.cpu},
          {"gpu", o.gpu},
          {"repetitions", o.repetitions_or_default()},
          {"budget_s", o.budget_s()}};
}

Json gpu_json(Context* gpu) {
  GpuInfo info;
  try {
    if (!gpu || !gpu_info(*gpu, info)) return nullptr;
  } catch (const std::exception&) {  // a GPU lost on the way does not cost the result; its jobs carry the reason
    return nullptr;
  }
  return {{"name", info.name},         {"sm", info.sm},         {"memory_bytes", info.memory_bytes},
          {"l2_bytes", info.l2_bytes}, {"driver", info.driver}, {"runtime", info.runtime},
          {"cublas", info.cublas},     {"cudnn", info.cudnn}};
}

Json machine_json(const MachineInfo& m, Context* gpu) {
  auto inputs = m.fingerprint_inputs();
  const Json device = gpu_json(gpu);
  if (!device.is_null()) {
    inputs.emplace_back("gpu", device["name"]);
    inputs.emplace_back("sm", device["sm"]);
  }
  return {{"fingerprint", fingerprint(inputs)},
          {"cpu", {{"name", m.cpu_model}, {"cores", m.cores}, {"isa", simd_target()}, {"extensions", m.isa}}},
          {"ram_bytes", m.ram_bytes},
          {"kernel", m.kernel},
          {"virtual_machine", m.virtual_machine},
          {"gpu", device}};
}

std::string built_at() {  // of this program's file: tells two builds of uncommitted changes apart
  std::error_code ignored;
  const auto time = std::filesystem::last_write_time("/proc/self/exe", ignored);
  return fmt::format("{}", std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count());
}

Json build_json() {
  const BuildInfo& b = build_info();
  Json libraries = Json::object();
  for (const BuildLibrary& l : b.libraries)
    libraries[l.name] = std::string(l.version) + (*l.variant ? std::string(" ") + l.variant : "");
  for (const auto& [name, version] : gpu_build_versions()) libraries[name] = version;
  return {{"git_sha", b.git_sha},
          {"git_dirty", b.git_dirty},
          {"type", b.type},
          {"built_at", built_at()},
          {"compiler", b.compiler},
          {"flags", b.flags},
          {"cuda", *b.cuda_compiler ? b.cuda_compiler : "none"},
          {"cuda_architectures", b.cuda_architectures},
          {"libraries", libraries}};
}

Json state_json(const MachineState& s) {
  return {{"governor", s.governor},
          {"turbo", s.turbo},
          {"thp", s.thp},
          {"aslr", s.aslr},
          {"smt", s.smt},
          {"affinity", s.affinity},
          {"cpu_quota", s.cpu_quota ? Json(*s.cpu_quota) : Json("unlimited")},
          {"load", s.load},
          {"denormals", "flushed to zero in every worker"}};
}

}  // namespace

void require_finite(const Json& json, const std::string& where) {
  if (json.is_number_float() && !std::isfinite(json.get<double>()))
    throw Error("{}: a number that is not finite", where);
  if (json.is_structured())
    for (const auto& [key, value] : json.items()) require_finite(value, where + "/" + key);
}

Json job_json(const BenchCase& c, const JobRecord& job) {
  Json j = base_json(c, job.name, job.implementation, job.device);
  j["status"] = name_of(job.status);
  if (job.status != Status::ok) j["reason"] = job.reason;
  if (job.status == Status::failed) j["repro"] = job.repro;
  j["check"] = nullptr;
  if (job.check)
    j["check"] = {{"max_error_ratio",
                   std::isfinite(job.check->max_error_ratio) ? Json(job.check->max_error_ratio) : Json(nullptr)},
                  {"slices", job.check->slices},
                  {"elements", job.check->elements}};
  j["plan"] = {{"threads", job.threads},
               {"isa", job.isa},
               {"algorithm", job.algorithm},
               {"workspace_bytes", job.workspace_bytes},
               {"create_s", job.create_s}};
  j["series"] = Json::array();
  for (const Series& s : job.series) j["series"].push_back(series_json(s));
  require_finite(j, job.name);
  return j;
}

void hold_against(const std::vector<Ceiling>& ceilings, Json& job) {
  constexpr double kSuspect = 1.03;   // above its roof by more than a ceiling's own spread
  constexpr double kWeakCpu = 0.4;    // below this share of its roof a CPU says little about a GPU
  constexpr double kFloorFactor = 3;  // a kernel shorter than this many empty kernels
  const std::string device = job["device"], precision = job["dtype"];
  const std::string dtype = precision.substr(0, precision.find('/'));
  const std::string math = dtype == precision ? "ieee" : precision.substr(dtype.size() + 1);
  double empty_kernel_s = 0;
  for (const Ceiling& c : ceilings)
    if (c.name == "gpu.empty_kernel") empty_kernel_s = c.value;
  for (Json& s : job["series"]) {
    const double median_s = s["summary"]["median_s"];
    std::vector<std::string> flags = s["flags"];
    std::erase_if(flags, [](const std::string& f) { return f == "suspect" || f == "weak_cpu" || f == "floor"; });
    s["roof"] = nullptr;
    if (s["scope"] != "end_to_end") {  // that scope is limited by the link between host and device, not by the device
      if (const auto roof = roof_of(ceilings, device, dtype, math, s["threads"], job["pattern"], job["footprint_bytes"],
                                    s["cache"] == "cold", job["flops"], job["bytes"], median_s)) {
        s["roof"] = {
            {"bound", roof->bound}, {"ceiling", roof->ceiling}, {"value", roof->value}, {"fraction", roof->fraction}};
        if (roof->fraction > kSuspect) flags.emplace_back("suspect");
        if (device == "cpu" && roof->fraction < kWeakCpu) flags.emplace_back("weak_cpu");
      }
    }
    if (s["scope"] == "kernel" && median_s < kFloorFactor * empty_kernel_s) flags.emplace_back("floor");
    s["flags"] = flags;
  }
}

Json skipped_json(const BenchCase& c, const Side& side, const std::string& reason) {
  Json j = base_json(c, side.job, side.implementation, side.device == Device::cpu ? "cpu" : "gpu");
  j["status"] = "skipped";
  j["reason"] = reason;
  j["check"] = nullptr;
  j["series"] = Json::array();
  return j;
}

Json failed_json(const BenchCase& c, const Side& side, const std::string& reason) {
  Json j = skipped_json(c, side, reason);
  j["status"] = "failed";
  j["repro"] = c.repro(side);
  return j;
}

Json step_json(const JobRecord& job) {
  const StepRecord& s = *job.step;
  Json phases = Json::object(), parts = Json::object(), implementations = Json::object();
  double sum = 0;
  for (const auto& [name, time_s] : s.phases_s) phases[name] = time_s;
  for (const auto& [name, time_s] : s.parts_s) {
    parts[name] = (parts.contains(name) ? parts[name].get<double>() : 0.0) + time_s;
    sum += time_s;
  }
  for (const auto& [op, implementation] : s.implementations) implementations[op] = implementation;
  // Parts are timed by the wall clock, so the whole is too: the call with most threads, which comes first.
  const auto call = std::find_if(job.series.begin(), job.series.end(),
                                 [](const Series& series) { return series.scope == Scope::call; });
  const double step_s = call->summary.median_s;
  Json j{{"job", job.name},
         {"step_s", step_s},
         {"phases_s", phases},
         {"parts_s", parts},
         {"residual_s", step_s - sum},
         {"memory_peak", s.memory_peak_bytes},
         {"samples", s.samples},
         {"tokens", s.tokens > 0 ? Json(s.tokens) : Json(nullptr)},
         {"implementations", implementations}};
  require_finite(j, job.name);
  return j;
}

Json document(const RunFacts& facts, const std::vector<Json>& jobs, const std::vector<Json>& steps) {
  const MachineInfo machine = read_machine();
  const MachineState state = read_machine_state();
  Json caches = Json::array();
  for (const CpuCache& c : machine.caches)
    caches.push_back({{"type", c.type}, {"level", c.level}, {"size", c.bytes}, {"num_sharing", c.shared_by}});
  Json rows = Json::array();
  for (const Json& job : jobs) append_rows(job, rows);
  Json ceilings = Json::array();
  for (const Ceiling& c : facts.ceilings)
    ceilings.push_back({{"name", c.name},
                        {"device", c.device},
                        {"pattern", c.pattern},
                        {"dtype", c.dtype},
                        {"threads", c.threads},
                        {"footprint_bytes", c.footprint_bytes},
                        {"value", c.value},
                        {"unit", c.unit},
                        {"samples", c.samples}});
  Json run{{"id", facts.id},
           {"started_at", facts.started_at},
           {"seed", facts.options->seed},
           {"argv", facts.options->argv},
           {"scale", name_of(facts.options->size)},
           {"selection", selection_json(*facts.options)},
           {"threads", facts.threads},
           {"process", 0},
           {"wall_s", facts.wall_s},
           {"harness_overhead_s", facts.overhead_s},
           {"complete", facts.complete},
           {"warnings", facts.warnings}};
  if (!facts.gpu) run["no_gpu"] = facts.no_gpu;
  Json doc{{"context",
            {{"date", facts.started_at},
             {"host_name", machine.host_name},
             {"executable", "bench_all"},
             {"num_cpus", machine.cores},
             {"mhz_per_cpu", 0},
             {"cpu_scaling_enabled", state.governor != kUnavailable && state.governor != "performance"},
             {"caches", caches},
             {"load_avg", state.load},
             {"library_build_type", std::string(build_info().type) == "Debug" ? "debug" : "release"}}},
           {"benchmarks", rows},
           {"duet",
            {{"schema", 1},
             {"run", run},
             {"build", build_json()},
             {"machine", machine_json(machine, facts.gpu)},
             {"state", state_json(state)},
             {"ceilings", ceilings},
             {"jobs", jobs},
             {"steps", steps},
             {"sweeps", sweeps_of(jobs)}}}};
  require_finite(doc, "run file");
  return doc;
}

Json listing(const Cases& cases) {
  Json all = Json::array();
  for (const auto& c : cases)
    for (const Side& s : c->sides) {
      all.push_back(base_json(*c, s.job, s.implementation, s.device == Device::cpu ? "cpu" : "gpu"));
      if (!s.missing.empty()) all.back()["missing"] = s.missing;
    }
  return all;
}

void make_folder_of(const std::string& path) {
  std::error_code ignored;
  if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder, ignored);
}

void write_run_file(const std::string& path, const Json& json) {
  make_folder_of(path);
  const std::string text = json.dump(1) + "\n";
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

}  // namespace duet::bench
