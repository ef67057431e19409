// SPDX-License-Identifier: Apache-2.0
#include "results/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>

namespace duet::results {
namespace {

std::string confidence_label(double confidence) { return fmt::format("{:.0f} %", 100 * confidence); }

void require_values(size_t count, const char* what) {
  if (count == 0) throw std::invalid_argument(fmt::format("{} of no values", what));
}

double sum(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

// How many counts, from the smallest statistic on, fit into one tail: an interval cuts that many values at each end.
size_t tail_length(std::span<const double> counts, double confidence) {
  const double allowed = 0.5 * (1 - confidence) * sum(counts);
  double tail = 0;
  size_t length = 0;
  while (length < counts.size() && tail + counts[length] <= allowed) tail += counts[length++];
  return length;
}

// The same for a statistic that is nearly normal. Exact counts of large samples would take memory and time that grow
// with the square of their product, and overflow.
size_t normal_tail_length(double mean, double deviation, double confidence) {
  double low = 0, high = 40;  // the quantile, by bisection: erfc has no inverse in the library
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (std::erfc(middle / std::sqrt(2)) > 1 - confidence ? low : high) = middle;
  }
  return static_cast<size_t>(std::max(0.0, std::floor(mean - high * deviation + 0.5)));
}

constexpr size_t kMaxExactValues = 400;    // of one sample: its binomial coefficients are below 1e120
constexpr size_t kMaxExactPairs = 10'000;  // of two samples

// Sorted values with `tail` of them cut at each end; no cut possible means the whole range.
Interval interval_of(std::span<const double> sorted, size_t tail, double middle, double confidence) {
  if (tail == 0) return {middle, sorted.front(), sorted.back(), Interval::kMinMax};
  return {middle, sorted[tail - 1], sorted[sorted.size() - tail], confidence_label(confidence)};
}

}  // namespace

double median(std::vector<double> values) {
  require_values(values.size(), "median");
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

double percentile(std::vector<double> values, double p) {
  require_values(values.size(), "percentile");
  if (!(p > 0 && p <= 1)) throw std::invalid_argument(fmt::format("percentile {} is not in (0, 1]", p));
  std::sort(values.begin(), values.end());
  // 0.9 times 10 is 9 and not a little more: the product is rounded before the ceiling.
  const double rank = std::ceil(p * static_cast<double>(values.size()) * (1 - 1e-12));
  return values[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

Interval median_interval(std::vector<double> values, double confidence) {
  require_values(values.size(), "median");
  std::sort(values.begin(), values.end());
  const double n = static_cast<double>(values.size());
  if (values.size() > kMaxExactValues)
    return interval_of(values, normal_tail_length(0.5 * n, 0.5 * std::sqrt(n), confidence), median(values), confidence);
  std::vector<double> binomial(values.size() + 1, 1.0);  // how many values lie below the true median: n fair coins
  for (size_t k = 1; k < binomial.size(); ++k)
    binomial[k] = binomial[k - 1] * (n - static_cast<double>(k) + 1) / static_cast<double>(k);
  return interval_of(values, tail_length(binomial, confidence), median(values), confidence);
}

std::vector<double> mann_whitney_counts(size_t a, size_t b) {
  // N(a, b; u) = N(a - 1, b; u - b) + N(a, b - 1; u): the largest value belongs to the first sample or to the second.
  std::vector<std::vector<double>> row(b + 1, {1.0});  // a = 0
  for (size_t i = 1; i <= a; ++i) {
    std::vector<std::vector<double>> next(b + 1);
    next[0] = {1.0};
    for (size_t j = 1; j <= b; ++j) {
      next[j].assign(i * j + 1, 0.0);
      for (size_t u = 0; u < row[j].size(); ++u) next[j][u + j] += row[j][u];
      for (size_t u = 0; u < next[j - 1].size(); ++u) next[j][u] += next[j - 1][u];
    }
    row = std::move(next);
  }
  return row[b];
}

namespace {

// The same, computed once for each pair of sizes: thousands of rows have equal ones.
const std::vector<double>& known_counts(size_t a, size_t b) {
  thread_local std::map<std::pair<size_t, size_t>, std::vector<double>> known;
  std::vector<double>& counts = known[{a, b}];
  if (counts.empty()) counts = mann_whitney_counts(a, b);
  return counts;
}

}  // namespace

double mann_whitney_p(std::span<const double> x, std::span<const double> y) {
  require_values(std::min(x.size(), y.size()), "Mann-Whitney test");
  double u = 0;
  for (const double a : x)
    for (const double b : y) u += a > b ? 1.0 : a == b ? 0.5 : 0.0;
  const double pairs = static_cast<double>(x.size()) * static_cast<double>(y.size());
  const auto low = static_cast<size_t>(std::ceil(std::min(u, pairs - u)));
  if (x.size() * y.size() > kMaxExactPairs) {
    const double deviation = std::sqrt(pairs * static_cast<double>(x.size() + y.size() + 1) / 12);
    return std::min(1.0, std::erfc((0.5 * pairs - static_cast<double>(low) - 0.5) / deviation / std::sqrt(2)));
  }
  const std::vector<double>& counts = known_counts(x.size(), y.size());
  return std::min(1.0, 2 * sum(std::span(counts).first(low + 1)) / sum(counts));
}

namespace {

// Of the statistic's distribution, how many of its smallest values fit into one tail.
size_t mann_whitney_tail(size_t a, size_t b, double confidence) {
  if (a * b <= kMaxExactPairs) return tail_length(known_counts(a, b), confidence);
  const auto pairs = static_cast<double>(a * b);
  return normal_tail_length(0.5 * pairs, std::sqrt(pairs * static_cast<double>(a + b + 1) / 12), confidence);
}

std::vector<double> sorted_logs(std::span<const double> values) {
  std::vector<double> logs;
  for (const double v : values) logs.push_back(std::log(v));
  std::sort(logs.begin(), logs.end());
  return logs;
}

// The differences a[i] - b[j] of two sorted lists, in order, without a list of them all.
class Differences {
 public:
  Differences(std::span<const double> a, std::span<const double> b) : a_(a), b_(b) {}
  size_t count() const { return a_.size() * b_.size(); }
  // The one that has `rank` smaller ones, by bisection.
  double at(size_t rank) const {
    double low = a_.front() - b_.back(), high = a_.back() - b_.front();
    if (not_above(low) > rank) return low;
    for (;;) {  // low has at most `rank` that are not above it, high has more
      const double middle = low + (high - low) / 2;
      if (!(low < middle && middle < high)) return high;
      (not_above(middle) > rank ? high : low) = middle;
    }
  }
  double median() const {
    const size_t half = count() / 2;
    return count() % 2 ? at(half) : 0.5 * (at(half - 1) + at(half));
  }

 private:
  size_t not_above(double limit) const {
    size_t all = 0, from = 0;  // b[from]: the first whose difference from a is not above the limit
    for (const double a : a_) {
      while (from < b_.size() && a - b_[from] > limit) ++from;
      all += b_.size() - from;
    }
    return all;
  }
  std::span<const double> a_, b_;
};

}  // namespace

Interval ratio_interval(std::span<const double> numerator, std::span<const double> denominator, double confidence) {
  require_values(std::min(numerator.size(), denominator.size()), "ratio");
  const std::vector<double> a = sorted_logs(numerator), b = sorted_logs(denominator);
  const Differences logs(a, b);
  const size_t tail = mann_whitney_tail(a.size(), b.size(), confidence), cut = std::max<size_t>(1, tail);
  return {std::exp(logs.median()), std::exp(logs.at(cut - 1)), std::exp(logs.at(logs.count() - cut)),
          tail == 0 ? Interval::kMinMax : confidence_label(confidence)};
}

std::vector<double> benjamini_hochberg(std::span<const double> p_values) {
  std::vector<size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> q(p_values.size(), 1.0);
  double smallest = 1;
  for (size_t rank = order.size(); rank > 0; --rank) {
    const size_t at = order[rank - 1];
    smallest = std::min(smallest, p_values[at] * static_cast<double>(order.size()) / static_cast<double>(rank));
    q[at] = smallest;
  }
  return q;
}

double geometric_mean(std::span<const double> values) {
  require_values(values.size(), "geometric mean");
  double logs = 0;
  for (const double value : values) logs += std::log(value);
  return std::exp(logs / static_cast<double>(values.size()));
}

}  // namespace duet::results
