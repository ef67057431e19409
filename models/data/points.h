// SPDX-License-Identifier: Apache-2.0
// Labelled points in ten dimensions: 1 where the first two coordinates, added, are far from 0. No line tells the two apart.
#pragma once
#include "models/data/dataset.h"

namespace duet {

constexpr int64_t kPointFeatures = 10;

// Coordinates within -1 and 1. The same samples for the same seed on every machine; prefixes agree.
Dataset draw_points(int64_t count, uint64_t seed);

}  // namespace duet
