// SPDX-License-Identifier: Apache-2.0
// MNIST's file format, IDX: magic 0, 0, element type, rank; rank big-endian 32-bit extents; the elements.
// Source: LeCun, Cortes, Burges, The MNIST database of handwritten digits.
#pragma once
#include <string>
#include <vector>

#include "models/data/dataset.h"

namespace duet {

struct IdxFile {
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
};
// Unsigned bytes of the given rank. Throws Error, naming the file: unreadable, foreign magic, sizes that contradict
// each other.
IdxFile read_idx(const std::string& path, int rank);

// The training half (train-images-idx3-ubyte, train-labels-idx1-ubyte) or the test half (t10k-...) in a folder; the
// spelling train-images.idx3-ubyte is taken too. Throws Error, naming file, value and what is allowed: images that are
// not 28 x 28, another number of labels than of images, labels above 9, no samples.
Dataset read_mnist(const std::string& folder, bool training);

}  // namespace duet
