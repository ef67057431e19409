// SPDX-License-Identifier: Apache-2.0
// What no run file may say, though each member is valid by itself. Checked when a file is written and when it is read.
#pragma once
#include <optional>
#include <string>

#include "results/run.h"

namespace duet::results {

struct Contradiction {
  std::string member, problem;
};
std::optional<Contradiction> contradiction(const Summary& summary);
std::optional<Contradiction> contradiction(const Roof& roof);
std::optional<Contradiction> contradiction(const Repetition& repetition);
std::optional<Contradiction> contradiction(const Series& series);
std::optional<Contradiction> contradiction(const Reading& reading);
std::optional<Contradiction> contradiction(const Counters& counters);
std::optional<Contradiction> contradiction(const Job& job);
std::optional<Contradiction> contradiction(const Sweep& sweep);
template <class T>
std::optional<Contradiction> contradiction(const T&) {  // of every other type
  return std::nullopt;
}

}  // namespace duet::results
