// SPDX-License-Identifier: Apache-2.0
// When results should bypass the caches, and rows be prefetched. Plans ask this once, when they are made.
#pragma once
#include <cstdint>

namespace duet {

// True when a plan touches over 1.2 times as many bytes as the last-level cache holds. Then hardly a line of its output
// is still in cache at the next run, and non-temporal stores save reading each line before it is written. With fewer
// bytes they would do harm: they move a result out of the cache that is read next. A footprint just beyond the cache
// still finds the larger part of its lines there, since caches do not replace strictly the oldest line: with 36 MiB on
// 32 MiB of cache, relu and unscale take 0.72 to 0.86 of the time without these stores, and sigmoid 0.86 to 1.02.
// The size of the cache is what the kernel reports (sysconf of glibc adds up the L3 slices of all sockets on AMD), or
// the environment variable DUET_LAST_LEVEL_BYTES: with 0, tests have small tensors streamed.
bool beyond_cache(int64_t bytes);

}  // namespace duet
