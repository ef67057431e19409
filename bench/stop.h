// SPDX-License-Identifier: Apache-2.0
// Whether this process was asked to stop, by a signal or by its supervisor: what is under way ends at the next sample.
#pragma once

namespace duet::bench {

void request_stop();  // from a signal handler
bool stop_is_requested();

struct Interrupted {};  // thrown where there is nothing to finish

}  // namespace duet::bench
