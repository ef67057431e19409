// SPDX-License-Identifier: Apache-2.0
// cpu_gauges() and gpu_gauges() at the end choose among the counters above them.
#include "bench/meters.h"

#include <fmt/format.h>
#include <linux/perf_event.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "bench/pmu.h"
#include "core/gpu_counters.h"

namespace duet::bench {
namespace {

namespace fs = std::filesystem;
using Tallies = std::vector<std::unique_ptr<Tally>>;

constexpr const char* kShared = "other programs use the processor's counters";
constexpr double kMicro = 1e-6;

std::optional<double> sum_of(const Tallies& tallies, std::string& reason) {
  double sum = 0;
  bool shared = false;
  for (const auto& tally : tallies) {
    const std::optional<uint64_t> count = tally->stop();
    shared |= !count;
    sum += static_cast<double>(count.value_or(0));
  }
  if (!shared) return sum;
  reason = kShared;
  return std::nullopt;
}

// --- events of the processor, in all threads of this program

class ThreadsMeter final : public Meter {
 public:
  ThreadsMeter(const CounterSources& sources, PerfEvent event, double unit)
      : sources_(sources), event_(event), unit_(unit) {}
  // A counter belongs to a thread, and threads come and go between windows.
  void start() override {
    tallies_.clear();
    refusal_.clear();
    std::error_code none;
    for (const auto& entry : fs::directory_iterator("/proc/self/task", none)) {
      event_.thread = std::atoi(entry.path().filename().c_str());
      std::string reason;
      if (auto tally = sources_.open_perf(event_, reason))
        tallies_.push_back(std::move(tally));
      else if (fs::exists(entry.path(), none))  // else the thread has ended meanwhile
        refusal_ = reason;
    }
    for (const auto& tally : tallies_) tally->start();
  }
  std::optional<double> stop(std::string& reason) override {
    const std::optional<double> sum = sum_of(tallies_, reason);
    tallies_.clear();
    if (!refusal_.empty()) {
      reason = refusal_;
      return std::nullopt;
    }
    return sum ? std::optional(*sum * unit_) : std::nullopt;
  }

 private:
  CounterSources sources_;
  PerfEvent event_;
  double unit_;
  Tallies tallies_;
  std::string refusal_;
};

std::unique_ptr<Meter> of_threads(const CounterSources& sources, uint64_t config, double unit, std::string& reason) {
  const PerfEvent event{.type = PERF_TYPE_HARDWARE, .config = config};
  if (!sources.open_perf(event, reason)) return nullptr;
  return std::make_unique<ThreadsMeter>(sources, event, unit);
}

// --- events of the machine

class MachineMeter final : public Meter {
 public:
  // Opens the event on each processor that counts it. False with `reason`.
  bool add(const CounterSources& sources, const PmuEvent& event, double unit, std::string& reason) {
    Part& part = parts_.emplace_back(Part{{}, event.scale * unit});
    for (const int cpu : event.cpus) {
      auto tally = sources.open_perf(
          {.type = event.type, .config = event.config, .thread = PerfEvent::kMachine, .cpu = cpu}, reason);
      if (!tally) return false;
      part.tallies.push_back(std::move(tally));
    }
    return true;
  }
  void start() override {
    for (const Part& part : parts_)
      for (const auto& tally : part.tallies) tally->start();
  }
  std::optional<double> stop(std::string& reason) override {
    double sum = 0;
    bool complete = true;
    for (const Part& part : parts_) {
      const std::optional<double> count = sum_of(part.tallies, reason);
      complete &= count.has_value();
      sum += count.value_or(0) * part.unit;
    }
    return complete ? std::optional(sum) : std::nullopt;
  }

