// SPDX-License-Identifier: Apache-2.0
// study/transfer with stores that bypass the caches, at any size: beyond the caches they save reading each line before
// it is written; within them they move the result out to memory.
#include <immintrin.h>

#include <cstring>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/study/transfer.h"

namespace duet {
namespace {

// Vectors of 16 bytes, which every x86-64 has: stores to memory are the limit, not their width.
void copy_past_caches(char* to, const char* from, int64_t bytes) {
  constexpr int64_t kVector = 16;
  const auto misaligned = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % kVector);
  const int64_t head = std::min(bytes, (kVector - misaligned) % kVector);
  std::memcpy(to, from, static_cast<size_t>(head));
  int64_t i = head;
  for (; i + 4 * kVector <= bytes; i += 4 * kVector) {
    const auto* source = reinterpret_cast<const __m128i*>(from + i);
    auto* target = reinterpret_cast<__m128i*>(to + i);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();
  std::memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
}

Plan study_transfer_streaming(const Transfer& p, CpuContext& cpu) {
  if (const char* reason = not_of_the_cpu(p)) return Unsupported{reason};
  return in_parts(p, cpu, copy_past_caches);
}
DUET_REGISTER(study_transfer_streaming);  // cpu.streaming

}  // namespace
}  // namespace duet
