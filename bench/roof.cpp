// SPDX-License-Identifier: Apache-2.0
// Which ceilings bound a row: pattern_of() and Lookup choose, roof_of() compares, annotate_roof() writes into a job.
#include "bench/roof.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "core/machine.h"
#include "core/pass.h"
#include "results/rules.h"

namespace duet::bench {
namespace {
constexpr double kNegligible = 0.01;  // of the traffic: scales, biases, a row's losses
constexpr double kSame = 0.03;        // relative difference of footprints, or of shares of writes, that count as equal

const Ceiling* faster(const Ceiling* a, const Ceiling* b) { return !a || (b && b->value > a->value) ? b : a; }

// Between two measured footprints the faster of both counts: the smaller one lies in a nearer cache, the larger one
// spends a smaller share of its time on the fork. Where the footprint itself was measured, the smaller one is no bound.
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
  Lookup(const std::vector<Ceiling>& all, const std::string& device, int64_t threads)
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
      if (!found) return nullptr;  // the missing one may be the faster one
      best = faster(best, found);
    }
    return best;
  }

 private:
  bool belongs(const Ceiling& c) const {
    return c.device == device_ && (device_ == "gpu" || c.threads == threads_) && c.value > 0;
  }

  // Units that can serve a dtype; the fastest is its roof. A CPU computes tf32 products in f32. A vector unit adds as
  // many 32-bit integers at a time as it does f32 multiply-adds, which count 2 each, so the f32 peak bounds i32, too.
  // With the math mode i8, the products of a row are those of i8. A CPU widens f8e4m3 to bf16.
  std::vector<std::string> compute_names(const std::string& dtype, const std::string& math) const {
    if (math == "i8" && dtype != "i8") return compute_names("i8", "ieee");
    if (dtype == "i32") return {"fma.f32"};
    if (device_ == "cpu") return {"fma." + (dtype == "f8e4m3" ? "bf16" : dtype)};
    if (dtype == "f32") return {math == "tf32" ? "mma.tf32" : "fma.f32"};
    return {"mma." + dtype, "fma." + dtype};
  }

  const std::vector<Ceiling>& all_;
  const std::string& device_;
  int64_t threads_;
};

// What the shortest work takes on a GPU in this scope; 0: not measured.
double empty_s(const std::vector<Ceiling>& ceilings, results::Scope scope) {
  for (const Ceiling& c : ceilings)
    if ((scope == results::Scope::kernel && c.name == "gpu.empty_kernel") ||
        (scope == results::Scope::call && c.name == "gpu.launch"))
      return c.value;
  return 0;
}

// Whether all that is written is 0, by the fill that the contract gives an output.
bool leaves_zeros(const std::vector<TensorSpec>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const TensorSpec& t) {
    return t.role == Role::in || (t.role == Role::out && t.fill.kind == Fill::Kind::constant && t.fill.a == 0);
  });
}

}  // namespace

// The share of writes decides, and whether they go to where was read (then no line is fetched only to be overwritten).
// The patterns have shares of 0 (read), 1/3 (triad), 1/2 (copy; update in place), 1 (write). A mixture lies between
// two of them: it is no faster than the faster one, whether reads and writes share one bus or, as on some CPUs, have
// one each.
//   sgd (g in; p, v inout): mostly in place with 2/5 written, so between read and update. Triad is no bound: with its
//   separate destination it is slower than in-place work (on Zen 4 by a quarter).
//   Nothing but zeros written: the faster one of clear, which has a ceiling beyond the caches, and of write.
//   More written than read (dropout: y and mask from x): slower than copy, which is the closest bound.
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
  if (share > 1 - kSame) return leaves_zeros(tensors) ? "clear|write" : "write";
  if (share < kSame) return "read";
  if (2 * in_place > counted) return share > 0.5 - kSame ? "update" : "update|read";
  if (share > 0.5 - kSame) return "copy";
  if (std::abs(share - 1.0 / 3) < kSame) return "triad";
  return share > 1.0 / 3 ? "triad|copy" : "triad|read";
}

std::optional<RoofTimes> roof_times(const std::vector<Ceiling>& ceilings, const Work& work) {
  if (!(work.flops > 0 || work.bytes > 0)) return std::nullopt;
  const Lookup lookup(ceilings, work.device, work.threads);
  RoofTimes times{.memory = lookup.memory(work.pattern, work.footprint_bytes, work.cold),
                  .compute = work.flops > 0 ? lookup.compute(work.dtype, work.math) : nullptr};
  if (!times.memory || (work.flops > 0 && !times.compute)) return std::nullopt;
  times.memory_s = work.bytes / times.memory->value;
  times.compute_s = times.compute ? work.flops / times.compute->value : 0;
  return times;
}

