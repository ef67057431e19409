// SPDX-License-Identifier: Apache-2.0
// The roof of a row, measured beside it: a pass over memory with the row's pattern, footprint, threads and cache state,
// or multiply-adds of its dtype. CaseTimer takes samples of it between the samples of the row, so that both meet the
// same machine at the same moment.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/cpu_pass.h"
#include "bench/roof.h"

namespace duet::bench {

class RoofProbe {
 public:
  void warm_up();   // after something else took the caches; before the first of some samples in a row
  double sample();  // seconds that the roof allows for one application of the row, as the machine is now
  double sample_wall_s() const { return wall_s_; }  // how long a sample takes, with emptying the caches

 private:
  friend class RoofProbes;
  struct Part {
    std::shared_ptr<CpuPass> pass;
    int64_t batch = 1;
    double applications = 0;  // share of the row's work in one run of the pass
    bool cached = false;      // whether a part of what it touches stays in a cache until the next run
  };
  RoofProbe(CpuContext& cpu, bool cold) : cpu_(cpu), cold_(cold) {}
  void add(std::shared_ptr<CpuPass> pass, double work, bool cached);

  CpuContext& cpu_;
  bool cold_;
  double wall_s_ = 0;
  std::vector<Part> parts_;
};

// The probes of one CPU context. Which loop is the fastest for a pattern and footprint is tried once, of large
// footprints once for a power of 2, and the passes are shared by all cases that need them.
class RoofProbes {
 public:
  // ceilings: of this run; they tell what bounds a row. They and cpu are kept by reference.
  RoofProbes(CpuContext& cpu, const std::vector<Ceiling>& ceilings);
  // Null where the ceilings give the row no roof. work.measured_s is ignored.
  // again: the passes are chosen anew, with a longer trial, since the row was faster than the ones in use.
  std::shared_ptr<RoofProbe> probe(const Work& work, bool again = false);

 private:
  int64_t footprint_of(const Work& work) const;
  std::shared_ptr<CpuPass> memory(const Work& work, bool again);
  std::shared_ptr<CpuPass> compute(const Work& work, const std::string& dtype, bool again);

  CpuContext& cpu_;
  const std::vector<Ceiling>& ceilings_;
  PassMemory memory_;
  int64_t min_footprint_ = 0, max_footprint_ = 0;
  using MemoryPasses = std::map<std::tuple<std::string, int64_t, bool>, std::shared_ptr<CpuPass>>;
  MemoryPasses memory_passes_, tried_;  // by pattern, footprint and cold; tried: large ones by their bits
  std::map<std::pair<std::string, int>, std::shared_ptr<CpuPass>> compute_passes_;  // dtype, power of 2
};

}  // namespace duet::bench
