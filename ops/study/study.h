// SPDX-License-Identifier: Apache-2.0
// What the contracts of the studies share. See README.md.
#pragma once
#include <string>

#include "core/attributes.h"
#include "core/host_memory.h"
#include "core/problem.h"
#include "ops/elementwise/chunk.h"

namespace duet {

// Bytes move alike in any type, so the studies have one.
inline std::string only_f32(DType dtype) {
  return dtype == DType::f32 ? "" : std::string("dtype ") + name_of(dtype) + ": f32 is allowed";
}
// "stride: 1 to 32, is 0"
inline std::string within(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return "";
  return std::string(name) + ": " + std::to_string(least) + " to " + std::to_string(most) + ", is " +
         std::to_string(value);
}
// The first reason that is not empty.
inline std::string first_of(std::initializer_list<std::string> reasons) {
  for (const std::string& r : reasons)
    if (!r.empty()) return r;
  return "";
}

// Values of inputs: whole numbers, so that a few hundred additions of 1 are exact in f32.
inline constexpr Fill kWhole = Fill{Fill::Kind::below, 65536, 0};

// One where the work beside a copy is `rounds` multiply-adds, v = v * one + one: exact, and no compiler can shorten it
// because `one` is known only when it runs. y = x + rounds.
inline constexpr int64_t kMaxRounds = 65536;

}  // namespace duet
