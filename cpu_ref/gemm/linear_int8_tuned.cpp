// SPDX-License-Identifier: Apache-2.0
// linear_int8 with sums in i32, in two ways (int8.h):
//   Few samples: dot products; w is read once, where it lies, as fast as memory delivers it.
//   Otherwise, after Goto and van de Geijn: all threads pack x into tiles of kRows rows; then a task takes strips of
//   kColumns rows of w, packs each in blocks of k and multiplies it by the tiles. Packing puts the values of one step
//   into 32 bits, so that the micro-kernel broadcasts those of x and loads those of w.
// The sums of a strip stay in the task's memory until k is complete; then they are scaled.
// Micro-kernels: int8_avx512vnni.cpp where the CPU has it; elsewhere run_tile below, on pairs of i16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/gemm/linear_int8_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cstring>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/gemm/engine.h"
#include "cpu_ref/gemm/int8.h"
#include "ops/gemm/linear_int8.h"

HWY_BEFORE_NAMESPACE();
namespace duet::int8::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace duet::HWY_NAMESPACE;  // NOLINT: for_float, load_as_f32, store_f32_as

using D = hn::ScalableTag<int32_t>;
constexpr D d;
constexpr int64_t kLanes = hn::MaxLanes(d);
using Vec = hn::Vec<D>;

// sum + the two products of the i16 in each lane.
HWY_INLINE Vec add_products(Vec a, Vec b, Vec sum) {
#if HWY_TARGET <= HWY_SSSE3 || HWY_TARGET == HWY_SSE2
  const hn::Repartition<int16_t, D> d16;
  Vec unused = hn::Zero(d);  // on x86 the products of a lane stay in it
  return hn::ReorderWidenMulAccumulate(d, hn::BitCast(d16, a), hn::BitCast(d16, b), sum, unused);
#else
  const auto low = [](Vec v) HWY_ATTR { return hn::ShiftRight<16>(hn::ShiftLeft<16>(v)); };
  sum = hn::Add(sum, hn::Mul(low(a), low(b)));
  return hn::Add(sum, hn::Mul(hn::ShiftRight<16>(a), hn::ShiftRight<16>(b)));
#endif
}

// kTileRows rows from row i0 on and 2 vectors of columns from j on.
template <int kTileRows>
void kernel(const Tile& t, int64_t i0, int64_t j) {
  Vec sum[kTileRows][2];
  int32_t* to = t.sums + i0 * kColumns + j;
#pragma GCC unroll 6
  for (int i = 0; i < kTileRows; ++i) {
    sum[i][0] = t.add ? hn::LoadU(d, to + i * kColumns) : hn::Zero(d);
    sum[i][1] = t.add ? hn::LoadU(d, to + i * kColumns + kLanes) : hn::Zero(d);
  }
  const int32_t *a = t.a + i0, *b = t.b + j;
  for (int64_t p = 0; p < t.steps; ++p, a += t.rows, b += kColumns) {
    const Vec b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + kLanes);
#pragma GCC unroll 6
    for (int i = 0; i < kTileRows; ++i) {
      const Vec row = hn::Set(d, a[i]);
      sum[i][0] = add_products(row, b0, sum[i][0]);
      sum[i][1] = add_products(row, b1, sum[i][1]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kTileRows; ++i) {
    hn::StoreU(sum[i][0], d, to + i * kColumns);
    hn::StoreU(sum[i][1], d, to + i * kColumns + kLanes);
  }
}

// 16 registers hold 6 x 2 sums: a tile is two of them high.
void run_tile(const Tile& t) {
  constexpr int kHalf = kRows / 2;
  constexpr void (*kKernels[kHalf])(const Tile&, int64_t, int64_t) = {kernel<1>, kernel<2>, kernel<3>,
                                                                      kernel<4>, kernel<5>, kernel<6>};
  static_assert(kColumns % (2 * kLanes) == 0);
  for (int64_t i = 0; i < t.rows; i += kHalf)
    for (int64_t j = 0; j < kColumns; j += 2 * kLanes) kKernels[std::min<int64_t>(kHalf, t.rows - i) - 1](t, i, j);
}

void finish(const LinearInt8& p, const Finish& f, Args t) {
  const hn::ScalableTag<float> df;
  const auto of_x = hn::Set(df, *t[LinearInt8::scale_x].as<const float>());
  const float* scale_w = t[LinearInt8::scale_w].as<const float>() + f.o0;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T* bias = t[LinearInt8::bias].as<const T>() + f.o0;
    T* y = t[LinearInt8::y].as<T>() + f.i0 * p.out + f.o0;
    for (int64_t j = 0; j < f.columns; j += kLanes) {
      const int64_t left = f.columns - j;
      const auto of_w = load(df, scale_w + j, left, 0.0f), b = load_as_f32(df, bias + j, left);
      for (int64_t i = 0; i < f.rows; ++i) {
        auto sum = hn::LoadU(d, f.sums + i * kColumns + j);
        if (f.offset) sum = hn::Sub(sum, hn::Set(d, f.offset[i]));
        store_f32_as(df, hn::MulAdd(hn::Mul(hn::ConvertTo(df, sum), of_x), of_w, b), y + i * p.out + j, left);
      }
    }
  });
}

}  // namespace duet::int8::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace int8 {
namespace {
HWY_EXPORT(run_tile);
HWY_EXPORT(finish);

// AVX512_VNNI, where tests do not restrict the instruction set.
bool has_vnni() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
         engine::kernel_shape().columns == kColumns;
#else
  return false;
#endif
}

