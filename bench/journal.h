// SPDX-License-Identifier: Apache-2.0
// The jobs that a run has finished, line by line beside its result (results/run_file.h), so that a crash loses one case
// at most and --resume goes on after it.
#pragma once
#include <cstdio>
#include <map>
#include <string>

#include "results/run.h"

namespace duet::bench {

class Journal {
 public:
  Journal() = default;  // writes nowhere until open()
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();

  static std::string path_for(const std::string& result) { return result + ".journal"; }
  static void require(const std::string& result);  // throws Error where there is nothing to resume
  // Starts a new journal, or (resume) goes on after the last whole line of the old one. header: the run without jobs.
  // An older journal that is not resumed is kept beside it as .old. Throws Error: it cannot be written; --resume with a
  // journal of another machine, build or selection of jobs.
  void open(const std::string& result, const results::Run& header, bool resume);
  const std::string& resumed_from() const { return resumed_from_; }  // a warning for the report; empty when not resumed
  void add(const results::Job& job);                                 // flushed to the disk
  void remove();                                                     // after the result was written in full

  const results::Job* finished(const std::string& job) const;  // from the run that is resumed

 private:
  void write_line(const std::string& line);
  std::FILE* file_ = nullptr;
  std::string path_, resumed_from_;
  std::map<std::string, results::Job> jobs_;
};

}  // namespace duet::bench
