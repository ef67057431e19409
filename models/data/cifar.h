// SPDX-License-Identifier: Apache-2.0
// CIFAR-10's binary files: each record is a label and 32x32 red, green, then blue bytes, row by row.
// Source: Krizhevsky, Learning multiple layers of features from tiny images, 2009.
#pragma once
#include <string>

#include "models/data/dataset.h"

namespace duet {

// The training half (data_batch_1.bin and so on, all that are there) or the test half (test_batch.bin) of a folder.
// Throws Error, naming file, value and what is allowed, when there is no file, a size is not a whole number of records,
// or a label is above 9.
Dataset read_cifar(const std::string& folder, bool training);

}  // namespace duet
