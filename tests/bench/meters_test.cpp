// SPDX-License-Identifier: Apache-2.0
// Counters of invented machines: a folder in place of /proc and /sys, and a perf_event_open of our own.
#include "bench/meters.h"

#include <gmock/gmock.h>
#include <linux/perf_event.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "bench/pmu.h"
#include "core/cpu_context.h"
#include "tests/results/fixture.h"

namespace duet::bench {
namespace {

using ::testing::HasSubstr;

class FakeTally final : public Tally {
 public:
  explicit FakeTally(std::optional<uint64_t> count) : count_(count) {}
  void start() override {}
  std::optional<uint64_t> stop() override { return count_; }

 private:
  std::optional<uint64_t> count_;
};

class InventedCounters : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void put_zone(const std::string& name, const std::string& kind, uint64_t energy_uj, uint64_t range_uj) const {
    const std::string folder = "sys/class/powercap/" + name;
    put(folder + "/name", kind);
    put(folder + "/energy_uj", std::to_string(energy_uj));
    put(folder + "/max_energy_range_uj", std::to_string(range_uj));
  }
  void put_controller(const std::string& name, int type) const {
    const std::string folder = "sys/bus/event_source/devices/" + name;
    put(folder + "/type", std::to_string(type));
    put(folder + "/cpumask", "0,8-9");
    put(folder + "/format/event", "config:0-7");
    put(folder + "/format/umask", "config:8-15");
    put(folder + "/events/cas_count_read", "event=0x04,umask=0x03");
    put(folder + "/events/cas_count_write", "event=0x04,umask=0x0c");
    for (const std::string event : {"/events/cas_count_read", "/events/cas_count_write"}) {
      put(folder + event + ".scale", "6.103515625e-5");  // 64 B
      put(folder + event + ".unit", "MiB");
    }
  }
  // Without perf: each event is refused for the reason that the kernel's errno gives.
  CounterSources refusing(int error) const {
    return {.root = root.string(), .open_perf = [this, error](const PerfEvent& event, std::string& reason) {
              reason = perf_refusal(error, event, root.string());
              return std::unique_ptr<Tally>();
            }};
  }
  CounterSources counting(std::function<std::optional<uint64_t>(const PerfEvent&)> count) {
    return {.root = root.string(), .open_perf = [this, count](const PerfEvent& event, std::string&) {
              opened.push_back(event);
              return std::unique_ptr<Tally>(new FakeTally(count(event)));
            }};
  }
  static const Gauge& gauge_of(const Gauges& gauges, Quantity quantity) {
    for (const Gauge& g : gauges)
      if (g.quantity == quantity) return g;
    ADD_FAILURE() << name_of(quantity);
    return gauges.front();
  }

