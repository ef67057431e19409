// SPDX-License-Identifier: Apache-2.0
// Changes images at random while a model learns from them, so that it sees each sample in many forms: what Keras'
// ImageDataGenerator does with shear_range, zoom_range, horizontal_flip and the shifts. models/trainer.h runs it in
// threads of their own, one batch ahead of the step.
#pragma once
#include <cstdint>

namespace duet {

struct Augmentation {
  double shear = 0.2, zoom = 0.2, shift = 0.1;  // largest: of an angle in radians, of a factor around 1, of the side
  bool flip = true;                             // left and right, every second time
};

// Writes the changed image: (channels, side, side), pixels between those of `from` by linear interpolation, those
// outside as its nearest edge. The change depends on seed, epoch and sample alone.
void augment(const float* from, float* to, int64_t channels, int64_t side, const Augmentation& how, uint64_t seed,
             int64_t epoch, int64_t sample);

}  // namespace duet
