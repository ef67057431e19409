// SPDX-License-Identifier: Apache-2.0
// Several run files as one run, so that the CPU of one machine can stand beside the GPU of another. The report of a
// joined run says of each row which machine measured it (Job::machine).
#pragma once
#include <vector>

#include "results/run.h"

namespace duet::reports {

// Jobs, ceilings and sweeps of all runs, in the order of the files. A machine is named after the first file that it
// wrote. A case that several machines measured is kept of each; of jobs that one machine measured twice, both are kept,
// named after their files. One run is returned as it is. Throws Error, naming both files, where a run is given twice
// and where two files mean different things by one case or one ceiling.
results::Run join(std::vector<results::Run> runs);

// "cpu.copy" of a machine is "cpu.copy @ cpu_box" in a joined run: each row is drawn against its own.
std::string named_of(const std::string& name, const std::string& machine);

}  // namespace duet::reports
