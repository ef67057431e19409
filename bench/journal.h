// SPDX-License-Identifier: Apache-2.0
// What a run has finished, line by line beside its result, so that a crash loses one case at most.
#pragma once
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "bench/run_file.h"

namespace duet::bench {

class Journal {
 public:
  Journal() = default;  // writes nowhere
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();

  static std::string path_for(const std::string& result) { return result + ".journal"; }
  static void require(const std::string& result);  // throws Error where there is nothing to resume
  // Starts afresh, or (resume) goes on behind the last whole line. header: the run document without jobs.
  // A journal that an earlier run left and nobody resumes is kept beside it as .old. Throws Error: cannot be written;
  // --resume with a journal of another machine, build or selection of jobs.
  void open(const std::string& result, const Json& header, bool resume);
  const std::string& resumed_from() const { return resumed_from_; }  // a warning for the report; empty when not resumed
  void add(const Json& job, const Json* step);                       // flushed to the disk
  void remove();                                                     // after the result was written in full

  const Json* finished(const std::string& job) const;  // from the run that is resumed
  const Json* finished_step(const std::string& job) const;

 private:
  void line(const Json& json);
  std::FILE* file_ = nullptr;
  std::string path_, resumed_from_;
  std::map<std::string, Json> jobs_, steps_;
};

}  // namespace duet::bench
