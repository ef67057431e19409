// SPDX-License-Identifier: Apache-2.0
// duet project: what a GPU could bring at most to a run that was measured on a CPU.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace duet {

struct ProjectOptions {
  std::string run_file;
  std::vector<std::string> gpus;
  std::string gpus_file;  // figures in place of those in the program
  std::string measured;   // run file of one of these GPUs
  std::string directory;  // for project.html and project.md
  std::optional<double> launch_us;
  bool json = false;
};

int run_project(const ProjectOptions& options);
std::string known_gpu_list();

}  // namespace duet
