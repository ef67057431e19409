// SPDX-License-Identifier: Apache-2.0
#include "models/data/augment.h"

#include <algorithm>
#include <cmath>

#include "models/data/dice.h"

namespace duet {

void augment(const float* from, float* to, int64_t channels, int64_t side, const Augmentation& how, uint64_t seed,
             int64_t epoch, int64_t sample) {
  Dice dice(seed ^ static_cast<uint64_t>(epoch) << 32, sample);
  const auto extent = static_cast<double>(side);
  const double shear = dice.uniform(-how.shear, how.shear), zoom_x = 1 + dice.uniform(-how.zoom, how.zoom);
  const double zoom_y = 1 + dice.uniform(-how.zoom, how.zoom);
  const double shift_x = extent * dice.uniform(-how.shift, how.shift),
               shift_y = extent * dice.uniform(-how.shift, how.shift);
  const double mirror = how.flip && dice.uniform(0, 1) < .5 ? -1 : 1;
  // A pixel at (x, y) from the centre takes what lies at (a x + b y + shift_x, c y + shift_y).
  const double a = mirror * zoom_x, b = -std::sin(shear) * zoom_x, c = std::cos(shear) * zoom_y;
  const double middle = (extent - 1) / 2;
  for (int64_t row = 0; row < side; ++row)
    for (int64_t column = 0; column < side; ++column) {
      const double x = static_cast<double>(column) - middle, y = static_cast<double>(row) - middle;
      const double at_x = std::clamp(a * x + b * y + shift_x + middle, 0., extent - 1);
      const double at_y = std::clamp(c * y + shift_y + middle, 0., extent - 1);
      const auto left = static_cast<int64_t>(at_x), top = static_cast<int64_t>(at_y);
      const int64_t right = std::min(left + 1, side - 1), bottom = std::min(top + 1, side - 1);
      const auto share_x = static_cast<float>(at_x - static_cast<double>(left));
      const auto share_y = static_cast<float>(at_y - static_cast<double>(top));
      for (int64_t channel = 0; channel < channels; ++channel) {
        const float* plane = from + channel * side * side;
        const float above = plane[top * side + left] * (1 - share_x) + plane[top * side + right] * share_x;
        const float below = plane[bottom * side + left] * (1 - share_x) + plane[bottom * side + right] * share_x;
        to[(channel * side + row) * side + column] = above * (1 - share_y) + below * share_y;
      }
    }
}

}  // namespace duet
