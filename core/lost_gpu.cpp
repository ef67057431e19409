// SPDX-License-Identifier: Apache-2.0
// core/gpu.h: whether this process lost its GPU. In every build, so that tests can lose one that is not there.
#include <mutex>

#include "core/error.h"
#include "core/gpu.h"

namespace duet {
namespace {
std::mutex mutex;
std::string first_error;
}  // namespace

std::string lost_gpu() {
  const std::lock_guard lock(mutex);
  return first_error;
}

void report_lost_gpu(const std::string& error) {
  const std::lock_guard lock(mutex);
  if (first_error.empty()) first_error = error;
}

void require_usable_gpu() {
  if (const std::string first = lost_gpu(); !first.empty())
    throw Error("this process can no longer use the GPU, since: {}", first);
}

}  // namespace duet
