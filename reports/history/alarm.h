// SPDX-License-Identifier: Apache-2.0
// Whether a time is out of line with the times before it: by its robust z, the distance from the median in units of the
// spread, which a few bad runs among them do not move. An alarm needs z > 4 and more than 5 %, and then a second run of
// the same commit that is out of line, too: one run alone is slow often enough for other reasons.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "reports/history/history.h"

namespace duet::history {

inline constexpr double kMaxZ = 4;          // |z| above: out of line
inline constexpr double kMinChange = 0.05;  // ... if the time also differs by more than this share
inline constexpr double kMinSpread = 1e-3;  // times cannot be known better than to 0.1 %, however equal they look

struct RobustZ {
  double median_s = 0, spread = 0;  // 1.4826 x median absolute deviation of the logarithms
  double z = 0, change = 0;         // change: value / median - 1
  size_t runs = 0;                  // in the baseline
  bool slower() const { return z > kMaxZ && change > kMinChange; }
  bool faster() const { return z < -kMaxZ && change < -kMinChange; }
};

// None with fewer than kMinBaseline values; of more than kMaxBaseline the last ones count. Values are positive.
std::optional<RobustZ> robust_z(std::span<const double> baseline_s, double value_s);

enum class Status {
  too_short,  // fewer than kMinBaseline runs before it
  same,
  faster,
  slower_unconfirmed,  // waits for a confirming run
  slower,              // confirmed
  cleared,             // looked slower, and the confirming run did not
};
const char* to_text(Status status);

struct Verdict {
  std::string key;
  double value_s = 0;
  bool disturbed = false;
  Status status = Status::too_short;
  std::optional<RobustZ> score;        // none where too short
  std::optional<double> confirming_s;  // time of the confirming run
};

// Those of a series whose runs have the settings of the newest of them (kComparedSettings).
std::vector<Point> alike_points(const Window& window, const SeriesHistory& series);

// Of the last run of the window: each of its series against the runs before it with the same settings, back to the
// series' new normal.
// `history` is asked for the runs that confirm it.
std::vector<Verdict> verdicts(const History& history, const Window& window);

// The window that verdicts need: enough runs that series which are not in each of them fill their baseline.
inline constexpr size_t kAlarmWindow = 400;

}  // namespace duet::history
