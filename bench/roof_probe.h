// SPDX-License-Identifier: Apache-2.0
// The roof of a row, measured beside it: a pass over memory with the row's pattern, footprint, threads and cache state,
// or multiply-adds of its dtype, on the row's device and by its clock. CaseTimer takes samples of it between the
// samples of the row, so that both meet the same machine at the same moment.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/pass_clock.h"
#include "bench/roof.h"
#include "core/pass.h"

namespace duet::bench {

class RoofProbe {
 public:
  void warm_up();   // after something else took the caches; before the first of some samples in a row
  double sample();  // seconds that the roof allows for one application of the row, as the machine is now
  double sample_wall_s() const { return wall_s_; }  // how long a sample takes, with emptying the caches
  // Whether a sample takes the place of what the row had in the caches. Multiply-adds stay in registers, and a row far
  // beyond the caches has nothing in them.
  bool takes_caches() const;
  // How many times as long as they did at their best, by the run's ceiling or as seen since, the multiply-adds of the
  // last sample took on a CPU. 1 where that is not compared: memory alone bounds the row, the row is cold, or so short
  // that forks take a good part of it.
  double slowdown() const { return slowdown_; }

 private:
  friend class RoofProbes;
  struct Part {
    std::shared_ptr<Pass> pass;
    int64_t batch = 1, runs = 1;  // as PassClock has them
    double applications = 0;      // share of the row's work in one run of the pass
    // Of a run so far, for all rows that share it; null: it is not compared.
    std::shared_ptr<double> shortest_s = nullptr;
    bool cached = false;  // whether a part of what it touches stays in a cache until the next run
  };
  explicit RoofProbe(const PassClock& clock) : clock_(clock) {}
  void add(Part part, double work);

  PassClock clock_;
  double wall_s_ = 0, slowdown_ = 1;
  std::vector<Part> parts_;
};

// The probes of one context. Which pass is the fastest for a pattern and footprint is tried once, of large footprints
// once for a power of 2, and the passes are shared by all cases that need them.
class RoofProbes {
 public:
  // ceilings: of this run; they tell what bounds a row. They and the context are kept by reference.
  RoofProbes(Context& context, std::unique_ptr<Passes> passes, const std::vector<Ceiling>& ceilings);
  // Null where the ceilings give the row no roof, and where the device has no pass for it. work.measured_s is ignored.
  // scope: kernel or call, as the row is timed.
  // again: the passes are chosen anew, with a longer trial, since the row was faster than the ones in use.
  std::shared_ptr<RoofProbe> probe(const Work& work, results::Scope scope, bool again = false);
  void wait_for_speed() { passes_->wait_for_speed(); }  // before a repetition

 private:
  int64_t footprint_of(const Work& work) const;
  std::shared_ptr<Pass> memory(const Work& work, bool again);
  double shortest_run(Pass& pass);  // of a few: seconds
  // Seconds that a run of multiply-adds takes at most, by the ceiling and with its forks; null where forks take too
  // much of it, and on a GPU.
  std::shared_ptr<double> by_ceiling(const Pass& pass, int64_t threads, double peak) const;
  RoofProbe::Part compute(const Work& work, const std::string& dtype, double peak, bool again);
  PassClock trial_clock(bool cold) const;

  Context& context_;
  std::unique_ptr<Passes> passes_;
  const std::vector<Ceiling>& ceilings_;
  using MemoryPasses = std::map<std::tuple<std::string, int64_t, bool>, std::shared_ptr<Pass>>;
  MemoryPasses memory_passes_, tried_;  // by pattern, footprint and cold; tried: large ones by their bits
  std::map<std::pair<std::string, int>, RoofProbe::Part> compute_passes_;  // dtype, power of 2
};

}  // namespace duet::bench
