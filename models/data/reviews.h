// SPDX-License-Identifier: Apache-2.0
// Generated labelled sequences of tokens: reviews in a made-up language of 10000 words, the most common first. Some
// words praise, some blame, and the word NOT reverses the next such word; a review is good (1) if it praises more often
// than it blames. They need no download.
#pragma once
#include "models/data/dataset.h"

namespace duet {

constexpr int64_t kReviewWords = 10000;

// Every review has `length` tokens, 1 or more; it must be the length that the model takes. The samples depend on the
// seed alone; fewer samples are a prefix of more.
Dataset draw_reviews(int64_t count, int64_t length, uint64_t seed);

}  // namespace duet
