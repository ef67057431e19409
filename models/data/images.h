// SPDX-License-Identifier: Apache-2.0
// Labelled colour images without a download, in CIFAR-10's format: ten shapes and textures in two colours each, of any
// place, size and direction, with noise.
#pragma once
#include "models/data/dataset.h"

namespace duet {

// The same samples for the same seed on every machine up to rounding; prefixes agree. Classes are equally likely.
Dataset draw_images(int64_t count, uint64_t seed);

}  // namespace duet
