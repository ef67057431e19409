// SPDX-License-Identifier: Apache-2.0
// From the command line of `duet op` to a problem and its tensors.
#pragma once
#include <map>
#include <string>

#include "core/fill.h"
#include "core/registry.h"
#include "cli/npy.h"
#include "cli/op.h"

namespace duet {

// name=value pairs, each name once. `flag` is for messages: "--attr".
std::map<std::string, std::string> split_pairs(const char* flag, const std::vector<std::string>& pairs);

struct OpInputs {
  Problem problem;
  std::map<size_t, NpyReader> files;  // by slot

  // Attributes, then dimensions from the files' shapes; all of it validated, nothing of size allocated.
  static OpInputs prepare(const OpOptions& options);

  // Reads the files and draws the rest. Throws Error where a file does not fit its tensor.
  HostTensors read(const OpOptions& options);
};

// Refuses what this machine's memory cannot hold, before any of it is taken. copies: images of all tensors at a time.
void require_memory(const Problem& problem, int copies);

}  // namespace duet
