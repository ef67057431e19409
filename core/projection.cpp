// SPDX-License-Identifier: Apache-2.0
#include "core/projection.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/denormals.h"
#include "core/error.h"
#include "core/philox.h"

namespace duet {
namespace {
constexpr int64_t kMaxBlock = 64;
constexpr size_t kMaxLooks = 4;        // blocks whose entries are compared one by one
constexpr double kSuspectShare = 0.5;  // of the bound of a typical element

// A tensor as (outer, axis, inner).
struct Extents {
  int64_t outer = 1, axis = 1, inner = 1;
};
Extents extents(const Shape& shape, size_t axis) {
  Extents e;
  for (size_t i = 0; i < shape.size(); ++i) (i < axis ? e.outer : i == axis ? e.axis : e.inner) *= shape[i];
  return e;
}

// to[o, j, i] = value(o, j, i), on all threads.
template <class Value>
void fill_rows(double* to, const Extents& e, const Value& value) {
  tbb::parallel_for(tbb::blocked_range<int64_t>(0, e.outer * e.axis), [&](const auto& r) {
    const ScopedKeepDenormals keep;
    for (int64_t row = r.begin(); row < r.end(); ++row)
      for (int64_t i = 0; i < e.inner; ++i) to[row * e.inner + i] = value(row / e.axis, row % e.axis, i);
  });
}
}  // namespace

// The projection costs 1/size of the problem, a look size/extent of it: the square root balances them.
Projection::Blocks Projection::blocks_of(const LinearAxis& axis) {
  const auto balanced = static_cast<int64_t>(std::sqrt(static_cast<double>(axis.extent)));
  Blocks b{.size = std::clamp<int64_t>(balanced, 1, kMaxBlock)};
  if (axis.groups > 1)  // blocks do not reach from one group into the next
    while (axis.extent % b.size != 0) --b.size;
  b.count = (axis.extent + b.size - 1) / b.size;
  return b;
}

double Projection::seconds(const Problem& problem, double reference_s) {
  const LinearAxis axis = problem.linear_axis().value();
  return reference_s * static_cast<double>(blocks_of(axis).count) /
         static_cast<double>(std::max<int64_t>(1, axis.extent));
}

Projection::Projection(const Problem& problem, const HostTensors& inputs, uint64_t seed)
    : problem_(problem), inputs_(&inputs), axis_(problem.linear_axis().value()), blocks_(blocks_of(axis_)) {
  for (int64_t j = 0; j < axis_.extent; ++j)
    signs_.push_back(philox_bits(static_cast<uint64_t>(j), seed) & 1 ? 1.0f : -1.0f);
  HostTensors sums(smaller(blocks_.count).tensors());
  for (size_t s = 0; s < sums.size(); ++s)
    if (sums.specs()[s].role != Role::out) sum_blocks(inputs, s, sums);
  sums_ = Answer::by_reference(smaller(blocks_.count), sums);
}

Problem Projection::smaller(int64_t entries) const {
  return problem_.with("dtype", "f64").with(axis_.attribute, std::to_string(axis_.groups * entries));
}

std::optional<size_t> Projection::axis_of(size_t slot) const {
  for (const LinearAxis::Axis& a : axis_.axes)
    if (static_cast<size_t>(a.slot.index) == slot) return a.axis;
  return std::nullopt;
}

void Projection::sum_blocks(const HostTensors& from, size_t slot, HostTensors& to) const {
  to.allocate(slot);
  const Inputs::Values in = from.values()[slot];
  const std::optional<size_t> axis = axis_of(slot);
  if (!axis) {  // as it is; indices and codes keep their type
    const TensorSpec& spec = to.specs()[slot];
    void* const data = to.data(slot);
    return tbb::parallel_for(tbb::blocked_range<int64_t>(0, spec.elements()), [&](const auto& r) {
      const ScopedKeepDenormals keep;
      for (int64_t i = r.begin(); i < r.end(); ++i) store_double(data, spec.dtype, i, in[i]);
    });
  }
  const Extents e = extents(to.specs()[slot].shape, *axis);
  const int64_t whole = e.axis / blocks_.count * axis_.extent;  // entries of all groups, or of one
  fill_rows(static_cast<double*>(to.data(slot)), e, [&](int64_t o, int64_t j, int64_t i) {
    const int64_t group = j / blocks_.count, first = j % blocks_.count * blocks_.size;
    const int64_t last = std::min(first + blocks_.size, axis_.extent);
    double sum = 0;
    for (int64_t entry = first; entry < last; ++entry)
      sum += static_cast<double>(signs_[static_cast<size_t>(entry)]) *
             in[(o * whole + group * axis_.extent + entry) * e.inner + i];
    return sum;
  });
}

void Projection::select(const HostTensors& from, size_t slot, int64_t first, int64_t last, HostTensors& to) const {
  to.allocate(slot);
  const Inputs::Values in = from.values()[slot];
  const std::optional<size_t> axis = axis_of(slot);
  const TensorSpec& spec = to.specs()[slot];
  const Extents e = extents(spec.shape, axis.value_or(0));
  const int64_t each = axis ? last - first : e.axis, whole = axis ? e.axis / each * axis_.extent : e.axis;
  void* const data = to.data(slot);
  for (int64_t o = 0; o < e.outer; ++o)
    for (int64_t j = 0; j < e.axis; ++j)
      for (int64_t i = 0; i < e.inner; ++i) {
        const int64_t entry = axis ? j / each * axis_.extent + first + j % each : j;
        store_double(data, spec.dtype, (o * e.axis + j) * e.inner + i, in[(o * whole + entry) * e.inner + i]);
      }
}

// The entries of one block of each group, one by one.
Check Projection::compare_block(const Problem& compared, const HostTensors& got, int64_t block) const {
  const int64_t first = block * blocks_.size, last = std::min(first + blocks_.size, axis_.extent);
  const Problem selected = smaller(last - first);
  HostTensors inputs(selected.tensors());
  for (size_t s = 0; s < inputs.size(); ++s)
    if (inputs.specs()[s].role != Role::out) select(*inputs_, s, first, last, inputs);
  HostTensors outputs(compared.with(axis_.attribute, std::to_string(axis_.groups * (last - first))).tensors());
  for (size_t s = 0; s < outputs.size(); ++s)
    if (outputs.specs()[s].role != Role::in) select(got, s, first, last, outputs);
  Check check = Answer::by_reference(selected, inputs).compare(compared, outputs);
  if (!check.passed())
    check.failure = fmt::format("entries {} to {} of {} {} along {}: {}", first, last - 1, axis_.extent,
                                axis_.groups > 1 ? "in each group" : "in all", axis_.attribute, check.failure);
  return check;
}

Check Projection::compare(const Problem& compared, const HostTensors& got) const {
  HostTensors sums(smaller(blocks_.count).tensors());
  std::vector<double> score(static_cast<size_t>(blocks_.count));  // of each block: its worst share of a typical bound
  const double typical = 1 / std::sqrt(static_cast<double>(blocks_.size));
  for (size_t s = 0; s < sums.size(); ++s) {
    const TensorSpec& spec = sums.specs()[s];
    if (spec.role == Role::in) continue;
    sum_blocks(got, s, sums);
    const std::optional<size_t> axis = axis_of(s);
    const Extents e = extents(spec.shape, axis.value_or(0));
    const Tolerance t = compared.tolerance(static_cast<int>(s));
    const auto* values = static_cast<const double*>(sums.data(s));
    for (int64_t i = 0; i < spec.elements(); ++i) {
      // The terms of a sum of `size` entries with random signs are sqrt(size) times those of one entry.
      const Claim c = sums_->claim(static_cast<int>(s), i);
      const double bound = axis ? typical * (t.abs_sum * c.abs_sum + t.rel * std::abs(c.want)) + t.abs : bound_of(t, c);
      const double error = std::abs(values[i] - c.want);
      const double share = error <= bound * 1e-300 ? 0 : std::isfinite(error) ? error / bound : INFINITY;
      if (axis) {
        double& worst = score[static_cast<size_t>(i / e.inner % e.axis % blocks_.count)];
        worst = std::max(worst, std::isnan(share) ? INFINITY : share);
      } else if (!(share <= 1)) {
        Check check;
        check.max_error_ratio = share;
        check.failure = fmt::format("{}[{}] of {}: got {:.9g}, want {:.9g}, bound {:.3g}", spec.name, i,
                                    spec.elements(), values[i], c.want, bound);
        return check;
      }
    }
  }

  std::vector<int64_t> order;
  for (int64_t b = 0; b < blocks_.count; ++b)
    if (!(score[static_cast<size_t>(b)] <= kSuspectShare)) order.push_back(b);
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return score[static_cast<size_t>(a)] > score[static_cast<size_t>(b)]; });
  order.resize(std::min(order.size(), kMaxLooks));
  Check all;
  for (const int64_t block : order) {
    const Check check = compare_block(compared, got, block);
    all.max_error_ratio = std::max(all.max_error_ratio, check.max_error_ratio);
    if (!check.passed()) return check;
  }
  for (size_t s = 0; s < got.size(); ++s)
    if (got.specs()[s].role != Role::in) all.elements += got.specs()[s].elements();
  return all;
}

}  // namespace duet
