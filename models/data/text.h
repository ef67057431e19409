// SPDX-License-Identifier: Apache-2.0
// Sequences of tokens whose labels are the tokens after them: text for language models.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/data/dataset.h"

namespace duet {

// The tokens of a file: of one whose name ends in .bin little-endian 16-bit numbers, of any other its bytes.
// Throws Error for a file that cannot be read, an odd number of bytes in a .bin, and a token that is not below
// `vocabulary`, with its position.
std::vector<int32_t> read_tokens(const std::string& file, int64_t vocabulary);

// Non-overlapping windows of `length` tokens of a file; the label of each token is the token after it.
// Throws Error as read_tokens does, and for fewer tokens than three windows need.
struct Text {
  Dataset training, test;  // the last tenth of the windows is the test
};
Text read_text(const std::string& file, int64_t length, int64_t vocabulary);

// Bytes of a made-up language: sentences of subject, verb and object from a few hundred invented words, the most common
// first. Which objects a verb takes depends on the verb, and spelling is regular. The text depends on the seed alone.
Dataset draw_text(int64_t count, int64_t length, uint64_t seed);

}  // namespace duet
