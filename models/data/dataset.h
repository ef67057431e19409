// SPDX-License-Identifier: Apache-2.0
// Labelled samples on the host: numbers, such as pixels, or tokens. The other files of this folder read or generate
// them; models/trainer.h learns from them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace duet {

struct Dataset {
  int64_t features = 0;                       // of a sample
  int classes = 0;                            // labels are 0 .. classes - 1
  std::vector<float> x;                       // (size, features), pixels 0 to 1; or else
  std::vector<int32_t> token;                 // (size, features)
  std::vector<int32_t> label;                 // (size, targets)
  int64_t targets = 1;                        // labels of a sample: one, or one for each of its tokens
  std::vector<std::string> class_names = {};  // by label; empty where they have none
  std::vector<float> value = {};              // (size): numbers to predict, in place of labels
  int64_t size() const { return static_cast<int64_t>(value.empty() ? label.size() : value.size()) / targets; }
};

std::vector<int64_t> shuffled(int64_t n, uint64_t key);  // 0 .. n - 1, in the same order on every machine

// Moves a fraction of the samples, chosen by the seed, into a set of their own: at least one, and at least one stays.
// Throws Error where there are fewer than two.
Dataset split_off(Dataset& data, double share, uint64_t seed);

constexpr int64_t kDigitSide = 28, kDigitPixels = kDigitSide * kDigitSide;                // MNIST's format
constexpr int64_t kImageSide = 32, kImagePixels = kImageSide * kImageSide, kColours = 3;  // CIFAR-10's

}  // namespace duet
