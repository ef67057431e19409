// SPDX-License-Identifier: Apache-2.0
#include "bench/stop.h"

#include <csignal>

namespace duet::bench {
namespace {
volatile std::sig_atomic_t requested = 0;
}

void request_stop() { requested = 1; }
bool stop_is_requested() { return requested != 0; }

}  // namespace duet::bench
