// SPDX-License-Identifier: Apache-2.0
#include "core/compare.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_reduce.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "core/denormals.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/philox.h"

namespace duet {
namespace {
constexpr int64_t kMinSlices = 4, kMaxSlices = 64;  // that are sampled

class Collector final : public Expect {
 public:
  Collector(const std::vector<TensorSpec>& specs, std::vector<Claim>& claims) : specs_(specs), claims_(claims) {
    for (const TensorSpec& s : specs) elements_.push_back(s.elements());
  }

 private:
  void claim(int slot, int64_t index, double want, double abs_sum) override {
    const auto s = static_cast<size_t>(slot);
    if (s >= specs_.size() || specs_[s].role == Role::in)
      throw Error("the reference claims tensor {}, no output", slot);
    if (index < 0 || index >= elements_[s])
      throw Error("the reference claims {}[{}] of {} elements", specs_[s].name, index, elements_[s]);
    claims_.push_back({slot, index, want, abs_sum});
  }
  const std::vector<TensorSpec>& specs_;
  std::vector<int64_t> elements_;
  std::vector<Claim>& claims_;
};

template <class Bits>
int64_t first_unwritten(const Bits* data, int64_t first, int64_t last) {
  constexpr int64_t kBlock = 1024;  // compared as a whole, which vectorises
  constexpr auto kPoison = static_cast<Bits>(~Bits{0});
  for (int64_t at = first; at < last; at += kBlock) {
    const int64_t end = std::min(at + kBlock, last);
    bool found = false;
    for (int64_t i = at; i < end; ++i) found |= data[i] == kPoison;
    if (found) return std::find(data + at, data + end, kPoison) - data;
  }
  return last;
}

// On all threads; -1: there is none.
int64_t first_unwritten(const void* data, const TensorSpec& spec) {
  const int64_t n = spec.elements();
  const int64_t first = tbb::parallel_reduce(
      tbb::blocked_range<int64_t>(0, n, 1 << 18), n,
      [&](const auto& r, int64_t least) {
        if (r.begin() >= least) return least;
        const auto in = [&](auto bits) {
          const int64_t at = first_unwritten(static_cast<const decltype(bits)*>(data), r.begin(), r.end());
          return at < r.end() ? std::min(at, least) : least;
        };
        switch (size_of(spec.dtype)) {
          case 8:
            return in(uint64_t{});
          case 4:
            return in(uint32_t{});
          case 2:
            return in(uint16_t{});
          default:
            return in(uint8_t{});
        }
      },
      [](int64_t a, int64_t b) { return std::min(a, b); });
  return first < n ? first : -1;
}

}  // namespace

Expected Expected::all(const Problem& problem, const HostTensors& inputs) {
  Expected e;
  const auto values = inputs.values();
  Collector collector(inputs.specs(), e.claims_);
  e.slices_ = problem.slices();
  for (int64_t s = 0; s < e.slices_; ++s) {
    const double start_s = thread_cpu_s();
    problem.reference(Inputs(values), s, collector);
    const double slice_s = thread_cpu_s() - start_s;
    e.cpu_s_ += slice_s;
    e.longest_s_ = std::max(e.longest_s_, slice_s);
  }

  for (size_t slot = 0; slot < inputs.size(); ++slot) {
    const TensorSpec& spec = inputs.specs()[slot];
    if (spec.role == Role::in) continue;
    std::vector<bool> claimed(static_cast<size_t>(spec.elements()));
    int64_t count = 0;
    for (const Claim& c : e.claims_)
      if (static_cast<size_t>(c.slot) == slot) {
        if (claimed[static_cast<size_t>(c.index)])
          throw Error("{} {}: the reference claims {}[{}] twice", problem.name(), problem.label(), spec.name, c.index);
        claimed[static_cast<size_t>(c.index)] = true;
        ++count;
      }
    if (count != spec.elements())
      throw Error("{} {}: the reference claims {} of {} elements of {}", problem.name(), problem.label(), count,
                  spec.elements(), spec.name);
  }
  return e;
}

int64_t Expected::sampled_slices(const Problem& problem, double work_flops) {
  const double slices = static_cast<double>(std::max<int64_t>(1, problem.slices()));
  const double cost = std::max(1.0, (problem.flops() + static_cast<double>(problem.bytes())) / slices);
  return std::clamp<int64_t>(static_cast<int64_t>(work_flops / cost), kMinSlices, kMaxSlices);
}

Expected Expected::sampled(const Problem& problem, const std::vector<TensorSpec>& specs,
                           const std::vector<Inputs::Values>& values, uint64_t seed, double work_flops) {
  const int64_t slices = problem.slices();
  const int64_t wanted = sampled_slices(problem, work_flops);
  std::set<int64_t> chosen;
  if (slices <= wanted) {
    for (int64_t s = 0; s < slices; ++s) chosen.insert(s);
  } else {
    const size_t of_part = wanted > kMinSlices ? 4 : 2;
    int64_t first = 0;
    for (const int64_t count : problem.parts()) {
      const int64_t looked_at[] = {0, count - 1, count / 2, 1};
      for (const int64_t s : std::span(looked_at).first(of_part))
        if (s >= 0 && s < count) chosen.insert(first + s);
      first += count;
    }
    for (uint64_t i = 0; static_cast<int64_t>(chosen.size()) < wanted; ++i)
      chosen.insert(static_cast<int64_t>(philox_bits(i, seed)) * slices >> 32);
  }
  Expected e;
  const std::vector<int64_t> order(chosen.begin(), chosen.end());
  std::vector<std::vector<Claim>> claims(order.size());
  std::vector<double> took_s(order.size());
  tbb::parallel_for(size_t{0}, order.size(), [&](size_t i) {
    const ScopedKeepDenormals keep;
    Collector collector(specs, claims[i]);
    const double start_s = thread_cpu_s();
    problem.reference(Inputs(values), order[i], collector);
    took_s[i] = thread_cpu_s() - start_s;
  });
  for (const double slice_s : took_s) {
    e.cpu_s_ += slice_s;
    e.longest_s_ = std::max(e.longest_s_, slice_s);
  }
  for (const auto& of_slice : claims) e.claims_.insert(e.claims_.end(), of_slice.begin(), of_slice.end());
  e.slices_ = static_cast<int64_t>(order.size());
  return e;
}

double Expected::max_abs_sum(int slot) const {
  double max = 0;
  for (const Claim& c : claims_)
    if (c.slot == slot) max = std::max(max, c.abs_sum);
  return max;
}

double bound_of(const Tolerance& t, const Claim& c) { return t.rel * std::abs(c.want) + t.abs_sum * c.abs_sum + t.abs; }

double error_ratio(const Claim& c, DType dtype, const Tolerance& tolerance, double value, bool bitwise) {
  const double rounded = round_to(dtype, c.want);
  if (std::isnan(c.want)) return std::isnan(value) ? 0 : INFINITY;
  if (std::isinf(rounded)) return value == rounded ? 0 : INFINITY;
  const bool moves_bits = is_float(dtype) && tolerance.moves_bits();
  if (value == rounded) return moves_bits && std::signbit(value) != std::signbit(rounded) ? INFINITY : 0;
  const double bound = bitwise || !is_float(dtype) ? 0 : bound_of(tolerance, c);
  const double error = std::abs(value - c.want);
  if (std::isfinite(error) && bound > 0) return error / bound;
  return !(error <= bound) ? INFINITY : error / bound;
}

Check compare(const Problem& problem, const Expected& expected, const HostTensors& got, bool bitwise) {
  Check check;
  check.slices = expected.slices();
  check.elements = static_cast<int64_t>(expected.claims().size());
  double worst = -1;
  for (const Claim& c : expected.claims()) {
    const auto slot = static_cast<size_t>(c.slot);
    const TensorSpec& spec = got.specs()[slot];
    const double value = load_as_double(got.data(slot), spec.dtype, c.index);
    const Tolerance tolerance = problem.tolerance(c.slot);
    const double ratio = error_ratio(c, spec.dtype, tolerance, value, bitwise);
    if (ratio <= worst) continue;
    worst = ratio;
    if (!(ratio <= 1)) {
      const double bound = bitwise || !is_float(spec.dtype) ? 0 : bound_of(tolerance, c);
      check.failure = fmt::format("{}[{}] of {}: got {:.9g}, want {:.9g}, bound {:.3g}", spec.name, c.index,
                                  spec.elements(), value, c.want, bound);
    }
  }
  check.max_error_ratio = std::max(0.0, worst);
  if (check.passed())
    for (size_t slot = 0; slot < got.size(); ++slot) {
      const TensorSpec& spec = got.specs()[slot];
      if (spec.role == Role::in || !is_float(spec.dtype)) continue;
      if (const int64_t i = first_unwritten(got.data(slot), spec); i >= 0)
        check.failure = fmt::format("{}[{}] of {}: never written", spec.name, i, spec.elements());
    }
  return check;
}

}  // namespace duet
