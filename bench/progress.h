// SPDX-License-Identifier: Apache-2.0
// Progress of the run on standard error: on a terminal a bar with the time left, elsewhere one line a case.
#pragma once
#include <chrono>
#include <string>

namespace duet::bench {

class Progress {
 public:
  explicit Progress(int cases);
  ~Progress();
  void note(const std::string& line);    // a line of its own
  void begin(const std::string& name);   // of a case
  void end(const std::string& outcome);  // "cpu.tuned 1.23 ms (91 % memory)"
  void clear();                          // the bar, before something else is printed
  void skip() { ++done_; }               // of a case about which nothing is said

 private:
  void draw(const std::string& text);
  int total_, done_ = 0;
  bool terminal_;
  std::string name_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace duet::bench
