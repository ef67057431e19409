// SPDX-License-Identifier: Apache-2.0
// The samples that duet predict is asked about: of the test, of images and of .npy files, and sequences of the command
// line. Called by predict.cpp.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cli/predict.h"
#include "models/checkpoint.h"
#include "models/data/pairs.h"
#include "models/trainer.h"

namespace duet {

// One sample, and what to call it.
struct Input {
  std::string name;
  std::vector<float> x;
  std::vector<int32_t> token, label;  // label: empty where it is not known
};

// names: those of the classes; where there are none, set to those of the test. Throws Error for what is no sample of
// the model.
std::vector<Input> samples_of(const PredictOptions& options, const Checkpoint& checkpoint, const SampleForm& form,
                              PairTask task, std::vector<std::string>& names);

}  // namespace duet
