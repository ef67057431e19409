// SPDX-License-Identifier: Apache-2.0
// Whether products of bf16 use the instruction vdpbf16ps. It forms two products where a multiply-add of f32 forms one,
// but some CPUs issue it half as often, and then it gains nothing. So both micro-kernels are timed once, and the faster
// one is used.
#include "cpu_ref/gemm/engine.h"

#if defined(__x86_64__)
#include <chrono>

#include "cpu_ref/gemm/engine_avx512bf16.h"

namespace duet::engine {
namespace {

template <class F>
double fastest_s(const F& f) {  // the fastest of 20 runs of some microseconds: one undisturbed run is enough
  double best = 1;
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

bool measure_speedup() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx512bf16")) return false;
  constexpr int64_t kSteps = 128, kRows = 12;
  constexpr double kMinSpeedup = 1.3;
  alignas(64) static float a[kSteps * kRows], b[kSteps * kPairColumns], c[kRows * kPairColumns];
  Tile tile{};
  tile.rows = kRows;
  tile.columns = kPairColumns;
  tile.kc = kSteps;
  tile.a = a;
  tile.a_line = 1;
  tile.a_k = kRows;
  tile.b = b;
  tile.b_k = kPairColumns;
  tile.sums = c;
  tile.sums_step = kPairColumns;
  tile.last = true;
  const Result result{.c = c, .dtype = DType::f32, .step = kPairColumns};
  const PairTile pairs{kRows, 2, kSteps, a, 0, b, c};
  const double one = fastest_s([&] { run_tile(tile, result); }), two = fastest_s([&] { run_pair_tile(pairs); });
  return 2 * one > kMinSpeedup * two;
}

}  // namespace

bool pairs_are_faster() {
  const KernelShape kernel = kernel_shape();  // a smaller one where tests restrict the instruction set
  if (kernel.columns != kPairColumns || kernel.rows != kPairRows) return false;
  static const bool faster = measure_speedup();
  return faster;
}

void run_tile_of_pairs(const Tile& t, const Result& r) {
  alignas(64) float sums[kPairRows * kPairColumns];
  PairTile pairs{t.rows, t.b_k / 16, t.kc, t.a, t.a_k == 1 ? t.a_line : 0, t.b, sums};
  // Sums to which nothing is done become bf16 in registers. Of few k, what follows takes a third of the time.
  const bool as_they_are = t.last && !t.add && r.alpha == 1 && !r.bias && !r.relu && !r.accumulate;
  if (as_they_are && r.dtype == DType::bf16 && t.columns == kPairColumns && !t.placed) {
    pairs.halves = static_cast<bf16*>(r.c) + t.row * r.step + (r.columns ? r.columns->at(t.column) : t.column);
    pairs.halves_step = r.step;
    return run_pair_tile(pairs);
  }
  run_pair_tile(pairs);
  store_tile(t, r, sums, kPairColumns);
}

}  // namespace duet::engine
#else
namespace duet::engine {
bool pairs_are_faster() { return false; }
void run_tile_of_pairs(const Tile&, const Result&) {}
}  // namespace duet::engine
#endif
