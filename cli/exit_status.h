// SPDX-License-Identifier: Apache-2.0
// Exit statuses of the program duet.
#pragma once

namespace duet {

constexpr int kFailed = 1;         // wrong or slower, where an option asked for that; never an error
constexpr int kUsageError = 2;     // an option, a file or a value that cannot be used
constexpr int kLost = 3;           // of a comparison: results of base failed or vanished in head
constexpr int kIncomparable = 4;   // of a comparison: unlike machines, builds or settings, or no row on both sides
constexpr int kInternalError = 5;  // neither the user's nor a verdict: no memory, a full disk, a locked database
constexpr int kInterrupted = 130;  // by SIGINT; what was done is saved where a file was asked for
constexpr int kUnsupported = 77;   // no such device here, or an implementation that does not serve the case

}  // namespace duet
