// The activations that a layer may end with.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace duet {

enum class Act : uint8_t { none, relu };
inline std::vector<std::string> names_of(Act) { return {"none", "relu"}; }

}  // namespace duet
