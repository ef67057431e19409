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
// Unsigned bytes of the given rank. Throws Error, naming the file, when it is unreadable, has another magic number, or
// has sizes that contradict each other.
IdxFile read_idx(const std::string& path, int rank);

// The training half (train-images-idx3-ubyte, train-labels-idx1-ubyte) or the test half (t10k-...) in a folder; the
// spelling train-images.idx3-ubyte is accepted too. Throws Error, naming file, value and what is allowed, when images
// are not 28 x 28, the numbers of labels and images differ, a label is above 9, or there are no samples.
Dataset read_mnist(const std::string& folder, bool training);

}  // namespace duet
