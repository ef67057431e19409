// SPDX-License-Identifier: Apache-2.0
// How many blocks of a kernel are on a multiprocessor at once, in words for a plan.
#pragma once
#include <string>

#include "simt/resident.h"

namespace duet::DUET_DEVICE {

// "8 blocks of 256 threads on a multiprocessor"; empty where kernels run on the host.
template <class... P>
std::string resident_text(void (*kernel)(P...), int threads, int64_t shared_bytes) {
  const int blocks = resident_blocks(reinterpret_cast<const void*>(kernel), threads, shared_bytes);
  if (blocks < 0) return "";
  return std::to_string(blocks) + " blocks of " + std::to_string(threads) + " threads on a multiprocessor";
}

}  // namespace duet::DUET_DEVICE
