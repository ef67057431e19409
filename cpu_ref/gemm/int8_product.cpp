// SPDX-License-Identifier: Apache-2.0
// int8::Product (int8_product.h), in two ways:
//   Few rows of x: dot products; w is read once, where it lies, as fast as memory delivers it.
//   Otherwise, after Goto and van de Geijn: all threads pack x into tiles of kRows rows; then a task takes strips of
//   kColumns rows of w, packs each in blocks of k and multiplies it by the tiles. Packing puts the values of one step
//   into 32 bits, so that the micro-kernel broadcasts those of x and loads those of w.
// The sums of a strip stay in the task's memory until k is complete; then `finish` gets them.
// Micro-kernels: int8_avx512vnni.cpp where the CPU has it; elsewhere run_tile below, on pairs of i16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/gemm/int8_product.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "cpu_ref/gemm/engine.h"
#include "cpu_ref/gemm/int8_product.h"

HWY_BEFORE_NAMESPACE();
namespace duet::int8::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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

}  // namespace duet::int8::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet::int8 {
namespace {
HWY_EXPORT(run_tile);

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

// Values of k in a lane.
constexpr int64_t step_values(bool vnni) { return vnni ? 4 : 2; }
}  // namespace

Product::Product(int64_t rows, int64_t columns, int64_t depth, CpuContext& cpu, WorkspaceLayout& workspace)
    : rows_(rows),
      columns_(columns),
      depth_(depth),
      vnni_(has_vnni()),
      dots_(vnni_ && rows > 0 && rows <= kMaxVectors),
      forks_(2.0 * rows * depth * columns >= kMinForkFlops && cpu.threads() > 1),
      cpu_(&cpu) {
  offsets_ = workspace.add<int32_t>(vnni_ ? rows : 0);
  if (dots_) {
    step_ = ceil_div(depth, 64) * 64;
    padded_ = workspace.add<int8_t>(rows * step_);
    sums_ = workspace.add<int32_t>(columns * kMaxVectors);
    return;
  }
  const int64_t strips = ceil_div(columns, kColumns), all_tiles = ceil_div(rows, kRows);
  steps_ = ceil_div(depth, step_values(vnni_));
  // A task takes one strip and some tiles.
  const int64_t wanted = forks_ ? kTasksPerThread * cpu.threads() : 1;
  parts_ = std::max(ceil_div(all_tiles, kMaxTaskTiles),
                    std::min(ceil_div(wanted, std::max<int64_t>(1, strips)), ceil_div(all_tiles, 4)));
  task_tiles_ = ceil_div(all_tiles, std::max<int64_t>(1, parts_));
  block_ = std::clamp<int64_t>(steps_, 1, kBlockValues / step_values(vnni_));
  packed_ = workspace.add<int32_t>(rows * steps_);
  sums_ = workspace.add<int32_t>(task_lanes() * (forks_ ? cpu.threads() : 1));
}

int64_t Product::task_lanes() const { return (block_ + task_tiles_ * kRows) * kColumns; }

std::string Product::describe() const {
  return dots_ ? "VNNI, dot products" : vnni_ ? "VNNI, 12x32 tiles" : "i16, 12x32 tiles";
}

void Product::operator()(const Args& t, const int8_t* x, const int8_t* w, const Use& use) const {
  if (dots_)
    dot_products(t, x, w, use);
  else if (vnni_)
    tiles<true>(t, x, w, use);
  else
    tiles<false>(t, x, w, use);
}

