// SPDX-License-Identifier: Apache-2.0
// Generated labelled points in ten dimensions: the label is 1 where the sum of the first two coordinates is far from 0.
// No hyperplane separates the two classes.
#pragma once
#include "models/data/dataset.h"

namespace duet {

constexpr int64_t kPointFeatures = 10;

// Coordinates lie within -1 and 1. The samples depend on the seed alone; fewer samples are a prefix of more.
Dataset draw_points(int64_t count, uint64_t seed);

}  // namespace duet
