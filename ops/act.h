// SPDX-License-Identifier: Apache-2.0
// The activations with which a layer can end. gelu is the tanh form (ops/elementwise/gelu.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace duet {

enum class Act : uint8_t { none, relu, gelu };
inline std::vector<std::string> names_of(Act) { return {"none", "relu", "gelu"}; }

}  // namespace duet
