// SPDX-License-Identifier: Apache-2.0
// Wrong results that verification has to refuse, for every case of the registry. The inputs and the claims of the
// reference are those of bench_all. A correct output is each claim rounded to its dtype; a fault changes the values of
// one output and leaves the others as they are. Called by main.cpp.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/compare.h"
#include "core/registry.h"

namespace duet::must_fail {

enum class Fault : uint8_t {
  zeros,           // nothing but zeros
  previous,        // what another run computed, from other inputs
  unchanged,       // inout tensors: the values from before the call
  shuffled,        // one row with its elements moved on by one; where rows have one element, one column
  less_precision,  // two roundings to the next lower precision, see lower_precision_bits()
  wrong_last,      // the last element wrong by a typical element of this output
};
inline constexpr Fault kFaults[] = {Fault::zeros,    Fault::previous,       Fault::unchanged,
                                    Fault::shuffled, Fault::less_precision, Fault::wrong_last};
const char* name_of(Fault);

// What verification did not refuse. output: the tensor's name. fault: its name; "correct" where a correct output was
// refused, "unseen last" where the last element is not among those compared.
struct Finding {
  std::string output, fault, detail;
};

// Draws the case as bench_all does, as far as the compared slices read it, and plants every fault in every output.
// faults: how many were planted.
std::vector<Finding> examine(const Problem& problem, int64_t& faults);

// Plants every fault in what an implementation computed for the whole case, and compares it as bench_all does.
std::vector<Finding> examine_implementation(const Problem& problem, const Implementation& implementation,
                                            Context& context, int64_t& faults);

// Bits of the significand after less_precision, per dtype: f64 as f32, f32 as f16, f16 as bf16, bf16 with 5 bits, which
// is between it and the 8-bit floats. The outputs of TF32 products, whose factors have the precision of f16, are
// rounded as f16 is.
int lower_precision_bits(DType);

}  // namespace duet::must_fail
