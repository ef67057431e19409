// SPDX-License-Identifier: Apache-2.0
// The jobs that a run has finished, line by line beside its result (results/run_file.h), so that a crash costs what was
// being measured at most, and a fresh process goes on after it.
#pragma once
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "results/run_file.h"

namespace duet::bench {

// Rows of two runs may stand in one file only where everything that shapes them is the same: machine, build and
// selection of jobs. Throws Error where it is not.
void require_same_run(const results::Run& then, const results::Run& now);

class Journal {
 public:
  Journal() = default;  // writes nowhere until begin() or go_on()
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();

  static std::string path_for(const std::string& result) { return result + ".journal"; }

  // Reads what an earlier process left there. False: nothing to go on with. Throws Error where the file is something
  // else.
  bool read(const std::string& path);
  const results::Run& earlier() const { return earlier_.run; }               // what was read, without its jobs
  const results::Job* finished(const std::string& job) const;                // of what was read
  const std::map<std::string, results::Job>& jobs() const { return jobs_; }  // all of what was read

  // A new journal; an older one that was not read is kept beside it as .old. header: the run without jobs.
  void begin(const std::string& path, const results::Run& header);
  void go_on();  // after the last whole line of what was read
  // Flushed to the disk, all rows or none. Throws Error where the disk does not take them.
  void add(const std::vector<results::Job>& jobs);
  void remove();  // after the result was written in full

 private:
  void open(bool append);
  void write(const std::string& lines);
  std::string path_;
  std::FILE* file_ = nullptr;
  bool was_read_ = false;
  results::JournalContent earlier_;
  std::map<std::string, results::Job> jobs_;
};

}  // namespace duet::bench