 private:
  struct Part {
    Tallies tallies;
    double unit;
  };
  std::vector<Part> parts_;
};

// Bytes of the unit that memory controllers count in; 0: another.
double bytes_in(const std::string& unit) { return unit == "MiB" ? 1048576 : unit == "KiB" ? 1024 : unit == "B"; }

// Reads and writes by the memory controllers' own count. Of servers, of clients, and of older clients.
std::unique_ptr<Meter> of_memory_controllers(const CounterSources& sources, std::string& reason) {
  constexpr const char* kEvents[][2] = {
      {"cas_count_read", "cas_count_write"}, {"data_read", "data_write"}, {"data_reads", "data_writes"}};
  for (const auto& [read, write] : kEvents) {
    auto meter = std::make_unique<MachineMeter>();
    bool found = false;
    for (const std::string& pmu : pmus(sources.root, "uncore_imc"))
      for (const char* name : {read, write}) {
        const auto event = read_pmu_event(sources.root, pmu, name);
        if (!event || bytes_in(event->unit) == 0) continue;
        found = true;
        if (!meter->add(sources, *event, bytes_in(event->unit), reason)) return nullptr;
      }
    if (found) return meter;
  }
  reason = "the kernel shows none";
  return nullptr;
}

// --- energy by the kernel's powercap interface

struct Zone {
  std::string file;
  double range_uj = 0, last_uj = 0, sum_uj = 0;
};

std::optional<double> number_in(const std::string& path, std::string& reason) {
  errno = 0;
  std::ifstream file(path);
  double value = 0;
  if (file >> value && value >= 0) return value;
  reason = fmt::format("{}: {}", path, errno != 0 ? std::strerror(errno) : "holds no number");
  return std::nullopt;
}

class PowercapMeter final : public Meter {
 public:
  explicit PowercapMeter(std::vector<Zone> zones) : zones_(std::move(zones)) {}
  void start() override {
    failure_.clear();
    for (Zone& zone : zones_) {
      zone.last_uj = number_in(zone.file, failure_).value_or(0);
      zone.sum_uj = 0;
    }
  }
  void poll() override {
    for (Zone& zone : zones_) {
      const std::optional<double> now_uj = number_in(zone.file, failure_);
      if (!now_uj) continue;
      zone.sum_uj += *now_uj - zone.last_uj + (*now_uj < zone.last_uj ? zone.range_uj : 0);
      zone.last_uj = *now_uj;
    }
  }
  std::optional<double> stop(std::string& reason) override {
    poll();
    reason = failure_;
    double sum_uj = 0;
    for (const Zone& zone : zones_) sum_uj += zone.sum_uj;
    return failure_.empty() ? std::optional(sum_uj * kMicro) : std::nullopt;
  }

 private:
  std::vector<Zone> zones_;
  std::string failure_;
};

// kind: how the zones' names begin: "package" or "dram".
std::unique_ptr<Meter> of_powercap(const std::string& root, const std::string& kind, std::string& reason) {
  std::vector<Zone> zones;
  bool any = false;
  std::error_code none;
  // intel-rapl-mmio shows the same packages once more.
  for (const auto& entry : fs::directory_iterator(root + "/sys/class/powercap", none)) {
    const std::string folder = entry.path();
    if (!entry.path().filename().string().starts_with("intel-rapl:")) continue;
    any = true;
    std::string name;
    std::ifstream(folder + "/name") >> name;
    if (!name.starts_with(kind)) continue;
    Zone zone{.file = folder + "/energy_uj"};
    const auto range_uj = number_in(folder + "/max_energy_range_uj", reason);
    if (!range_uj || !number_in(zone.file, reason)) return nullptr;
    zone.range_uj = *range_uj;
    zones.push_back(std::move(zone));
  }
  if (!zones.empty()) return std::make_unique<PowercapMeter>(std::move(zones));
  reason = any ? fmt::format("/sys/class/powercap has no zone '{}'", kind)
               : "the kernel shows no RAPL (/sys/class/powercap/intel-rapl*), as in most virtual machines";
  return nullptr;
}

// --- the GPU

class GpuTrafficMeter final : public Meter {
 public:
  explicit GpuTrafficMeter(std::unique_ptr<GpuTraffic> traffic) : traffic_(std::move(traffic)) {}
  void start() override { started_ = traffic_->start(failure_); }
  std::optional<double> stop(std::string& reason) override {
    if (started_) return traffic_->stop(reason);
    reason = failure_;
    return std::nullopt;
  }

 private:
  std::unique_ptr<GpuTraffic> traffic_;
  bool started_ = false;
  std::string failure_;
};

class GpuEnergyMeter final : public Meter {
 public:
  explicit GpuEnergyMeter(Context& gpu) : gpu_(&gpu) {}
  void start() override { begin_j_ = gpu_energy_j(*gpu_, failure_); }
  std::optional<double> stop(std::string& reason) override {
    const std::optional<double> end_j = gpu_energy_j(*gpu_, failure_);
    if (begin_j_ && end_j && *end_j >= *begin_j_) return *end_j - *begin_j_;
    reason = begin_j_ && end_j ? "the GPU's count of energy fell back: its driver was loaded anew" : failure_;
    return std::nullopt;
  }

