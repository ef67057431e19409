// SPDX-License-Identifier: Apache-2.0
#include "models/data/points.h"

#include "models/data/dice.h"

namespace duet {

Dataset draw_points(int64_t count, uint64_t seed) {
  Dataset data{.features = kPointFeatures, .classes = 2, .x = {}, .token = {}, .label = {}};
  for (int64_t i = 0; i < count; ++i) {
    Dice dice(seed, i);
    const size_t first = data.x.size();
    for (int64_t f = 0; f < kPointFeatures; ++f) data.x.push_back(static_cast<float>(dice.uniform(-1, 1)));
    data.label.push_back(std::abs(data.x[first] + data.x[first + 1]) > .6f);
  }
  return data;
}

}  // namespace duet
