// SPDX-License-Identifier: Apache-2.0
// Memory that is read soon, asked for ahead. Where a kernel reads several rows at once, or computes between the rows
// that it reads, hardware prefetchers fall behind. One thread of an AMD EPYC with AVX-512, 2026-11-30, medians of
// bench_all --scale standard --dtype f32 --impl cpu.tuned --threads 1 --filter '^(copy|max_pool2d|avg_pool2d)/', cases
// of 64 MiB and more: pooling moved 16 to 37 GB/s without this, and 30 to 45 GB/s with it; copy moves 49 to 53. It is
// for data beyond the caches (streaming.h); in a cache it only costs instructions.
#pragma once
#include <cstdint>

namespace duet {

// Elements between those that are read and those that are asked for, where rows are short.
inline constexpr int64_t kPrefetchAhead = 1024;

// Asks for `count` elements from `from` on, which may lie outside of any tensor. Always inlined: g++ 12 drops calls of
// a function that only prefetches.
template <class T>
[[gnu::always_inline]] inline void prefetch(const T* from, int64_t count) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(from + i);
}

}  // namespace duet
