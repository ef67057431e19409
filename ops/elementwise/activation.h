// SPDX-License-Identifier: Apache-2.0
// What the smooth activations share: how their inputs are drawn.
#pragma once
#include "core/problem.h"

namespace duet {

// Where an activation bends; tests of 1031 elements reach to where it is flat, past the range of exp in f32.
inline Fill activation_fill(int64_t n) { return n == 1031 ? Fill::uniform(-100, 100) : Fill::normal(0, 2); }

}  // namespace duet
