// SPDX-License-Identifier: Apache-2.0
// Reference for prune: serial, in double, the rules of the contract (ops/elementwise/prune.h) and nothing else. A slice
// is a chunk of elements; with magnitude, a part of the tensor.
#include "ops/elementwise/prune.h"

#include <functional>
#include <limits>

#include "core/registry.h"

namespace duet {
namespace {
// Orders absolute values, with NaN above infinity.
double size_of_weight(double w) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return std::isnan(w) ? kInfinity : std::isinf(w) ? std::numeric_limits<double>::max() : std::abs(w);
}
}  // namespace

void Prune::reference(Inputs in, int64_t slice, Expect& expect) const {
  const auto claim = [&](int64_t i, bool keep) {
    expect(y, i, keep ? in[w][i] : 0);
    expect(mask, i, keep);
  };
  if (scheme == PruneScheme::two_of_four) {
    in_chunk(n, slice, [&](int64_t i) {
      const int64_t group = i / 4 * 4;
      const double own = size_of_weight(in[w][i]);
      int before = 0;  // elements of the group that are kept rather than i
      for (int64_t k = group; k < std::min(n, group + 4); ++k) {
        const double other = size_of_weight(in[w][k]);
        before += other > own || (other == own && k < i);
      }
      claim(i, before < 2);
    });
    return;
  }
  // The size of the smallest element that is kept, and how many of that size are.
  std::vector<double> sizes(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) sizes[static_cast<size_t>(i)] = size_of_weight(in[w][i]);
  double threshold = std::numeric_limits<double>::infinity();
  int64_t ties = 0;
  if (kept() > 0) {
    std::vector<double> sorted = sizes;
    std::nth_element(sorted.begin(), sorted.begin() + (kept() - 1), sorted.end(), std::greater<>());
    threshold = sorted[static_cast<size_t>(kept() - 1)];
    ties = kept() - std::count_if(sizes.begin(), sizes.end(), [&](double s) { return s > threshold; });
  }
  const int64_t first = n * slice / slices(), last = n * (slice + 1) / slices();
  ties -= std::count(sizes.begin(), sizes.begin() + first, threshold);
  for (int64_t i = first; i < last; ++i) {
    const double own = sizes[static_cast<size_t>(i)];
    claim(i, own > threshold || (own == threshold && ties-- > 0));
  }
}
DUET_PROBLEM(Prune);

}  // namespace duet
