// Labelled samples on the host.
#pragma once
#include <cstdint>
#include <vector>

namespace duet {

struct Dataset {
  int64_t features = 0;        // of a sample
  int classes = 0;             // labels are 0 .. classes - 1
  std::vector<float> x;        // (size, features), 0 to 1
  std::vector<int32_t> label;  // (size)
  int64_t size() const { return static_cast<int64_t>(label.size()); }
};

constexpr int64_t kDigitSide = 28, kDigitPixels = kDigitSide * kDigitSide;  // MNIST's format

}  // namespace duet
