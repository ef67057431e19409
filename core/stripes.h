// SPDX-License-Identifier: Apache-2.0
// Small parts of a case's outputs, spread over all of them. The benchmark looks at them after every sample: they must
// hold what the verified outputs hold. Before an application it overwrites them, so that one which writes nothing is
// seen. core/session.h reads and writes them on the device; bench/op_cases.cpp is the user.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/fill.h"
#include "core/problem.h"

namespace duet {

struct Stripe {
  size_t slot;
  int64_t first, bytes;  // of the tensor's memory; whole elements
};

// The first and the last elements of each output, and stripes at random places between them. All of an output where it
// is small; else 1/64 of it, 1 to 64 KiB. max_stripes: of one output, since a device makes one transfer for each.
std::vector<Stripe> choose_stripes(const std::vector<TensorSpec>& specs, uint64_t seed, int max_stripes);

// What the stripes hold in host copies of the outputs, one behind the other.
std::vector<unsigned char> bytes_of(const std::vector<Stripe>& stripes, const HostTensors& outputs);

}  // namespace duet
