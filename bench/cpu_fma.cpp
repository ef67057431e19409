// SPDX-License-Identifier: Apache-2.0
// The loops behind the arithmetic ceilings (cpu_loops.h). In assembly, since a compiler may spill an accumulator, and
// the loop then shows a quarter of the peak. Twelve chains cover
// latency times throughput of every x86 so far (Intel f32: 4 cycles x 2 a cycle; bf16 on Zen 4: 6 cycles x 1).
// Left out until there is a machine to run them on: AMX (bf16, int8) and AVX512-FP16.
#include <algorithm>
#include <iterator>

#include "bench/cpu_loops.h"

namespace duet::bench {
namespace {

template <class T>
struct alignas(64) Vector {
  T lanes[64 / sizeof(T)];
  explicit Vector(T value) { std::fill(std::begin(lanes), std::end(lanes), value); }
};

// The chains are in registers 0 to 11 and start at `first`; registers 12 and 13 hold `factor`, so small that nothing
// overflows. Not zeros: they draw less power, and the clock would be higher than with real data. `last` clears the
// upper halves of the registers after the loop.
#define DUET_COMPUTE_LOOP(function, first, factor, load, reg, round, last)                                        \
  void function(int64_t rounds) {                                                                                 \
    const Vector start{first};                                                                                    \
    const Vector small{factor};                                                                                   \
    asm volatile(".irp i,0,1,2,3,4,5,6,7,8,9,10,11\n" load " %[start], %%" reg                                    \
                 "\\i\n.endr\n"                                                                                   \
                 ".irp i,12,13\n" load " %[small], %%" reg                                                        \
                 "\\i\n.endr\n"                                                                                   \
                 ".p2align 5\n1:\n" round "dec %[rounds]\njnz 1b\n" last                                          \
                 : [rounds] "+r"(rounds)                                                                          \
                 : [start] "m"(start), [small] "m"(small)                                                         \
                 : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
                   "xmm11", "xmm12", "xmm13");                                                                    \
  }
#define DUET_FUSED(instruction, reg) \
  ".irp i,0,1,2,3,4,5,6,7,8,9,10,11\n" instruction " %%" reg "12, %%" reg "13, %%" reg "\\i\n.endr\n"
// Without FMA: every second chain adds, the others multiply (by 1, so that they do not end in denormals).
#define DUET_APART(add, multiply)                                                         \
  ".irp i,0,2,4,6,8,10\n" add " %%xmm12, %%xmm\\i\n.endr\n.irp i,1,3,5,7,9,11\n" multiply \
  " %%xmm13, "                                                                            \
  "%%xmm\\i\n.endr\n"

constexpr float kSmall = 1e-3f;
constexpr uint16_t kSmallBf16 = 0x3a83;  // 1e-3
constexpr int8_t kSmallI8 = 1;

DUET_COMPUTE_LOOP(f32_avx512, 1.0f, kSmall, "vmovups", "zmm", DUET_FUSED("vfmadd231ps", "zmm"), "vzeroupper")
DUET_COMPUTE_LOOP(f64_avx512, 1.0, 1e-3, "vmovups", "zmm", DUET_FUSED("vfmadd231pd", "zmm"), "vzeroupper")
DUET_COMPUTE_LOOP(bf16_avx512, 1.0f, kSmallBf16, "vmovups", "zmm", DUET_FUSED("vdpbf16ps", "zmm"), "vzeroupper")
DUET_COMPUTE_LOOP(i8_avx512, int32_t{0}, kSmallI8, "vmovups", "zmm", DUET_FUSED("vpdpbusd", "zmm"), "vzeroupper")
DUET_COMPUTE_LOOP(f32_avx2, 1.0f, kSmall, "vmovups", "ymm", DUET_FUSED("vfmadd231ps", "ymm"), "vzeroupper")
DUET_COMPUTE_LOOP(f64_avx2, 1.0, 1e-3, "vmovups", "ymm", DUET_FUSED("vfmadd231pd", "ymm"), "vzeroupper")
DUET_COMPUTE_LOOP(f32_sse2, 1.0f, 1.0f, "movups", "xmm", DUET_APART("addps", "mulps"), "")
DUET_COMPUTE_LOOP(f64_sse2, 1.0, 1.0, "movups", "xmm", DUET_APART("addpd", "mulpd"), "")

// Operations of a round of twelve: a lane of a fused instruction multiplies and adds.
constexpr double fused(int lanes) { return 12 * 2 * lanes; }
constexpr double apart(int lanes) { return 12 * lanes; }

}  // namespace

std::vector<ComputeLoop> compute_loops() {
  // Short floats can also be widened on the way in and multiplied as f32, which vdpbf16ps does not always beat.
  const std::vector<std::string> widened{"f32", "bf16", "f16", "f8e4m3"};
  std::vector<ComputeLoop> loops{{widened, apart(4), f32_sse2}, {{"f64"}, apart(2), f64_sse2}};
  if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) {
    loops = {{widened, fused(8), f32_avx2}, {{"f64"}, fused(4), f64_avx2}};
  }
  if (__builtin_cpu_supports("avx512f")) {  // in addition to AVX2, since a CPU may lower its clock for wide vectors
    loops.push_back({widened, fused(16), f32_avx512});
    loops.push_back({{"f64"}, fused(8), f64_avx512});
  }
  if (__builtin_cpu_supports("avx512bf16")) loops.push_back({{"bf16", "f8e4m3"}, fused(32), bf16_avx512});
  if (__builtin_cpu_supports("avx512vnni")) loops.push_back({{"i8"}, fused(64), i8_avx512});
  return loops;
}

}  // namespace duet::bench
