// SPDX-License-Identifier: Apache-2.0
// Labelled digits without a download: strokes, drawn with a pen of random width under a random affine map, with noise.
#pragma once
#include "models/data/dataset.h"

namespace duet {

// The same samples for the same seed on every machine up to rounding; prefixes agree. Classes are equally likely.
Dataset draw_digits(int64_t count, uint64_t seed);

}  // namespace duet
