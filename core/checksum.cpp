// SPDX-License-Identifier: Apache-2.0
#include "core/checksum.h"

#include <tbb/parallel_for.h>
#include <xxhash.h>

#include <algorithm>
#include <vector>

namespace duet {

uint64_t checksum(const void* data, int64_t bytes) { return XXH3_64bits(data, static_cast<size_t>(bytes)); }

uint64_t parallel_checksum(const void* data, int64_t bytes) {
  constexpr int64_t kChunk = 1 << 20;
  std::vector<uint64_t> sums(static_cast<size_t>((bytes + kChunk - 1) / kChunk));
  const auto sum = [&](size_t i) {
    const int64_t first = static_cast<int64_t>(i) * kChunk;
    sums[i] = checksum(static_cast<const char*>(data) + first, std::min(kChunk, bytes - first));
  };
  if (sums.size() == 1)
    sum(0);
  else
    tbb::parallel_for(size_t{0}, sums.size(), sum);
  return checksum(sums.data(), static_cast<int64_t>(sums.size() * sizeof(uint64_t)));
}

}  // namespace duet
