// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor.h"

#include <cblas.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tbb/version.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/circumstances.h"
#include "bench/meters.h"
#include "cli/devices.h"
#include "cli/exit_status.h"
#include "core/build_info.h"
#include "core/cpu_context.h"
#include "core/gpu.h"
#include "core/registry.h"
#include "reports/counters.h"

namespace duet {
namespace {

using Json = nlohmann::ordered_json;
using bench::Finding;
using Findings = std::vector<Finding>;

bool has_library(std::string_view name) {
  for (const BuildLibrary& l : build_info().libraries)
    if (name == l.name) return true;
  return false;
}

std::string in_units(int64_t bytes) {
  if (bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  return fmt::format("{} KiB", bytes >> 10);
}

Finding extension(const MachineInfo& m, const char* shown, std::initializer_list<const char*> bits) {
  std::vector<std::string> has;
  for (const char* bit : bits)
    if (m.has(bit)) has.emplace_back(bit);
  return {shown, has.empty() ? "no" : fmt::format("{}", fmt::join(has, " ")), ""};
}

void find_build(Findings& found) {
  const BuildInfo& b = build_info();
  found.push_back({"build",
                   fmt::format("{}, {}, commit {}{}", b.type, b.compiler, b.git_sha, b.git_dirty ? " (modified)" : ""),
                   ""});
  found.push_back({"flags", b.flags, ""});
  for (const BuildLibrary& l : b.libraries)
    found.push_back({l.name, fmt::format("{}{}", l.version, *l.variant ? fmt::format(" ({})", l.variant) : ""), ""});
  found.push_back({"OpenBLAS core", fmt::format("{}; {}", openblas_get_corename(), openblas_get_config()), ""});
  found.push_back({"oneTBB at run time", TBB_runtime_version(), ""});
}

void find_machine(const MachineInfo& m, const MachineState& s, Findings& found) {
  found.push_back({"CPU",
                   fmt::format("{}, {} logical CPUs{}", m.cpu_model, m.cores,
                               m.virtual_machine ? " (virtual machine: cache sizes as it reports them)" : ""),
                   ""});
  found.push_back({"SIMD", simd_target(), ""});
  found.push_back(extension(m, "AVX-512 BF16", {"avx512_bf16"}));
  found.push_back(extension(m, "AMX", {"amx_tile", "amx_bf16", "amx_int8"}));
  std::vector<std::string> caches;
  for (const CpuCache& c : m.caches)
    if (c.type != "Instruction")
      caches.push_back(fmt::format("L{} {} (shared by {})", c.level, in_units(c.bytes), c.shared_by));
  found.push_back({"caches", caches.empty() ? kUnavailable : fmt::format("{}", fmt::join(caches, ", ")), ""});
  found.push_back({"memory",
                   fmt::format("{:.1f} GB, {:.1f} GB available", static_cast<double>(m.ram_bytes) * 1e-9,
                               static_cast<double>(s.available_bytes) * 1e-9),
                   ""});
  found.push_back({"kernel", m.kernel, ""});
  found.push_back({"governor", s.governor, ""});
  found.push_back({"turbo", s.turbo, ""});
  found.push_back({"SMT", s.smt, ""});
  found.push_back({"huge pages", s.thp, ""});
  found.push_back({"affinity", s.affinity, ""});
  found.push_back({"usable threads", fmt::format("{}: what affinity and quota leave", usable_threads(s)), ""});
  found.push_back({"cpu quota", s.cpu_quota ? fmt::format("{:.3g} cores", *s.cpu_quota) : "none", ""});
  found.push_back({"load", s.load.empty() ? kUnavailable : fmt::format("{:.2f}", fmt::join(s.load, " ")), ""});
}

void find_optional(Findings& missing) {
  if (!has_library("oneDNN"))
    missing.push_back({"oneDNN", "version 3 with oneTBB was not found when this was configured",
                       "no cpu.onednn; tools/setup --with-onednn adds it"});
}

void find_gpu(Devices& devices, Findings& found, Findings& missing) {
  const BuildInfo& b = build_info();
  std::string reason;
  Context* gpu = devices.open(Device::cuda, reason);
  GpuInfo info;
  if (gpu && gpu_info(*gpu, info)) {
    found.push_back({"GPU",
                     fmt::format("{} ({}), {:.1f} GB, driver {}", info.name, info.sm,
                                 static_cast<double>(info.memory_bytes) * 1e-9, info.driver),
                     ""});
    for (const auto& [name, version] : {std::pair{"CUDA at run time", info.runtime},
                                        {"cuBLAS at run time", info.cublas},
                                        {"cuDNN at run time", info.cudnn}})
      found.push_back({name, version, ""});
  }
  if (*b.cuda_compiler) found.push_back({"CUDA", fmt::format("{}, for {}", b.cuda_compiler, b.cuda_architectures), ""});
  if (*b.no_cuda) {
    missing.push_back({"CUDA", b.no_cuda, "no cuda.* is built; tools/quick --with-cuda adds the GPU side"});
    return;
  }
  if (!gpu)
    missing.push_back(
        {"GPU", reason, "every cuda.* is compiled and skipped: run on a machine with a GPU and its driver"});
  constexpr struct {
    const char *name, *effect;
  } kOptional[] = {{"cuBLAS", "no cuda.cublas"},
                   {"cuSPARSE", "no cuda.cusparse"},
                   {"cuSPARSELt", "no cuda.cusparselt"},
                   {"cuDNN", "no cuda.cudnn"},
                   {"CUPTI", "no memory traffic of a GPU in bench_all --counters"},
                   {"CUB", "no cuda.cub"},
                   {"NVTX", "no named ranges for profilers"}};
  for (const auto& o : kOptional)
    if (!has_library(o.name))
      missing.push_back(
          {o.name, "not found when this was configured", fmt::format("{}; tools/setup --with-cuda adds it", o.effect)});
}

// What bench_all --counters can measure here.
void find_counters(Devices& devices, Findings& found, Findings& missing) {
  const auto add = [&](const bench::Gauge& gauge, const char* where) {
    const std::string name = where + reports::to_text(gauge.quantity);
    if (gauge.meter)
      found.push_back({name, gauge.source, ""});
    else
      missing.push_back({name, gauge.unavailable_reason, "unavailable in bench_all --counters"});
  };
  for (const bench::Gauge& gauge : bench::cpu_gauges(bench::machine_counters())) add(gauge, "");
  std::string reason;
  Context* gpu = devices.open(Device::cuda, reason);
  if (!gpu) return;
  for (const bench::Gauge& gauge : bench::gpu_gauges(bench::machine_counters(), *gpu))
    if (gauge.quantity == results::Quantity::bytes || gauge.quantity == results::Quantity::gpu_energy_j)
      add(gauge, "GPU: ");
}

// Tries once each library and subsystem that every measurement depends on.
Findings find_broken(CpuContext& cpu) {
  Findings broken;
  constexpr int kSide = 64;
  std::vector<float> a(kSide * kSide), b(a.size()), c(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i % 5) - 2;
    b[i] = static_cast<float>(i % 7) - 3;
  }
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSide, kSide, kSide, 1, a.data(), kSide, b.data(), kSide, 0,
              c.data(), kSide);
  for (size_t i = 0; i < c.size(); ++i) {
    float want = 0;  // small whole numbers: the sum is exact in any order
    for (size_t k = 0; k < kSide; ++k) want += a[i / kSide * kSide + k] * b[k * kSide + i % kSide];
    if (c[i] != want) {
      broken.push_back({"OpenBLAS",
                        fmt::format("a product of {} x {} is wrong at {}: {}, not {}", kSide, kSide, i, c[i], want),
                        fmt::format("core {}: unset OPENBLAS_CORETYPE or set another", openblas_get_corename())});
      break;
    }
  }

