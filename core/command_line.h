// SPDX-License-Identifier: Apache-2.0
// What the command lines of duet and bench_all share: --version, messages that show a user's text safely,
// and whole numbers.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace duet {

// What --version prints: "duet of Duet, commit 1a2b3c4, Release, GNU 12.2.0; CUDA: nvcc 13.0.88".
std::string version_text(std::string_view program);

// The text as one line for a message. Control characters, bytes that are not UTF-8 and characters that change the
// direction of writing become \n, \t, \x1b, \u202e. A text of more than kMaxMessage bytes loses its middle:
// "beginning...(99000 bytes)...end".
inline constexpr size_t kMaxMessage = 1200;
std::string one_line(std::string_view text);

// A check for CLI11 (CLI::Validator): "" for decimal digits, with - where min allows it, and a value from min to max;
// else why not. CLI11 alone reads -1 as 2^64 - 1 where no sign is allowed, 0x10 as 16 and 010 as 8. Leading zeros are
// removed, so that it cannot.
std::string check_whole_number(std::string& text, int64_t min, int64_t max);

}  // namespace duet