void Product::dot_products(const Args& t, const int8_t* x, const int8_t* w, const Use& use) const {
  int8_t* const copy = t.workspace(padded_);
  int32_t *const offset = t.workspace(offsets_), *const sum = t.workspace(sums_);
  for (int64_t i = 0; i < rows_; ++i) {
    std::copy_n(x + i * depth_, depth_, copy + i * step_);
    std::fill(copy + i * step_ + depth_, copy + (i + 1) * step_, int8_t{0});
  }
  sum_rows(x, depth_, 0, rows_, offset);
  const Dots dots{rows_, depth_, step_, copy, w, sum};
  const int64_t grain = 4 * ceil_div(1 << 14, 4 * std::max<int64_t>(1, depth_));
  cpu_->parallel_for(columns_, grain, [&](int64_t first, int64_t last) {
    run_dots_avx512vnni(dots, first, last);
    // Hand them on, kColumns at a time.
    for (int64_t o = first; o < last; o += kColumns) {
      const int64_t columns = std::min<int64_t>(kColumns, last - o);
      int32_t part[kMaxVectors * kColumns] = {};
      for (int64_t j = 0; j < columns; ++j)
        for (int64_t i = 0; i < rows_; ++i) part[i * kColumns + j] = sum[(o + j) * kMaxVectors + i];
      use({rows_, columns, 0, o, part, offset});
    }
  });
}

template <bool kVnni>
void Product::tiles(const Args& t, const int8_t* x, const int8_t* w, const Use& use) const {
  constexpr int64_t kStep = step_values(kVnni);
  const int64_t all_tiles = ceil_div(rows_, kRows), strips = ceil_div(columns_, kColumns);
  int32_t *const a = t.workspace(packed_), *const offset = t.workspace(offsets_), *const memory = t.workspace(sums_);
  const auto rows_of = [&](int64_t tile) { return std::min<int64_t>(kRows, rows_ - tile * kRows); };
  const auto share = [&](int64_t n, const auto& body) {
    if (forks_)
      cpu_->parallel_for(n, 1, body);
    else if (n > 0)
      body(int64_t{0}, n);
  };
  // Pack x: all k of a tile are adjacent.
  share(all_tiles, [&](int64_t first, int64_t last) {
    for (int64_t tile = first; tile < last; ++tile) {
      const int64_t row = tile * kRows, rows = rows_of(tile);
      pack<kVnni, false>(x + row * depth_, depth_, rows, rows, 0, depth_, a + row * steps_);
      if (kVnni) sum_rows(x, depth_, row, row + rows, offset);
    }
  });
  // Strips of w, by parts of the tiles.
  share(strips * parts_, [&](int64_t first, int64_t last) {
    int32_t* const b = memory + (forks_ ? CpuContext::thread_index() : 0) * task_lanes();
    int32_t* const sums = b + block_ * kColumns;
    for (int64_t task = first; task < last; ++task) {
      const int64_t o0 = task / parts_ * kColumns, columns = std::min<int64_t>(kColumns, columns_ - o0);
      const int64_t tile0 = task % parts_ * task_tiles_, tile1 = std::min(all_tiles, tile0 + task_tiles_);
      const auto of_tile = [&](int64_t tile) { return sums + (tile - tile0) * kRows * kColumns; };
      for (int64_t k0 = 0; k0 == 0 || k0 < steps_; k0 += block_) {  // a depth of 0 takes one round as well
        const int64_t k1 = std::min(steps_, k0 + block_);
        pack<kVnni, true>(w + o0 * depth_, depth_, columns, kColumns, k0 * kStep, std::min(depth_, k1 * kStep), b);
        for (int64_t tile = tile0; tile < tile1; ++tile) {
          const int64_t rows = rows_of(tile);
          const Tile product{rows, k1 - k0, a + tile * kRows * steps_ + k0 * rows, b, of_tile(tile), k0 > 0};
          if constexpr (kVnni)
            run_tile_avx512vnni(product);
          else
            HWY_DYNAMIC_DISPATCH(run_tile)(product);
        }
      }
      for (int64_t tile = tile0; tile < tile1; ++tile)
        use({rows_of(tile), columns, tile * kRows, o0, of_tile(tile), kVnni ? offset + tile * kRows : nullptr});
    }
  });
}

}  // namespace duet::int8
#endif