constexpr int64_t kBlockValues = 2048;           // of k in a block: with VNNI, a strip takes 64 KiB of L2
constexpr int64_t kMaxTaskTiles = 1024 / kRows;  // of x in a task: their sums take 128 KiB
constexpr int64_t kTasksPerThread = 4;
constexpr double kMinForkFlops = 1e6;

// Value p of `line`, or 0 beyond its end, where a step is 4 bytes: with VNNI 4 values, as they are or plus 128; else 2
// values as i16.
template <bool kVnni, bool kUnsigned>
int32_t lane(const int8_t* line, int64_t p, int64_t end) {
  if constexpr (kVnni) {
    uint32_t bytes = 0;
    if (p + 4 <= end)
      std::memcpy(&bytes, line + p, 4);
    else
      std::memcpy(&bytes, line + p, static_cast<size_t>(end - p));
    return static_cast<int32_t>(kUnsigned ? bytes ^ 0x80808080u : bytes);
  } else {
    const auto low = static_cast<uint16_t>(int16_t{line[p]});
    const auto high = static_cast<uint16_t>(p + 1 < end ? int16_t{line[p + 1]} : int16_t{0});
    return static_cast<int32_t>(uint32_t{low} | uint32_t{high} << 16);
  }
}

// to[step * height + i] = the lane of that step of line i, for values [p0, p1) of `in`. Lines beyond `lines` are 0.
// Some lines at a time: more of them, a power of two apart, would evict each other from L1.
template <bool kVnni, bool kUnsigned>
void pack(const int8_t* from, int64_t in, int64_t lines, int64_t height, int64_t p0, int64_t p1, int32_t* to) {
  constexpr int64_t kStep = kVnni ? 4 : 2, kLines = 8;
  for (int64_t i0 = 0; i0 < height; i0 += kLines) {
    const int64_t end = std::min(height, i0 + kLines), real = std::clamp(lines, i0, end);
    int32_t* row = to;
    for (int64_t p = p0; p < p1; p += kStep, row += height) {
      for (int64_t i = i0; i < real; ++i) row[i] = lane<kVnni, kUnsigned>(from + i * in, p, p1);
      for (int64_t i = real; i < end; ++i) row[i] = 0;
    }
  }
}

// 128 times the sum of each row of x, for rows [first, last).
void sum_rows(const int8_t* x, int64_t in, int64_t first, int64_t last, int32_t* to) {
  for (int64_t i = first; i < last; ++i) {
    int32_t sum = 0;
    for (int64_t p = 0; p < in; ++p) sum += x[i * in + p];
    to[i] = 128 * sum;
  }
}

Plan dot_products(const LinearInt8& p, CpuContext& cpu) {
  const int64_t step = ceil_div(p.in, 64) * 64;
  WorkspaceLayout workspace;
  const auto padded = workspace.add<int8_t>(p.n * step);
  const auto offsets = workspace.add<int32_t>(p.n);
  const auto sums = workspace.add<int32_t>(p.out * kMaxVectors);
  auto run = [=, &cpu](Args t) {
    const auto* x = t[LinearInt8::x].as<const int8_t>();
    int8_t* copy = t.workspace(padded);
    int32_t *offset = t.workspace(offsets), *sum = t.workspace(sums);
    for (int64_t i = 0; i < p.n; ++i) {
      std::copy_n(x + i * p.in, p.in, copy + i * step);
      std::fill(copy + i * step + p.in, copy + (i + 1) * step, int8_t{0});
    }
    sum_rows(x, p.in, 0, p.n, offset);
    const Dots dots{p.n, p.in, step, copy, t[LinearInt8::w].as<const int8_t>(), sum};
    cpu.parallel_for(p.out, 4 * ceil_div(1 << 14, 4 * std::max<int64_t>(1, p.in)), [&](int64_t first, int64_t last) {
      run_dots_avx512vnni(dots, first, last);
      // Scale them, kColumns at a time.
      for (int64_t o = first; o < last; o += kColumns) {
        const int64_t columns = std::min<int64_t>(kColumns, last - o);
        int32_t part[kMaxVectors * kColumns] = {};
        for (int64_t j = 0; j < columns; ++j)
          for (int64_t i = 0; i < p.n; ++i) part[i * kColumns + j] = sum[(o + j) * kMaxVectors + i];
        HWY_DYNAMIC_DISPATCH(finish)(p, {p.n, columns, 0, o, part, offset}, t);
      }
    });
  };
  return Plan(std::move(run)).with("VNNI, dot products", std::move(workspace));
}

