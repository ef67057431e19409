// SPDX-License-Identifier: Apache-2.0
// Sequences of tokens whose labels are the tokens after them: text for language models.
#pragma once
#include <string>

#include "models/data/dataset.h"

namespace duet {

// Windows of `length` tokens that do not overlap, and for each token the one that follows.
// A file whose name ends in .bin holds tokens as little-endian 16-bit numbers; any other is read as bytes.
// Throws Error on a file that cannot be read, an odd number of bytes in a .bin, fewer than length + 1 tokens, and a token
// that is not below `vocabulary`, with its position.
struct Text {
  Dataset training, test;  // the last tenth of the windows is the test
};
Text read_text(const std::string& file, int64_t length, int64_t vocabulary);

// Bytes of a made-up language: sentences of subject, verb, object over a few hundred invented words, common ones first;
// what a verb takes as object depends on the verb, and spelling is regular. The same for the same seed on every machine.
Dataset draw_text(int64_t count, int64_t length, uint64_t seed);

}  // namespace duet
