// SPDX-License-Identifier: Apache-2.0
// What training left, as an inference takes it: weights of 8 bits. A model whose inference needs it calls these in
// adapt(); models/predictor.h loads the result.
#pragma once
#include <string>
#include <vector>

#include "models/checkpoint.h"

namespace duet {

// The values of a tensor. Throws Error where there is none of this name.
std::vector<double> values_of(const Checkpoint& checkpoint, const std::string& name);
void set_values(Checkpoint& checkpoint, const std::string& name, DType dtype, Shape shape,
                const std::vector<double>& values);

// <layer>.weight (out, in) in 8 bits and <layer>.scale (out): each row's largest absolute value is 127.
void quantise_rows(Checkpoint& checkpoint, const std::string& layer);

}  // namespace duet