std::optional<results::Roof> roof_of(const std::vector<Ceiling>& ceilings, const Work& work) {
  if (!(work.measured_s > 0) || !std::isfinite(work.measured_s)) return std::nullopt;
  const std::optional<RoofTimes> times = roof_times(ceilings, work);
  if (!times) return std::nullopt;
  const double fraction = std::max(times->memory_s, times->compute_s) / work.measured_s;
  return results::Roof{.bound = times->by_compute() ? results::Bound::compute : results::Bound::memory,
                       .ceiling = times->bound().name,
                       .value = times->bound().value,
                       .fraction = fraction,
                       .lo = fraction,
                       .hi = fraction,
                       .interval = "one value: none"};
}

Work work_of(const results::Job& job, const results::Series& series) {
  const std::string dtype = job.dtype.substr(0, job.dtype.find('/'));
  return {.device = name_of(job.device),
          .dtype = dtype,
          .math = dtype == job.dtype ? "ieee" : job.dtype.substr(dtype.size() + 1),
          .threads = series.threads,
          .pattern = job.device != results::Device::cpu && job.pattern == "clear|write" ? "write" : job.pattern,
          .footprint_bytes = std::min(job.footprint_bytes, job.bytes),  // of a table, what is touched
          .cold = series.cache == results::Cache::cold,
          .flops = job.flops * share_of_multiplications(job),
          .bytes = static_cast<double>(job.bytes),
          .measured_s = series.summary.median_s};
}

// Whether the last cache keeps a part of what a row touches. How large a part differs between a row and its probe,
// which also take it from each other, so that such a probe accuses no row.
static bool is_partly_cached(const Work& work, int64_t gpu_cache_bytes) {
  static const int64_t cpu_cache_bytes = read_machine().last_level_bytes();
  const int64_t cache_bytes = work.device == "cpu" ? cpu_cache_bytes : gpu_cache_bytes;
  return !work.cold && 2 * work.footprint_bytes > cache_bytes && !far_beyond(work.footprint_bytes, cache_bytes);
}

// Whether a probe that the row exceeds must have been slowed down, since the run's ceiling is above the row. This
// system does not see other guests of its host. On a GPU a probe pays for its launch, and a short one of arithmetic for
// its fork: they are below the ceiling by design.
static bool is_slow_probe(const Work& work, const results::Roof& by_ceilings) {
  return work.device == "cpu" && by_ceilings.bound == results::Bound::memory &&
         by_ceilings.fraction <= results::kSuspectFraction;
}

double share_of_multiplications(const results::Job& job) {
  if (job.plan && job.plan->algorithm.starts_with("2:4 sparse")) return 0.5;
  int m = 0, m_across = 0, r = 0, r_across = 0;
  if (!job.plan || std::sscanf(job.plan->algorithm.c_str(), "F(%4dx%4d, %4dx%4d)", &m, &m_across, &r, &r_across) != 4 ||
      m < 1 || r < 1 || m != m_across || r != r_across)
    return 1;
  const double along = (m + r - 1.0) / (m * r);
  return along * along;
}

void annotate_roof(const results::Run& run, results::Job& job) {
  annotate_roof(run.ceilings, job, run.machine.gpu ? run.machine.gpu->l2_bytes : 0);
}

void annotate_roof(const std::vector<Ceiling>& ceilings, results::Job& job, int64_t gpu_cache_bytes) {
  const double share = share_of_multiplications(job);
  for (results::Series& s : job.series) {
    s.roof.reset();
    const Work its_work = work_of(job, s);
    if (!results::has_copies(s.scope)) s.roof = roof_of(ceilings, its_work);
    const bool slow_probe = s.roof && is_slow_probe(its_work, *s.roof);
    if (s.roof && set_adjacent_fraction(s.repetitions, *s.roof)) {
      // The rate of the bound while the row was timed.
      const double work = s.roof->bound == results::Bound::compute ? its_work.flops : its_work.bytes;
      s.roof->value = work / (s.roof->fraction * s.summary.median_s);
      if (slow_probe || (s.roof->bound == results::Bound::memory && is_partly_cached(its_work, gpu_cache_bytes)))
        s.roof->quiet = false;
    }
    set_flags(s, job.device, job.device == results::Device::gpu ? empty_s(ceilings, s.scope) : 0);
    // Fewer multiplications at a lower rate may still take less time than all of them at a high one.
    if (s.roof && share < 1 && s.roof->fraction / share >= results::kWeakFraction)
      std::erase(s.flags, results::flag::kWeakCpu);
  }
  set_verdict(job);
}

}  // namespace duet::bench
