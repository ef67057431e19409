// SPDX-License-Identifier: Apache-2.0
#include "bench/roof.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace duet::bench {
namespace {
constexpr double kNegligible = 0.01;  // of the traffic: scales, biases, a row's losses
constexpr double kSame = 0.03;        // footprints this close are one; shares of writes this close are one pattern

const Ceiling* faster(const Ceiling* a, const Ceiling* b) { return !a || (b && b->value > a->value) ? b : a; }

// Between two measured footprints the better of both counts: the smaller one lies in a nearer cache, the larger one
// pays less for its fork. Where a footprint was itself measured, the smaller one no longer bounds it.
const Ceiling* bandwidth(const std::vector<const Ceiling*>& points, int64_t footprint, bool cold) {
  const Ceiling *below = nullptr, *same = nullptr, *above = nullptr, *largest = nullptr;
  for (const Ceiling* c : points) {
    const auto bytes = static_cast<double>(c->footprint_bytes), wanted = static_cast<double>(footprint);
    if (!largest || c->footprint_bytes > largest->footprint_bytes) largest = c;
    if (std::abs(bytes - wanted) <= kSame * wanted)
      same = faster(same, c);
    else if (bytes < wanted && (!below || c->footprint_bytes > below->footprint_bytes))
      below = c;
    else if (bytes > wanted && (!above || c->footprint_bytes < above->footprint_bytes))
      above = c;
  }
  if (cold) return largest;
  return faster(same ? same : below, above);
}

class Lookup {
 public:
  Lookup(const std::vector<Ceiling>& all, const std::string& device, int threads)
      : all_(all), device_(device), threads_(threads) {}

  const Ceiling* compute(const std::string& dtype, const std::string& math) const {
    const Ceiling* best = nullptr;
    for (const std::string& name : compute_names(dtype, math))
      for (const Ceiling& c : all_)
        if (belongs(c) && c.name == device_ + "." + name) best = faster(best, &c);
    return best;
  }

  const Ceiling* memory(std::string_view patterns, int64_t footprint, bool cold) const {
    const Ceiling* best = nullptr;
    while (!patterns.empty()) {
      const std::string_view pattern = patterns.substr(0, patterns.find('|'));
      patterns.remove_prefix(std::min(patterns.size(), pattern.size() + 1));
      std::vector<const Ceiling*> points;
      for (const Ceiling& c : all_)
        if (belongs(c) && c.pattern == pattern) points.push_back(&c);
      const Ceiling* found = bandwidth(points, footprint, cold);
      if (!found) return nullptr;  // the one that is missing may have been the faster one
      best = faster(best, found);
    }
    return best;
  }

 private:
  bool belongs(const Ceiling& c) const {
    return c.device == device_ && (device_ == "gpu" || c.threads == threads_) && c.value > 0;
  }

  // Units that may serve a dtype; the fastest is its roof. A CPU forms tf32 products as f32 ones. Whole numbers in 32
  // bits are added as many at a time as f32 multiply-adds, which count twice, so that is a bound too.
  std::vector<std::string> compute_names(const std::string& dtype, const std::string& math) const {
    if (dtype == "i32") return {"fma.f32"};
    if (device_ == "cpu") return {"fma." + dtype};
    if (dtype == "f32") return {math == "tf32" ? "mma.tf32" : "fma.f32"};
    return {"mma." + dtype, "fma." + dtype};
  }

  const std::vector<Ceiling>& all_;
  const std::string& device_;
  int threads_;
};

}  // namespace

// What matters is the share of writes, and whether they go where was read (then no line is fetched in vain). The
// patterns have shares of 0 (read), 1/3 (triad), 1/2 (copy; update in place). A mixture lies between two of them: it is
// no faster than the faster one, whether reads and writes share one bus or, as on some CPUs, have each their own.
//   sgd (g in; p, v inout): mostly in place with 2/5 written, hence between read and update. Triad would be no bound:
//   with its separate destination it is slower than in-place work (on Zen 4 by a quarter).
//   More written than read (dropout: y and mask from x): slower than copy, which is the nearest bound there is.
std::string pattern_of(const std::vector<TensorSpec>& tensors) {
  double total = 0, written = 0, in_place = 0, counted = 0;
  for (const TensorSpec& t : tensors) total += static_cast<double>(t.traffic_bytes());
  for (const TensorSpec& t : tensors) {
    const auto bytes = static_cast<double>(t.traffic_bytes());
    if (bytes < kNegligible * total) continue;
    counted += bytes;
    if (t.role == Role::out) written += bytes;
    if (t.role == Role::inout) {
      written += bytes / 2;
      in_place += bytes;
    }
  }
  const double share = counted > 0 ? written / counted : 0;
  if (share < kSame) return "read";
  if (2 * in_place > counted) return share > 0.5 - kSame ? "update" : "update|read";
  if (share > 0.5 - kSame) return "copy";
  if (std::abs(share - 1.0 / 3) < kSame) return "triad";
  return share > 1.0 / 3 ? "triad|copy" : "triad|read";
}

std::optional<Roof> roof_of(const std::vector<Ceiling>& ceilings, const std::string& device, const std::string& dtype,
                            const std::string& math, int threads, const std::string& pattern, int64_t footprint_bytes,
                            bool cold, double flops, double bytes, double measured_s) {
  if (!(measured_s > 0) || !std::isfinite(measured_s) || !(flops > 0 || bytes > 0)) return std::nullopt;
  const Lookup lookup(ceilings, device, threads);
  const Ceiling* memory = lookup.memory(pattern, footprint_bytes, cold);
  const Ceiling* compute = flops > 0 ? lookup.compute(dtype, math) : nullptr;
  if (!memory || (flops > 0 && !compute)) return std::nullopt;

  const double memory_s = bytes / memory->value, compute_s = compute ? flops / compute->value : 0;
  const Ceiling& bound = compute_s > memory_s ? *compute : *memory;
  return Roof{compute_s > memory_s ? "compute" : "memory", bound.name, bound.value,
              std::max(memory_s, compute_s) / measured_s};
}

}  // namespace duet::bench