template <bool kVnni>
Plan tiles(const LinearInt8& p, CpuContext& cpu) {
  constexpr int64_t kStep = kVnni ? 4 : 2;
  const int64_t steps = ceil_div(p.in, kStep), all_tiles = ceil_div(p.n, kRows), strips = ceil_div(p.out, kColumns);
  // A task takes one strip and some tiles.
  const bool forks = 2.0 * p.n * p.in * p.out >= kMinForkFlops && cpu.threads() > 1;
  const int64_t wanted = forks ? kTasksPerThread * cpu.threads() : 1;
  const int64_t parts = std::max(ceil_div(all_tiles, kMaxTaskTiles),
                                 std::min(ceil_div(wanted, std::max<int64_t>(1, strips)), ceil_div(all_tiles, 4)));
  const int64_t task_tiles = ceil_div(all_tiles, std::max<int64_t>(1, parts));
  const int64_t block = std::clamp<int64_t>(steps, 1, kBlockValues / kStep);

  WorkspaceLayout workspace;
  const auto packed_x = workspace.add<int32_t>(p.n * steps);
  const auto offsets = workspace.add<int32_t>(kVnni ? p.n : 0);
  const int64_t strip_lanes = block * kColumns, sum_lanes = task_tiles * kRows * kColumns;
  const auto scratch = workspace.add<int32_t>((strip_lanes + sum_lanes) * (forks ? cpu.threads() : 1));
  auto run = [=, &cpu](Args t) {
    const auto *x = t[LinearInt8::x].as<const int8_t>(), *w = t[LinearInt8::w].as<const int8_t>();
    int32_t *a = t.workspace(packed_x), *offset = t.workspace(offsets), *memory = t.workspace(scratch);
    const auto rows_of = [&](int64_t tile) { return std::min<int64_t>(kRows, p.n - tile * kRows); };
    const auto share = [&](int64_t n, const auto& body) {
      if (forks)
        cpu.parallel_for(n, 1, body);
      else if (n > 0)
        body(int64_t{0}, n);
    };
    // Pack x: all k of a tile are adjacent.
    share(all_tiles, [&](int64_t first, int64_t last) {
      for (int64_t tile = first; tile < last; ++tile) {
        const int64_t row = tile * kRows, rows = rows_of(tile);
        pack<kVnni, false>(x + row * p.in, p.in, rows, rows, 0, p.in, a + row * steps);
        if (kVnni) sum_rows(x, p.in, row, row + rows, offset);
      }
    });
    // Strips of w, by parts of the tiles.
    share(strips * parts, [&](int64_t first, int64_t last) {
      int32_t* b = memory + (forks ? CpuContext::thread_index() : 0) * (strip_lanes + sum_lanes);
      int32_t* sums = b + strip_lanes;
      for (int64_t task = first; task < last; ++task) {
        const int64_t o0 = task / parts * kColumns, columns = std::min<int64_t>(kColumns, p.out - o0);
        const int64_t tile0 = task % parts * task_tiles, tile1 = std::min(all_tiles, tile0 + task_tiles);
        const auto of_tile = [&](int64_t tile) { return sums + (tile - tile0) * kRows * kColumns; };
        for (int64_t k0 = 0; k0 == 0 || k0 < steps; k0 += block) {  // in = 0 takes one round as well
          const int64_t k1 = std::min(steps, k0 + block);
          pack<kVnni, true>(w + o0 * p.in, p.in, columns, kColumns, k0 * kStep, std::min(p.in, k1 * kStep), b);
          for (int64_t tile = tile0; tile < tile1; ++tile) {
            const int64_t rows = rows_of(tile);
            const Tile product{rows, k1 - k0, a + tile * kRows * steps + k0 * rows, b, of_tile(tile), k0 > 0};
            if constexpr (kVnni)
              run_tile_avx512vnni(product);
            else
              HWY_DYNAMIC_DISPATCH(run_tile)(product);
          }
        }
        for (int64_t tile = tile0; tile < tile1; ++tile) HWY_DYNAMIC_DISPATCH(finish)
        (p, {rows_of(tile), columns, tile * kRows, o0, of_tile(tile), kVnni ? offset + tile * kRows : nullptr}, t);
      }
    });
  };
  return Plan(std::move(run)).with(kVnni ? "VNNI, 12x32 tiles" : "i16, 12x32 tiles", std::move(workspace));
}
}  // namespace
}  // namespace int8

namespace {
Plan linear_int8_tuned(const LinearInt8& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  if (!int8::has_vnni()) return int8::tiles<false>(p, cpu);
  return p.n > 0 && p.n <= int8::kMaxVectors ? int8::dot_products(p, cpu) : int8::tiles<true>(p, cpu);
}
DUET_REGISTER(linear_int8_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
