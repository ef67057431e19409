// SPDX-License-Identifier: Apache-2.0
// Runs a program under a time limit, for the gate: one that crashes, hangs or prints without end costs a message.
#pragma once
#include <string>
#include <vector>

namespace duet::reports {

struct ProgramEnd {
  int exit_status = -1;  // where it ended by itself
  std::string how;       // "ended with status 1", "was killed by SIGSEGV", "did not finish within 12 s"
  bool timed_out = false;
  double wall_s = 0;
  std::string last_output;  // the end of what it printed, on one line
};

// arguments[0] is the program. What it prints is not shown. It does not outlive this process. Throws Error where it
// cannot be started, and ProgramInterrupted after SIGINT or SIGTERM.
// printed: receives its standard output, to the first 64 MB, where it is given.
ProgramEnd run_program(const std::vector<std::string>& arguments, double limit_s, std::string* printed = nullptr);

struct ProgramInterrupted {};
// From here on SIGINT and SIGTERM end the program that runs, and run_program() throws.
void catch_interrupts();

}  // namespace duet::reports
