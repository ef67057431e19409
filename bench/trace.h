// SPDX-License-Identifier: Apache-2.0
// bench_all --trace FILE: what each process of the run recorded (core/recorder.h), as one timeline. Every process that
// measures writes a part beside FILE, so that a job which crashes its process costs the end of its own ranges alone;
// the first process joins the parts. Called by main.cpp.
#pragma once
#include "bench/options.h"

namespace duet::bench {

class Trace {
 public:
  // Nothing without --trace. Removes parts that an interrupted run left; throws Error where FILE cannot be written.
  explicit Trace(const Options& options);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace();  // removes the parts

  void write() const;  // says where the trace is

 private:
  std::vector<std::string> parts() const;
  const Options& options_;
};

// While it lives, the ranges of this process, which measures, are recorded.
class Recording {
 public:
  explicit Recording(const Options& options);
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording();

 private:
  bool on_;
};

}  // namespace duet::bench
