// SPDX-License-Identifier: Apache-2.0
// A 64-bit checksum of bytes, XXH3 of xxHash: the same on every machine and in every version of the library.
#pragma once
#include <cstdint>

namespace duet {

uint64_t checksum(const void* data, int64_t bytes);

// Of large memory, on all threads: the checksum of the checksums of its chunks. Another value than checksum().
uint64_t parallel_checksum(const void* data, int64_t bytes);

}  // namespace duet
