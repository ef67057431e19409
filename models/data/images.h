// SPDX-License-Identifier: Apache-2.0
// Generated labelled colour images, in CIFAR-10's format or larger: ten shapes and textures in two colours each, at
// random positions, sizes and directions, with noise. They need no download.
#pragma once
#include "models/data/dataset.h"

namespace duet {

// The samples depend on the seed alone, up to rounding; fewer samples are a prefix of more. Classes are equally likely.
Dataset draw_images(int64_t count, uint64_t seed);
// The same with `side` pixels in place of 32. binary: the label is 1 for the second five classes, else 0.
Dataset draw_images_of(int64_t count, int64_t side, bool binary, uint64_t seed);

}  // namespace duet
