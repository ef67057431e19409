// SPDX-License-Identifier: Apache-2.0
// What can measure a window of applications besides the clock: instructions, cycles, memory traffic and energy, each by
// the best counter that this machine allows, or with the reason why there is none. counters.h takes the windows, duet
// doctor prints what there is.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/perf_counter.h"
#include "core/context.h"
#include "results/run.h"

namespace duet::bench {

using results::Quantity;

class Meter {
 public:
  virtual ~Meter() = default;
  virtual void start() = 0;
  virtual void poll() {}  // once a minute or more often: some counters wrap
  // In the unit of the quantity, since start(). Empty with `reason`.
  virtual std::optional<double> stop(std::string& reason) = 0;
};

struct Gauge {
  Quantity quantity;
  std::string source;              // the counter, and what it leaves out
  std::unique_ptr<Meter> meter;    // null: unavailable
  std::string unavailable_reason;  // empty where there is a meter
};
using Gauges = std::vector<Gauge>;

// Where counters come from. Tests pass an invented machine.
struct CounterSources {
  std::string root;  // "" for this machine
  std::function<std::unique_ptr<Tally>(const PerfEvent&, std::string& reason)> open_perf;
};
CounterSources machine_counters(const std::string& root = {});

// Of jobs on the CPU: instructions, cycles, bytes, and the two energies of the host.
Gauges cpu_gauges(const CounterSources& sources);
// Of jobs on the GPU: bytes, the GPU's energy, and the two of the host that launches and waits. The context is kept.
Gauges gpu_gauges(const CounterSources& sources, Context& gpu);

}  // namespace duet::bench
