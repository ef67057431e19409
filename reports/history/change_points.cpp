// SPDX-License-Identifier: Apache-2.0
#include "reports/history/change_points.h"

#include <algorithm>
#include <cmath>

#include "results/statistics.h"

namespace duet::history {
namespace {

// A split is kept for the merge while its p is below this: the level between two changes can hide either of them.
constexpr double kMaxSplitP = 0.1;

// The regularised incomplete beta function, by its continued fraction (DLMF 8.17.22, modified Lentz).
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(b, a, 1 - x);
  constexpr double kTiny = 1e-300, kPrecision = 1e-14;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), fraction = d;
  for (int m = 1; m <= 500; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    fraction *= c * d;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    const double step = c * d;
    fraction *= step;
    if (std::abs(step - 1) < kPrecision) break;
  }
  const double front =
      std::exp(a * std::log(x) + b * std::log1p(-x) + std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b));
  return std::min(1.0, front * fraction / a);
}

// The place in values[begin, end) with the largest energy distance between both sides, or `end` where there is none
// with kMinSegment values on either side. Sums over pairs are carried from place to place.
size_t best_split(std::span<const double> values, size_t begin, size_t end) {
  if (end - begin < 2 * kMinSegment) return end;
  double left = 0, right = 0;  // sums of |x - y| over the pairs within a side
  for (size_t i = begin; i < end; ++i)
    for (size_t j = i + 1; j < end; ++j) right += std::abs(values[i] - values[j]);
  const double all = right;
  double best = -1;
  size_t place = end;
  for (size_t at = begin; at + kMinSegment < end; ++at) {
    for (size_t i = begin; i < at; ++i) left += std::abs(values[i] - values[at]);
    for (size_t j = at + 1; j < end; ++j) right -= std::abs(values[j] - values[at]);
    const size_t split = at + 1;
    if (split - begin < kMinSegment) continue;
    const auto m = static_cast<double>(split - begin), n = static_cast<double>(end - split);
    const double between = all - left - right;
    const double distance = 2 * between / (m * n) - 2 * left / (m * (m - 1)) - 2 * right / (n * (n - 1));
    const double q = m * n / (m + n) * distance;
    if (q > best) {
      best = q;
      place = split;
    }
  }
  return place;
}

double p_at(std::span<const double> values, size_t begin, size_t at, size_t end) {
  return t_test_p(values.subspan(begin, at - begin), values.subspan(at, end - at));
}

void split(std::span<const double> values, size_t begin, size_t end, std::vector<size_t>& places) {
  const size_t at = best_split(values, begin, end);
  if (at == end || p_at(values, begin, at, end) > kMaxSplitP) return;
  split(values, begin, at, places);
  places.push_back(at);
  split(values, at, end, places);
}

// How many of the times after a change lie beyond the level before it, on the side of the change.
size_t beyond(std::span<const double> after, double level, double distance) {
  const double border = std::log1p(kMinLevelChange);
  return static_cast<size_t>(std::count_if(after.begin(), after.end(), [&](double value) {
    return distance > 0 ? value - level > border : level - value > border;
  }));
}

double median_of(std::span<const double> values) { return results::median({values.begin(), values.end()}); }

}  // namespace

double t_test_p(std::span<const double> x, std::span<const double> y) {
  const auto mean_and_squares = [](std::span<const double> values) {
    double mean = 0, squares = 0;
    for (const double value : values) mean += value / static_cast<double>(values.size());
    for (const double value : values) squares += (value - mean) * (value - mean);
    return std::pair(mean, squares);
  };
  const auto [mean_x, squares_x] = mean_and_squares(x);
  const auto [mean_y, squares_y] = mean_and_squares(y);
  const auto m = static_cast<double>(x.size()), n = static_cast<double>(y.size());
  const double freedom = m + n - 2, variance = (squares_x + squares_y) / freedom * (1 / m + 1 / n);
  const double difference = mean_x - mean_y;
  if (!(difference * difference > 0)) return 1;
  if (!(variance > 0)) return 0;
  const double t_squared = difference * difference / variance;
  return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t_squared));
}

std::vector<ChangePoint> change_points(std::span<const double> times_s) {
  if (times_s.size() < kMinSeries) return {};
  const size_t skipped = times_s.size() > kMaxSearched ? times_s.size() - kMaxSearched : 0;
  std::vector<double> logs;
  for (const double time_s : times_s.subspan(skipped)) logs.push_back(std::log(time_s));
  const std::span<const double> values = logs;
  std::vector<size_t> places;
  split(values, 0, values.size(), places);

  // The weakest change is merged away until all that are left hold between their neighbours.
  const auto tries = static_cast<double>(values.size() - 2 * kMinSegment + 1);
  while (!places.empty()) {
    std::vector<ChangePoint> found;
    size_t weakest = places.size();
    double weakest_p = -1;
    for (size_t i = 0; i < places.size(); ++i) {
      const size_t begin = i == 0 ? 0 : places[i - 1], end = i + 1 < places.size() ? places[i + 1] : values.size();
      constexpr double kMaxLog = 20;  // a file may hold any time; what is shown stays finite
      const std::span<const double> after = values.subspan(places[i], end - places[i]);
      const double level = median_of(values.subspan(begin, places[i] - begin)), distance = median_of(after) - level;
      const double change = std::expm1(std::clamp(distance, -kMaxLog, kMaxLog));
      const bool stays = std::abs(change) >= kMinLevelChange && beyond(after, level, distance) >= kMinSegment;
      const double p = std::min(1.0, tries * p_at(values, begin, places[i], end));
      found.push_back({skipped + places[i], change, p});
      if ((p > kMaxP || !stays) && p > weakest_p) {
        weakest = i;
        weakest_p = p;
      }
    }
    if (weakest == places.size()) return found;
    places.erase(places.begin() + static_cast<std::ptrdiff_t>(weakest));
  }
  return {};
}

}  // namespace duet::history
