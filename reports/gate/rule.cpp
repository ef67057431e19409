// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/rule.h"

#include <algorithm>
#include <cmath>

#include "results/noise.h"

namespace duet::reports {
namespace {

double count(const std::vector<double>& values) { return static_cast<double>(values.size()); }

double inverse_counts(const Evidence& e) { return 1 / count(e.base) + 1 / count(e.head); }

}  // namespace

double noise_of_shift(const Evidence& e) {
  const double scatter = std::hypot(results::process_noise(e.base), results::process_noise(e.head)) / std::sqrt(2);
  return std::max(e.known_noise, scatter) * std::sqrt(inverse_counts(e));
}

bool is_suspect(const Evidence& e, const GateRule& rule) {
  const double shift = std::abs(std::log(results::median(e.head) / results::median(e.base)));
  // Two values say too little of their scatter: only what is known counts here.
  return shift > std::max(rule.screen_shift, rule.screen_noise * e.known_noise * std::sqrt(inverse_counts(e)));
}

std::vector<Ruling> rule_on(std::span<const Evidence> suspects, size_t tests, const GateRule& rule, bool last_round) {
  std::vector<double> p;
  for (const Evidence& e : suspects) p.push_back(results::mann_whitney_p(e.head, e.base));
  std::vector<double> padded = p;
  padded.resize(std::max(tests, p.size()), 1.0);
  const std::vector<double> q = results::benjamini_hochberg(padded);
  std::vector<Ruling> rulings;
  for (size_t i = 0; i < suspects.size(); ++i) {
    const Evidence& e = suspects[i];
    Ruling r;
    r.ratio = results::ratio_interval(e.head, e.base);
    r.p = p[i];
    r.q = q[i];
    r.floor = std::max(rule.min_effect, std::expm1(rule.noise_factor * noise_of_shift(e)));
    const auto beyond = [&](double effect) { return std::abs(std::log(r.ratio.value)) > std::log1p(effect); };
    const bool inside = r.ratio.hi <= 1 + r.floor && r.ratio.lo >= 1 / (1 + r.floor);
    if (beyond(r.floor) && r.q <= rule.q) {
      r.verdict = r.ratio.value > 1 ? Verdict::slower : Verdict::faster;
      r.code = "confirmed";
    } else if (beyond(r.floor)) {
      r.verdict = Verdict::ambiguous;
      r.code = "not_significant";
    } else if (inside) {
      r.verdict = Verdict::same;
      r.code = "within_floor";
    } else {
      r.verdict = Verdict::ambiguous;
      r.code = beyond(rule.min_effect) ? "below_noise" : "not_confirmed";
    }
    r.go_on = !last_round && beyond(rule.go_on_shift);
    rulings.push_back(std::move(r));
  }
  return rulings;
}

}  // namespace duet::reports
