// SPDX-License-Identifier: Apache-2.0
// Generated labelled digits in MNIST's format: strokes, drawn with a pen of random width under a random affine map,
// with noise. They need no download.
#pragma once
#include "models/data/dataset.h"

namespace duet {

// The samples depend on the seed alone, up to rounding; fewer samples are a prefix of more. Classes are equally likely.
Dataset draw_digits(int64_t count, uint64_t seed);

}  // namespace duet
