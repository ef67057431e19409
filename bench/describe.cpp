// SPDX-License-Identifier: Apache-2.0
#include "bench/describe.h"

#include <benchmark/benchmark.h>
#include <fmt/chrono.h>

#include <cmath>
#include <filesystem>

#include "core/build_info.h"
#include "core/cpu_context.h"
#include "core/gpu.h"
#include "core/machine.h"

namespace duet::bench {
namespace {

std::string built_at() {  // of this program's file
  std::error_code error;
  const auto written = std::filesystem::last_write_time("/proc/self/exe", error);
  if (error) return kUnavailable;
  const auto seconds = std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::file_clock::to_sys(written));
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)));
}

std::optional<results::Gpu> describe_gpu(Context* gpu) {
  GpuInfo info;
  try {
    if (!gpu || !gpu_info(*gpu, info)) return std::nullopt;
  } catch (const std::exception&) {  // a GPU that was lost does not cost the result; its jobs hold the reason
    return std::nullopt;
  }
  return results::Gpu{info.name,   info.sm,      info.memory_bytes, info.l2_bytes,
                      info.driver, info.runtime, info.cublas,       info.cudnn};
}

}  // namespace

results::Build describe_build() {
  const BuildInfo& b = build_info();
  results::Build build{.git_sha = b.git_sha,
                       .git_dirty = b.git_dirty,
                       .type = b.type,
                       .built_at = built_at(),
                       .compiler = b.compiler,
                       .flags = b.flags,
                       .cuda = b.cuda_compiler,
                       .cuda_architectures = b.cuda_architectures,
                       .libraries = gpu_build_versions()};
  for (const BuildLibrary& l : b.libraries)
    build.libraries.emplace_back(l.name, std::string(l.version) + (*l.variant ? std::string(" ") + l.variant : ""));
  return build;
}

results::Machine describe_machine(Context* gpu) {
  const MachineInfo m = read_machine();
  results::Machine machine{.fingerprint = {},
                           .cpu = {m.cpu_model, m.cores, simd_target(), m.isa},
                           .ram_bytes = m.ram_bytes,
                           .kernel = m.kernel,
                           .virtual_machine = m.virtual_machine,
                           .gpu = describe_gpu(gpu)};
  auto inputs = m.fingerprint_inputs();
  if (machine.gpu) {
    inputs.emplace_back("gpu", machine.gpu->name);
    inputs.emplace_back("sm", machine.gpu->sm);
  }
  machine.fingerprint = fingerprint(inputs);
  return machine;
}

results::State describe_state() {
  const MachineState s = read_machine_state();
  return {s.governor, s.turbo, s.thp, s.aslr, s.smt, s.affinity, s.cpu_quota, usable_threads(s)};
}

results::BenchmarkContext describe_context(const std::string& date) {
  const benchmark::CPUInfo& cpu = benchmark::CPUInfo::Get();
  results::BenchmarkContext context{
      .date = date,
      .host_name = benchmark::SystemInfo::Get().name,
      .executable = "bench_all",
      .num_cpus = cpu.num_cpus,
      .mhz_per_cpu = std::lround(cpu.cycles_per_second * 1e-6),
      .cpu_scaling_enabled = cpu.scaling == benchmark::CPUInfo::ENABLED,
      .caches = {},
      .load_avg = cpu.load_avg,
      .library_build_type = std::string(build_info().type) == "Debug" ? "debug" : "release"};
  for (const auto& c : cpu.caches) context.caches.push_back({c.type, c.level, c.size, c.num_sharing});
  return context;
}

results::Selection describe_selection(const Options& o) {
  // --resume refuses a journal of other cases.
  std::vector<std::string> cases;
  for (const NamedCase& c : o.cases) cases.push_back(c.op + " " + c.text);
  return {.scale = o.cases.empty() ? name_of(o.preset) : "case",
          .filter = o.filter,
          .exclude = o.exclude,
          .cases = std::move(cases),
          .implementations = o.implementations,
          .dtypes = o.dtypes,
          .scopes = o.scopes,
          .cpu = o.cpu,
          .gpu = o.gpu,
          .repetitions = o.repetitions_or_default(),
          .budget_s = o.budget_s()};
}

results::JobDescription describe_job(const BenchCase& c, const Side& side) {
  results::JobDescription job{.name = side.job,
                              .op = c.op,
                              .case_name = c.name(),
                              .family = c.family,
                              .formula = c.formula,
                              .why = c.why,
                              .impl = side.implementation,
                              .device = side.device == Device::cpu ? results::Device::cpu : results::Device::gpu,
                              .dtype = c.math == "ieee" ? c.dtype : c.dtype + "/" + c.math,
                              .params = {},
                              .flops = c.flops,
                              .bytes = c.bytes,
                              .footprint_bytes = c.footprint_bytes,
                              .pattern = (side.device == Device::cpu ? c.cpu_roof : c.gpu_roof) ? c.pattern : ""};
  for (const Attribute& a : c.params)
    if (a.name != "dtype" && (a.dimension || !a.is_default)) job.params.emplace_back(a.name, a.value);
  return job;
}

results::Job job_without_result(const BenchCase& c, const Side& side, results::Status status,
                                const std::string& reason) {
  results::Job job;
  static_cast<results::JobDescription&>(job) = describe_job(c, side);
  job.status = status;
  job.reason = reason;
  if (status == results::Status::failed) job.repro = c.repro(side);
  return job;
}

std::vector<results::ListedJob> describe_jobs(const Cases& cases) {
  std::vector<results::ListedJob> jobs;
  for (const auto& c : cases)
    for (const Side& side : c->sides) jobs.push_back({describe_job(*c, side), side.unavailable_reason});
  return jobs;
}

}  // namespace duet::bench
