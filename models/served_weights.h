// SPDX-License-Identifier: Apache-2.0
// What training left, as an inference takes it: weights of 8 bits, convolutions with their batch normalisation folded
// in. A model whose inference needs it calls these in adapt(); models/predictor.h loads the result.
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

// Of each layer with running statistics, <layer>.weight (k, ...) and <layer>.bias (k) whose convolution gives what its
// convolution without a bias and then batchnorm_inference gave: w gamma / sqrt(var + eps), and beta less the mean times
// the same. They are computed in double and rounded once, to the dtype that weight and beta have; gamma, beta and the
// statistics are gone. Throws Error for sizes that contradict each other, and where var + eps is not above 0.
void fold_batchnorms(Checkpoint& checkpoint, double eps);

}  // namespace duet