  std::atomic<int> visited = 0;
  std::atomic<int> denormal = 0;
  volatile float tiny = std::numeric_limits<float>::min();
  cpu.enter([&] {
    cpu.parallel_for(1000, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        visited += 1;
        denormal += tiny * 0.5f != 0;
      }
    });
  });
  if (visited != 1000)
    broken.push_back({"oneTBB", fmt::format("{} of 1000 loop iterations were run", visited.load()), ""});
  if (denormal != 0)
    broken.push_back(
        {"denormals", "some threads do not flush them to zero", "training steps become several times slower"});

  const Buffer memory(cpu, 8 << 20);
  if (!memory.guards_intact()) broken.push_back({"memory", "a new buffer's guard bands are not intact", ""});

  for (const GoldenLine& g : registry_golden())
    if (device_of(g.implementation) == Device::cpu && !find_implementation(g.op, g.implementation) &&
        (!g.implementation.starts_with("cpu.onednn") || has_library("oneDNN")))
      broken.push_back(
          {g.op + " " + g.implementation, "in ops/registry_golden.txt and not in this program", "build again"});
  return broken;
}

bench::Circumstances circumstances(CpuContext& cpu) {
  constexpr auto kProbe = std::chrono::milliseconds(500);  // 50 ticks of /proc/stat
  bench::Circumstances c = bench::circumstances(&cpu);     // before this program's own work raises the load
  const CpuSnapshot before = CpuSnapshot::now();
  std::this_thread::sleep_for(kProbe);
  c.probe = cpu_use(before, CpuSnapshot::now());
  return c;
}

Json to_json(const Findings& findings) {
  Json list = Json::array();
  for (const Finding& f : findings) {
    list.push_back({{"name", f.name}, {"value", f.value}});
    if (!f.advice.empty()) list.back()["advice"] = f.advice;
  }
  return list;
}

void print(const char* title, const Findings& findings) {
  fmt::print("{}\n", title);
  for (const Finding& f : findings)
    fmt::print("  {:<20} {}{}\n", f.name, f.value, f.advice.empty() ? "" : "\n" + std::string(23, ' ') + f.advice);
  if (findings.empty()) fmt::print("  nothing\n");
}

}  // namespace

int run_doctor(const DoctorOptions& options) {
  Findings found;
  Findings missing;
  Devices devices(std::nullopt);
  std::string reason;
  auto& cpu = static_cast<CpuContext&>(*devices.open(Device::cpu, reason));
  const Findings broken = find_broken(cpu);
  bench::Circumstances here = circumstances(cpu);
  find_build(found);
  find_machine(here.machine, here.state, found);
  find_optional(missing);
  find_gpu(devices, found, missing);
  if (std::string reason; Context* gpu = devices.open(Device::cuda, reason)) here.gpu = gpu_use(*gpu);
  find_counters(devices, found, missing);
  const Findings untrustworthy = bench::measurement_warnings(here);

  if (options.json) {
    const Json all{{"fingerprint", fingerprint(here.machine.fingerprint_inputs())},
                   {"found", to_json(found)},
                   {"missing", to_json(missing)},
                   {"untrustworthy", to_json(untrustworthy)},
                   {"broken", to_json(broken)}};
    fmt::print("{}\n", all.dump(1, ' ', false, Json::error_handler_t::replace));
  } else {
    print("Found", found);
    print("Missing", missing);
    print("Untrustworthy here", untrustworthy);
    print("Broken", broken);
  }
  return broken.empty() ? 0 : kFailed;
}

}  // namespace duet
