// SPDX-License-Identifier: Apache-2.0
// Generated pairs of sequences for models with an encoder and a decoder. They need no download. Token 0 (kFirstToken of
// models/trainer.h) is what a decoder reads first, and what fills a sequence up.
#pragma once
#include <string>
#include <string_view>

#include "models/data/dataset.h"

namespace duet {

// reverse: symbols 1 .. min(vocabulary - 1, 26), a to z, in reversed order.
// add: the sum of two numbers, "27+65" to "92": digits are the tokens 1 .. 10, + is 11.
// grammar: sentences of a small grammar, a word a token, in the order of another language: the verb first, adjectives
//   behind their noun; "the old dog sees a cat" to "sees the dog old a cat".
enum class PairTask : uint8_t { reverse, add, grammar };
inline constexpr std::string_view kPairTasks[]{"reverse", "add", "grammar"};  // their names
PairTask parse_pair_task(std::string_view name);                              // throws Error that lists the names
std::vector<int32_t> tokens_of(PairTask task, const std::string& text);       // throws Error at what is none
std::string text_of(PairTask task, const std::vector<int32_t>& tokens);       // for people: fillers are left out

// Sources (`length` tokens each) and labels of the same length. The samples depend on the seed alone; fewer samples are
// a prefix of more. Throws Error where the task needs longer sequences or more tokens.
Dataset draw_pairs(PairTask task, int64_t count, int64_t length, int64_t vocabulary, uint64_t seed);

}  // namespace duet