  results::testing::Scratch scratch;
  std::filesystem::path root = scratch / "root";
  std::vector<PerfEvent> opened;
};

TEST_F(InventedCounters, EnergyOfAllPackagesIsAddedAcrossWrapArounds) {
  put_zone("intel-rapl:0", "package-0", 262'143'000'000, 262'143'328'850);
  put_zone("intel-rapl:0:0", "dram", 1'000'000, 65'712'999'613);
  put_zone("intel-rapl:1", "package-1", 500'000'000, 262'143'328'850);
  put_zone("intel-rapl:2", "psys", 1, 262'143'328'850);            // the packages once more, with the board
  put_zone("intel-rapl-mmio:0", "package-0", 5, 262'143'328'850);  // package 0 by another way
  const Gauges gauges = cpu_gauges(refusing(ENOENT));
  const Gauge& packages = gauge_of(gauges, Quantity::cpu_energy_j);
  ASSERT_TRUE(packages.meter) << packages.unavailable_reason;
  EXPECT_THAT(packages.source, HasSubstr("RAPL package"));
  std::string reason;
  packages.meter->start();
  put_zone("intel-rapl:0", "package-0", 262'143'128'850, 262'143'328'850);
  put_zone("intel-rapl:1", "package-1", 503'000'000, 262'143'328'850);
  put_zone("intel-rapl:2", "psys", 900'000'000, 262'143'328'850);
  put_zone("intel-rapl-mmio:0", "package-0", 900'000'000, 262'143'328'850);
  packages.meter->poll();
  put_zone("intel-rapl:0", "package-0", 10'800'000, 262'143'328'850);  // 200000 to the end, and then from 0
  EXPECT_NEAR(packages.meter->stop(reason).value_or(-1), 0.12885 + 0.2 + 10.8 + 3, 1e-6) << reason;
  packages.meter->start();
  EXPECT_EQ(packages.meter->stop(reason), 0) << "what went before does not count";

  const Gauge& memory = gauge_of(gauges, Quantity::dram_energy_j);
  ASSERT_TRUE(memory.meter) << memory.unavailable_reason;
  memory.meter->start();
  put_zone("intel-rapl:0:0", "dram", 3'500'000, 65'712'999'613);
  EXPECT_NEAR(memory.meter->stop(reason).value_or(-1), 2.5, 1e-9);
}

TEST_F(InventedCounters, EnergyThatCannotBeReadNamesTheFile) {
  put_zone("intel-rapl:0", "package-0", 1, 1000);
  put("sys/class/powercap/intel-rapl:0/energy_uj", "");  // root reads every file: an unreadable one is empty here
  const Gauges gauges = cpu_gauges(refusing(ENOENT));
  const Gauge& packages = gauge_of(gauges, Quantity::cpu_energy_j);
  EXPECT_FALSE(packages.meter);
  EXPECT_EQ(packages.unavailable_reason,
            (root / "sys/class/powercap/intel-rapl:0/energy_uj").string() + ": holds no number");
  EXPECT_THAT(gauge_of(gauges, Quantity::dram_energy_j).unavailable_reason, HasSubstr("no zone 'dram'"));

  put_zone("intel-rapl:0", "package-0", 1, 1000);
  const Gauges again = cpu_gauges(refusing(ENOENT));
  const Gauge& lost = gauge_of(again, Quantity::cpu_energy_j);
  ASSERT_TRUE(lost.meter);
  lost.meter->start();
  std::filesystem::remove(root / "sys/class/powercap/intel-rapl:0/energy_uj");
  std::string reason;
  EXPECT_FALSE(lost.meter->stop(reason));
  EXPECT_THAT(reason, HasSubstr("energy_uj: No such file"));
}

TEST_F(InventedCounters, AMachineWithoutCountersSaysWhyForEach) {
  const Gauges gauges = cpu_gauges(refusing(ENOENT));
  ASSERT_EQ(gauges.size(), 5u);
  for (const Gauge& g : gauges) {
    EXPECT_FALSE(g.meter) << name_of(g.quantity);
    EXPECT_NE(g.unavailable_reason, "") << name_of(g.quantity);
    EXPECT_EQ(g.source, "") << name_of(g.quantity);
  }
  EXPECT_THAT(gauge_of(gauges, Quantity::instructions).unavailable_reason, HasSubstr("no such counter"));
  EXPECT_THAT(gauge_of(gauges, Quantity::bytes).unavailable_reason, HasSubstr("memory controllers: the kernel shows"));
  EXPECT_THAT(gauge_of(gauges, Quantity::cpu_energy_j).unavailable_reason, HasSubstr("/sys/class/powercap"));
}

TEST_F(InventedCounters, ARefusalNamesTheSettingAndItsValue) {
  put("proc/sys/kernel/perf_event_paranoid", "3");
  put_controller("uncore_imc_0", 24);
  const Gauges gauges = cpu_gauges(refusing(EACCES));
  EXPECT_EQ(gauge_of(gauges, Quantity::cycles).unavailable_reason,
            "perf is not allowed: kernel.perf_event_paranoid is 3, and has to be 2 or less");
  EXPECT_THAT(gauge_of(gauges, Quantity::bytes).unavailable_reason, HasSubstr("is 3, and has to be 0 or less"));
  put("proc/sys/kernel/perf_event_paranoid", "-1");
  EXPECT_EQ(perf_refusal(EPERM, {}, root.string()),
            "perf is not allowed, though kernel.perf_event_paranoid is -1: the container forbids it");
}

TEST_F(InventedCounters, MemoryControllersCountReadsAndWritesOfEach) {
  put_controller("uncore_imc_0", 24);
  put_controller("uncore_imc_1", 25);
  put("sys/bus/event_source/devices/uncore_imc_free_running/type", "30");  // the same traffic once more
  const Gauges gauges = cpu_gauges(counting([](const PerfEvent&) { return 1000; }));
  const Gauge& traffic = gauge_of(gauges, Quantity::bytes);
  ASSERT_TRUE(traffic.meter);
  EXPECT_THAT(traffic.source, HasSubstr("uncore_imc"));
  std::string reason;
  traffic.meter->start();
  EXPECT_NEAR(traffic.meter->stop(reason).value_or(-1), 2 * 2 * 3 * 1000 * 64, 1e-6)
      << "controllers, events, processors";
  int reads = 0;
  for (const PerfEvent& event : opened)
    if (event.thread == PerfEvent::kMachine) {
      EXPECT_TRUE(event.config == 0x304 || event.config == 0xc04) << event.config;
      EXPECT_TRUE(event.type == 24 || event.type == 25);
      EXPECT_TRUE(event.cpu == 0 || event.cpu == 8 || event.cpu == 9) << event.cpu;
      reads += event.config == 0x304;
    }
  EXPECT_EQ(reads, 6);
}

TEST_F(InventedCounters, WithoutControllersLinesThatMissCountAndTheSourceSaysWhatIsMissing) {
  put("sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size", "128");
  put("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\n");
  const Gauges gauges =
      cpu_gauges(counting([](const PerfEvent& event) { return event.config == PERF_COUNT_HW_CACHE_MISSES ? 10 : 7; }));
  const Gauge& traffic = gauge_of(gauges, Quantity::bytes);
  ASSERT_TRUE(traffic.meter);
  EXPECT_THAT(traffic.source, HasSubstr("× 128 B, in user mode: without what is written back"));
  std::string reason;
  opened.clear();
  traffic.meter->start();
  const auto threads = static_cast<double>(opened.size());
  EXPECT_GE(threads, 1);
  EXPECT_EQ(traffic.meter->stop(reason).value_or(-1), threads * 10 * 128) << "of each thread";
  const Gauge& cycles = gauge_of(gauges, Quantity::cycles);
  cycles.meter->start();
  EXPECT_EQ(cycles.meter->stop(reason).value_or(-1), threads * 7);
}

TEST_F(InventedCounters, LinesThatMissAreOfTheLastCacheOnIntelOnly) {
  for (const char* cpuinfo :
       {"processor\t: 0\nvendor_id\t: AuthenticAMD\n", "processor\t: 0\nCPU implementer\t: 0x41\n"}) {
    put("proc/cpuinfo", cpuinfo);
    const Gauges gauges = cpu_gauges(counting([](const PerfEvent&) { return 7; }));
    EXPECT_FALSE(gauge_of(gauges, Quantity::bytes).meter);
    EXPECT_THAT(gauge_of(gauges, Quantity::bytes).unavailable_reason, HasSubstr("on processors of Intel only"));
  }
}

TEST_F(InventedCounters, ACounterThatIsSharedHasNoValue) {
  const Gauges gauges = cpu_gauges(counting([](const PerfEvent&) { return std::nullopt; }));
  std::string reason;
  gauges.front().meter->start();
  EXPECT_FALSE(gauges.front().meter->stop(reason));
  EXPECT_THAT(reason, HasSubstr("other programs use"));
}

TEST_F(InventedCounters, EnergyByPerfWherePowercapHasNone) {
  const std::string folder = "sys/bus/event_source/devices/power";
  put(folder + "/type", "21");
  put(folder + "/cpumask", "0");
  put(folder + "/format/event", "config:0-7");
  put(folder + "/events/energy-pkg", "event=0x02");
  put(folder + "/events/energy-pkg.scale", "2.3283064365386962890625e-10");
  put(folder + "/events/energy-pkg.unit", "Joules");
  const Gauges gauges = cpu_gauges(counting([](const PerfEvent&) { return uint64_t{1} << 33; }));
  const Gauge& packages = gauge_of(gauges, Quantity::cpu_energy_j);
  ASSERT_TRUE(packages.meter) << packages.unavailable_reason;
  EXPECT_THAT(packages.source, HasSubstr("power/energy-pkg/"));
  std::string reason;
  packages.meter->start();
  EXPECT_NEAR(packages.meter->stop(reason).value_or(-1), 2, 1e-9);
  EXPECT_FALSE(gauge_of(gauges, Quantity::dram_energy_j).meter);
}

TEST_F(InventedCounters, DamagedDescriptionsOfEventsAreNotRead) {
  const std::string folder = "sys/bus/event_source/devices/uncore_imc_0";
  const std::vector<std::pair<std::string, std::string>> damages{{"/type", "x"},
                                                                 {"/cpumask", ""},
                                                                 {"/cpumask", "3-1"},
                                                                 {"/cpumask", "0-99999999"},
                                                                 {"/format/event", "config1:0-7"},
                                                                 {"/format/event", "config:7-0"},
                                                                 {"/format/event", "config:0-64"},
                                                                 {"/events/cas_count_read", "event=0x104,umask=0x03"},
                                                                 {"/events/cas_count_read", "event=,umask=0x03"},
                                                                 {"/events/cas_count_read", "thresh=1"},
                                                                 {"/events/cas_count_read.scale", "-1"},
                                                                 {"/events/cas_count_read.scale", "nan"}};
  for (const auto& [file, text] : damages) {
    put_controller("uncore_imc_0", 24);
    ASSERT_TRUE(read_pmu_event(root.string(), "uncore_imc_0", "cas_count_read"));
    put(folder + file, text);
    EXPECT_FALSE(read_pmu_event(root.string(), "uncore_imc_0", "cas_count_read")) << file << " " << text;
  }
}

TEST_F(InventedCounters, AGpuWithoutNvmlSaysSo) {
  CpuContext no_gpu(1);
  const Gauges gauges = gpu_gauges(refusing(ENOENT), no_gpu);
  ASSERT_EQ(gauges.size(), 4u);
  EXPECT_THAT(gauge_of(gauges, Quantity::gpu_energy_j).unavailable_reason, HasSubstr("is no GPU"));
  EXPECT_NE(gauge_of(gauges, Quantity::bytes).unavailable_reason, "");
}

}  // namespace
}  // namespace duet::bench
