// SPDX-License-Identifier: Apache-2.0
// Turns the command line of `duet op` into a problem and its tensors. Called by op.cpp.
#pragma once
#include <map>
#include <string>

#include "cli/npy.h"
#include "cli/op.h"
#include "core/fill.h"
#include "core/registry.h"

namespace duet {

// Splits name=value pairs; each name may appear once. `flag` is for messages: "--attr".
std::map<std::string, std::string> split_pairs(const char* flag, const std::vector<std::string>& pairs);

struct OpInputs {
  Problem problem;
  std::map<size_t, NpyReader> files;  // by slot

  // Sets the attributes, takes missing dimensions from the shapes of the files and validates the problem. Reads only
  // the headers of the files and allocates no tensor.
  static OpInputs prepare(const OpOptions& options);

  // Reads the files and draws the other inputs. Throws Error where a file does not fit its tensor.
  HostTensors read(const OpOptions& options);
};

// Throws Error where the machine has too little memory, before any is allocated. copies: how many copies of all tensors
// exist at a time.
void require_memory(const Problem& problem, int copies);

}  // namespace duet
