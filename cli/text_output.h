// SPDX-License-Identifier: Apache-2.0
// Text that a subcommand writes where the user says: to a file, which appears complete or not at all, or to standard
// output.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace duet {

// Throws Error where two outputs, options by name with the path given, would both go to standard output.
void require_one_to_stdout(const std::vector<std::pair<const char*, std::string>>& outputs);

// path: "" writes nothing, and asks for no text; "-": standard output. Folders are created.
void write_text(const std::string& path, const std::function<std::string()>& text);

// To standard output; bytes of strings that are no UTF-8 are replaced.
void print_json(const nlohmann::ordered_json& document);

}  // namespace duet