 private:
  Context* gpu_;
  std::optional<double> begin_j_;
  std::string failure_;
};

// --- the choice

Gauge made(Quantity quantity, std::string source, std::unique_ptr<Meter> meter, const std::string& reason) {
  if (meter) return {quantity, std::move(source), std::move(meter), ""};
  return {quantity, "", nullptr, reason};
}

// kind: of powercap's zones; event: of the PMU "power".
Gauge energy_gauge(const CounterSources& sources, Quantity quantity, const char* kind, const char* event) {
  std::string reason, ignored;
  if (auto meter = of_powercap(sources.root, kind, reason))
    return made(quantity, fmt::format("RAPL {} (powercap), the whole machine", kind), std::move(meter), "");
  auto meter = std::make_unique<MachineMeter>();
  if (const auto found = read_pmu_event(sources.root, "power", event);
      found && found->unit == "Joules" && meter->add(sources, *found, 1, ignored))
    return made(quantity, fmt::format("RAPL {} (perf power/{}/), the whole machine", kind, event), std::move(meter),
                "");
  return made(quantity, "", nullptr, reason);
}

int64_t cache_line_bytes(const std::string& root) {
  std::string ignored;
  return static_cast<int64_t>(
      number_in(root + "/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size", ignored).value_or(64));
}

// On AMD and Arm the kernel's generic event counts misses of another cache than the last.
bool counts_last_level(const std::string& root) {
  std::ifstream cpuinfo(root + "/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.starts_with("vendor_id")) return line.find("GenuineIntel") != std::string::npos;
  return false;
}

Gauge traffic_gauge(const CounterSources& sources) {
  std::string of_controllers, of_misses;
  if (auto meter = of_memory_controllers(sources, of_controllers))
    return made(Quantity::bytes, "memory controllers (uncore_imc): reads and writes, the whole machine",
                std::move(meter), "");
  const int64_t line = cache_line_bytes(sources.root);
  if (!counts_last_level(sources.root))
    of_misses = "perf counts them on processors of Intel only";
  else if (auto meter = of_threads(sources, PERF_COUNT_HW_CACHE_MISSES, static_cast<double>(line), of_misses))
    return made(Quantity::bytes,
                fmt::format("last-level cache misses × {} B, in user mode: without what is written back, and without "
                            "some prefetches",
                            line),
                std::move(meter), "");
  return made(Quantity::bytes, "", nullptr,
              fmt::format("memory controllers: {}; misses of the last-level cache: {}", of_controllers, of_misses));
}

void add_host_energy(const CounterSources& sources, Gauges& gauges) {
  gauges.push_back(energy_gauge(sources, Quantity::cpu_energy_j, "package", "energy-pkg"));
  gauges.push_back(energy_gauge(sources, Quantity::dram_energy_j, "dram", "energy-ram"));
}

}  // namespace

CounterSources machine_counters(const std::string& root) {
  return {.root = root, .open_perf = [root](const PerfEvent& event, std::string& reason) -> std::unique_ptr<Tally> {
            return PerfCounter::open(event, reason, root);
          }};
}

Gauges cpu_gauges(const CounterSources& sources) {
  Gauges gauges;
  for (const auto& [quantity, config] :
       {std::pair{Quantity::instructions, PERF_COUNT_HW_INSTRUCTIONS}, {Quantity::cycles, PERF_COUNT_HW_CPU_CYCLES}}) {
    std::string reason;
    auto meter = of_threads(sources, config, 1, reason);
    gauges.push_back(made(quantity, "perf, in user mode, all threads", std::move(meter), reason));
  }
  gauges.push_back(traffic_gauge(sources));
  add_host_energy(sources, gauges);
  return gauges;
}

Gauges gpu_gauges(const CounterSources& sources, Context& gpu) {
  Gauges gauges;
  std::string reason;
  auto traffic = open_gpu_traffic(gpu, reason);
  gauges.push_back(made(Quantity::bytes, "CUPTI dram__bytes.sum: reads and writes of the GPU's memory",
                        traffic ? std::make_unique<GpuTrafficMeter>(std::move(traffic)) : nullptr, reason));
  const bool has_energy = gpu_energy_j(gpu, reason).has_value();
  gauges.push_back(made(Quantity::gpu_energy_j, "NVML, the GPU's board",
                        has_energy ? std::make_unique<GpuEnergyMeter>(gpu) : nullptr, reason));
  add_host_energy(sources, gauges);
  return gauges;
}

}  // namespace duet::bench
