// SPDX-License-Identifier: Apache-2.0
#include "results/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

Interval median_interval(std::vector<double> values, double confidence) {
  require_values(values.size(), "median");
  std::sort(values.begin(), values.end());
  std::vector<double> binomial(values.size() + 1, 1.0);  // how many values lie below the true median: n fair coins
  const double n = static_cast<double>(values.size());
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

double mann_whitney_p(std::span<const double> x, std::span<const double> y) {
  require_values(std::min(x.size(), y.size()), "Mann-Whitney test");
  double u = 0;
  for (const double a : x)
    for (const double b : y) u += a > b ? 1.0 : a == b ? 0.5 : 0.0;
  const double pairs = static_cast<double>(x.size()) * static_cast<double>(y.size());
  const auto low = static_cast<size_t>(std::ceil(std::min(u, pairs - u)));
  const std::vector<double> counts = mann_whitney_counts(x.size(), y.size());
  return std::min(1.0, 2 * sum(std::span(counts).first(low + 1)) / sum(counts));
}

Interval ratio_interval(std::span<const double> numerator, std::span<const double> denominator, double confidence) {
  require_values(std::min(numerator.size(), denominator.size()), "ratio");
  std::vector<double> logs;
  for (const double a : numerator)
    for (const double b : denominator) logs.push_back(std::log(a / b));
  std::sort(logs.begin(), logs.end());
  const std::vector<double> counts = mann_whitney_counts(numerator.size(), denominator.size());
  Interval of_logs = interval_of(logs, tail_length(counts, confidence), median(logs), confidence);
  return {std::exp(of_logs.value), std::exp(of_logs.lo), std::exp(of_logs.hi), of_logs.label};
}

double geometric_mean(std::span<const double> values) {
  require_values(values.size(), "geometric mean");
  double logs = 0;
  for (const double value : values) logs += std::log(value);
  return std::exp(logs / static_cast<double>(values.size()));
}

}  // namespace duet::results
