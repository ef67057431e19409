// SPDX-License-Identifier: Apache-2.0
// JSON text to a document, for read.cpp: simdjson parses, since run files of 10,000 cases have 165 MB; what it refuses
// nlohmann's parser decides about, which says what is wrong and where.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace duet::results {

// Bytes beyond the end of a text that parse_json() may read: a text with that much capacity is not copied.
inline constexpr size_t kParsePadding = 64;

// where: what the text is of, for errors. skipped: a member of a run file's root, an array, that is checked and left
// empty; null for none. Throws Error: "... is nested deeper than ...", "... ends too early", "... not JSON".
nlohmann::ordered_json parse_json(const std::string& where, const std::string& text, const char* skipped = nullptr);

// Copying and printing JSON recurse: a hostile text must not end in a stack overflow. Throws Error.
void refuse_deep_nesting(const std::string& where, const std::string& text);

}  // namespace duet::results
