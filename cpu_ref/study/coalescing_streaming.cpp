// SPDX-License-Identifier: Apache-2.0
// study/coalescing on the CPU with stores that bypass the caches.
#include <immintrin.h>

#include <cstring>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/study/coalescing.h"

namespace duet {
namespace {

// Accesses are gathered to a line of 64 bytes, which is then written at once. What lies before the first whole line of
// y and after the last is written as usual.
template <int kWidth>
struct Streams {
  static constexpr int64_t kLine = 64;
  static void run(const char* x, char* y, int64_t count, int64_t stride) {
    int64_t g = 0;
    const auto one = [&] {
      std::memcpy(y + g * kWidth, x + g * stride * kWidth, kWidth);
      ++g;
    };
    while (g < count && reinterpret_cast<uintptr_t>(y + g * kWidth) % kLine >= kWidth) one();
    const bool aligned = reinterpret_cast<uintptr_t>(y + g * kWidth) % kLine == 0;
    for (; aligned && g + kLine / kWidth <= count; g += kLine / kWidth) {
      alignas(64) char line[kLine];
      for (int64_t e = 0; e < kLine / kWidth; ++e)
        std::memcpy(line + e * kWidth, x + (g + e) * stride * kWidth, kWidth);
      for (int64_t b = 0; b < kLine; b += 16)
        _mm_stream_si128(reinterpret_cast<__m128i*>(y + g * kWidth + b),
                         _mm_load_si128(reinterpret_cast<const __m128i*>(line + b)));
    }
    _mm_sfence();
    while (g < count) one();
  }
};

Plan study_coalescing_streaming(const Coalescing& p, CpuContext& cpu) { return accesses_in_parts<Streams>(p, cpu); }
DUET_REGISTER(study_coalescing_streaming);  // cpu.streaming

}  // namespace
}  // namespace duet
