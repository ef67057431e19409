// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 (Salmon et al., SC 2011): counter-based random numbers, the same on every device and in the reference.
#pragma once
#include <cstdint>

#ifdef __CUDACC__
#define DUET_HD __host__ __device__
#else
#define DUET_HD
#endif

namespace duet {

struct Philox4 {
  uint32_t v[4];
};

// counter: position in the stream; key: the seed.
DUET_HD inline Philox4 philox4x32_10(uint64_t counter, uint64_t key) {
  uint32_t c0 = uint32_t(counter), c1 = uint32_t(counter >> 32), c2 = 0, c3 = 0;
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t(0xD2511F53u) * c0, p1 = uint64_t(0xCD9E8D57u) * c2;
    c0 = uint32_t(p1 >> 32) ^ c1 ^ k0;
    c1 = uint32_t(p1);
    c2 = uint32_t(p0 >> 32) ^ c3 ^ k1;
    c3 = uint32_t(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// The 32 random bits of element `index`: lane index % 4 of block index / 4.
DUET_HD inline uint32_t philox_bits(uint64_t index, uint64_t key) {
  return philox4x32_10(index >> 2, key).v[index & 3];
}

}  // namespace duet
