// SPDX-License-Identifier: Apache-2.0
// Generated labelled sequences of measurements: noise in every feature, and somewhere in the sequence a swell of the
// first four features at once. The label is 1 where it goes up first and then down, 0 where it goes down first.
#pragma once
#include "models/data/dataset.h"

namespace duet {

// Samples are (steps, features). They depend on the seed alone; fewer samples are a prefix of more.
Dataset draw_measurements(int64_t count, int64_t steps, int64_t features, uint64_t seed);

}  // namespace duet
