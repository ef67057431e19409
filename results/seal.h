// SPDX-License-Identifier: Apache-2.0
// A line of a journal ends with a checksum of itself, so that a line that was damaged on the disk is found: a changed
// digit leaves it valid JSON.
#pragma once
#include <string>
#include <string_view>

namespace duet::results {

std::string sealed(std::string object);  // adds the member "checksum" to an object's text
bool has_seal(std::string_view line);    // whether it ends with that member
bool is_intact(std::string_view line);   // ... whose value is right

}  // namespace duet::results
