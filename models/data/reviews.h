// SPDX-License-Identifier: Apache-2.0
// Labelled sequences of tokens without a download: reviews in a made-up language of 10000 words, common ones first. Some
// words praise, some blame, and the word NOT turns the next of them round; a review is good (1) if it praises more often
// than it blames.
#pragma once
#include "models/data/dataset.h"

namespace duet {

constexpr int64_t kReviewWords = 10000;

// Every review has `length` tokens, 1 or more, as models take them: a trainer refuses any other length. The same samples
// for the same seed on every machine; prefixes agree.
Dataset draw_reviews(int64_t count, int64_t length, uint64_t seed);

}  // namespace duet
