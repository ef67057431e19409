// SPDX-License-Identifier: Apache-2.0
// Several run files as one run, so that the CPU of one machine can stand beside the GPU of another. The report of a
// joined run says of each row which machine measured it (Job::machine).
#pragma once
#include <string>
#include <vector>

#include "results/run.h"

namespace duet::reports {

// Jobs, ceilings and sweeps of all runs, in the order of the files. A machine is named after the first file that it
// wrote: files are of one machine where fingerprint and host name are equal, and the GPU's name where both have one. A
// case that several machines measured is kept of each; of jobs that one machine measured twice, both are kept. One run
// is returned as it is. Throws Error, naming both files, where a run is given twice and where two files mean different
// things by one case or one ceiling.
results::Run join(std::vector<results::Run> runs);

struct RunSource {
  std::string file, id;  // id: of the run; empty where it is not known
};
// Throws Error, naming both, where two of these are one file or copies of one run.
void require_each_once(const std::vector<RunSource>& runs);

// Which machine measured a job. Job::machine is that name, or "cpu_box (again in second_file)" where the machine had
// measured the same job in an earlier file: only displayed, never compared. Empty in a report of one run.
std::string machine_of(const results::Job& job);
// By machine_of(), in the order of the jobs: one entry where the report has one run.
std::vector<std::vector<const results::Job*>> by_machine(const std::vector<const results::Job*>& jobs);

// The files of a joined run without their jobs, ceilings and sweeps; Run::file is the name of the file in the report.
std::vector<results::Run> heads_of(const std::vector<results::Run>& runs);

// "cpu.copy" of a machine is "cpu.copy @ cpu_box" in a joined run: each row is drawn against its own.
std::string named_of(const std::string& name, const std::string& machine);

}  // namespace duet::reports
