// SPDX-License-Identifier: Apache-2.0
#include "models/data/measurements.h"

#include <algorithm>

#include "models/data/dice.h"

namespace duet {

Dataset draw_measurements(int64_t count, int64_t steps, int64_t features, uint64_t seed) {
  constexpr int64_t kSwollen = 4;  // features
  Dataset data{.features = steps * features, .classes = 2, .x = {}, .token = {}, .label = {}};
  data.x.reserve(static_cast<size_t>(count * data.features));
  const int64_t width = std::max<int64_t>(1, steps / 4);  // of the swell, in steps
  for (int64_t i = 0; i < count; ++i) {
    Dice dice(seed, i);
    const auto first = static_cast<int64_t>(dice.below(static_cast<size_t>(steps - width + 1)));
    data.label.push_back(dice.uniform(0, 1) < .5);
    const double sign = data.label.back() == 1 ? 1 : -1;
    for (int64_t t = 0; t < steps; ++t) {
      const double phase = static_cast<double>(t - first) / static_cast<double>(width);
      const double swell = phase < 0 || phase >= 1
                               ? 0
                               : sign * std::sin(2 * std::numbers::pi * (phase + .5 / static_cast<double>(width)));
      for (int64_t f = 0; f < features; ++f)
        data.x.push_back(static_cast<float>(.5 * dice.uniform(-1, 1) + (f < kSwollen ? swell : 0)));
    }
  }
  return data;
}

}  // namespace duet
