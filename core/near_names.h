// SPDX-License-Identifier: Apache-2.0
// For error messages: names that an unknown name may be a slip for.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace duet {

// Those of `known` that begin with `name` or are few edits away from it, nearest first, at most three.
std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& known);

// The end of a message that says `name` is not known: "; did you mean softmax, softmax_backward?", or the known names
// where none is near: "; known are add bias cast".
std::string near_hint(std::string_view name, const std::vector<std::string>& known);

}  // namespace duet
