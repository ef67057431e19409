// SPDX-License-Identifier: Apache-2.0
// The plan of a product: how engine.h cuts it into blocks, strips and tiles, and which thread computes which. There is
// no arithmetic here. Start reading at choose_blocking and multiply.
#include "cpu_ref/gemm/engine.h"

#include <fmt/format.h>

#include "core/error.h"

namespace duet::engine {
namespace {
// Values of k in a block. L2 easily delivers a tile's rows of A and a strip of B (a step of 28 multiply-adds takes 184
// bytes). With fewer blocks, c is read and written less often, and c comes from further away.
constexpr int64_t kBlockK = 768;
// Columns of B of one task: with kBlockK values each, they fill half of an L2 of 1 MiB.
constexpr int64_t kTaskColumns = 160;
// Rows and columns of a block: enough that packing again takes less than 1/1000 of the arithmetic, and a bound of the
// workspace.
constexpr int64_t kBlockRows = 4096, kBlockColumns = 4096;

// With at most so many rows of A, tasks take strips of B one by one, unless they take tiles: the rows fill a part of L2
// with kBlockK values each.
constexpr int64_t kMaxRowsByStrips = 256;
// With at most so many columns of B, and enough rows of A, tasks take tiles of A one by one, and B with all its columns
// fills most of L2. Packed by all threads, A would be more than L2 holds, written by one core and read by another.
constexpr int64_t kMaxColumnsByTiles = 512, kFloatsByTiles = 256 * kBlockK;
// With at most so many rows of A (kMaxRowsByStrips) or columns of B, packing A does not pay: each core takes what
// another one packed from its cache, and takes the lines back for the next product. Tiles of unpacked A have fewer
// rows, because more rows at a distance of a power of two would evict each other from L1.
constexpr int64_t kMaxColumnsUnpacked = 896;
constexpr int64_t kMaxUnpackedRows = 10;
// But A that is stored across k (transposed) is packed from these extents on, unless several threads would take what
// one of them packed. Each k of a tile is on a line of its own, so that a tile fills L1, or where those lines are a
// multiple of 4 KiB apart a few sets of it, and comes from L2 for every strip. An AMD EPYC with AVX2, 2026-11-28,
// medians of three runs of bench_all --case 'gemm m:3072 n:768 k:1024 trans_a:1' --impl cpu.tuned --threads 1
// --times-only --in-process: 101 ms in place, 69 ms packed.
constexpr int64_t kMinColumnsAcross = 129, kMinDepthAcross = 256;

// By strips, B that could be read in place is packed for at least kMinTilesPacked tiles if the strip, which each of
// them reads, is so deep that it would not stay in L1: rows that are a multiple of 1 KiB apart fill at most four of its
// 64 sets, and from 4 KiB on each row is on a page of its own. A strip of less depth is packed for kMinTilesShallow
// tiles. An AMD EPYC with AVX2 (tiles of 6 rows), 2026-11-30, bench_all --impl cpu.tuned --threads 1 --times-only,
// medians of three runs in turns: gemm m:256 n:1024 k:256 2.01 ms in place, 1.57 ms packed; m:35 n:8457 k:2560 47 and
// 27 ms; of little depth m:48 n:784 k:128 (8 tiles) 108 and 118 us, conv2d c:64 h:56 w:56 k:256 r:1 s:1 (43 tiles) 1.41
// and 1.34 ms.
constexpr int64_t kMinTilesPacked = 4, kMinTilesShallow = 20, kMinDepthPacked = 256;

constexpr double kMinForkFlops = 4e5;  // with fewer, waking a second thread costs more than it saves
constexpr double kMinTaskFlops = 4e5;  // of a task: some microseconds
constexpr int kTasksPerThread = 4;     // so that a thread that starts late costs little

// The extent of equal blocks, at most max_extent, each a multiple of unit.
int64_t balanced(int64_t extent, int64_t max_extent, int64_t unit) {
  const int64_t blocks = std::max<int64_t>(1, ceil_div(extent, max_extent));
  return std::max(unit, ceil_div(ceil_div(extent, blocks), unit) * unit);
}
int64_t aligned(int64_t floats) { return ceil_div(floats, 16) * 16; }

// Columns beside whole vectors, where they are so few that dot products are faster; otherwise 0. A product of nothing
// else keeps its vectors.
int64_t few_columns(const Blocking& b, int64_t columns, const KernelShape& kernel) {
  const int64_t few = columns % kernel.lanes;
  return !b.pairs && few <= std::min(kFewColumns, kernel.lanes / 4) && columns > kernel.lanes ? few : 0;
}

Blocking choose_blocking(const Shape& s, const KernelShape& kernel, int tasks) {
  Blocking b{};
  // Thin: all lines lie along k, and one side is a few vectors. A single vector lies along k whatever its strides are.
  const bool along_k = (s.a.along_k || s.m == 1) && (s.b.along_k || s.n == 1) && !s.a.indexed && !s.b.indexed;
  if (along_k && s.a.dtype == s.result && s.b.dtype == s.result && std::min(s.m, s.n) <= kMaxVectors) {
    b.thin = true;
    b.max_tasks = tasks;
    return b;
  }
  // How to pack, then the extents of a block, then the workspace.
  b.pairs = s.a.has_pairs() && s.b.has_pairs() && pairs_are_faster();
  const int64_t k = b.pairs ? ceil_div(s.k, 2) : s.k;
  b.strip_by_strip = s.m <= kMaxRowsByStrips;
  // Rows of bf16 hold their pairs side by side, if none is half of one.
  const bool pairs_in_place = b.pairs && s.a.along_k && !s.a.indexed && s.k % 2 == 0;
  const bool fills_l1 = !s.a.along_k && s.n >= kMinColumnsAcross && k >= kMinDepthAcross;
  b.pack_a = !(s.a.in_place() || pairs_in_place) || (s.n > kMaxColumnsUnpacked && !b.strip_by_strip) ||
             (fills_l1 && (!b.strip_by_strip || tasks == 1));
  b.tile_by_tile = b.pack_a && s.n <= kMaxColumnsByTiles && (!b.strip_by_strip || 2 * s.m >= s.n);
  b.strip_by_strip &= !b.tile_by_tile;
  b.tile_rows = !b.pack_a && s.a.along_k ? std::min(kernel.rows, kMaxUnpackedRows) : kernel.rows;
  b.pack_b = !s.b.in_place() || s.b.along_k || !b.strip_by_strip ||
             ceil_div(s.m, b.tile_rows) >= (k >= kMinDepthPacked ? kMinTilesPacked : kMinTilesShallow);
  b.k = balanced(k, b.tile_by_tile ? std::min(kBlockK, kFloatsByTiles / std::max<int64_t>(1, s.n)) : kBlockK, 8);
  b.rows = balanced(s.m, kBlockRows, kernel.rows);
  b.columns = balanced(s.n, kBlockColumns, kernel.columns);
  const int64_t strips = b.columns / kernel.columns;
  b.max_tasks = b.strip_by_strip ? std::min<int64_t>(tasks, strips) : tasks;
  if (b.tile_by_tile) b.max_tasks = std::min<int64_t>(tasks, ceil_div(b.rows, b.tile_rows));
  b.a_floats = b.pack_a ? aligned((b.tile_by_tile ? b.max_tasks * b.tile_rows : b.rows) * b.k) : 0;
  b.b_floats = (b.strip_by_strip ? b.max_tasks : strips) * kernel.columns * b.k;
  b.sum_floats = s.result != DType::f32 && k > b.k ? aligned(b.rows * b.columns) : 0;
  return b;
}
}  // namespace

Engine::Engine(CpuContext& cpu, WorkspaceLayout& workspace, const Shape& shape, int64_t items, int64_t products_of_item)
    : cpu_(&cpu), shape_(shape), items_(items), kernel_(kernel_shape()) {
  const double flops = 2.0 * shape.m * shape.n * shape.k, item_flops = flops * products_of_item;
  const int threads = cpu.threads();
  // Each item on a thread of its own, where no thread is left idle by a last odd item, or there are many items, or
  // items are so small that sharing one gains nothing.
  items_in_parallel_ = threads > 1 && items > 1 &&
                       (items % threads == 0 || items >= 8 * threads || item_flops < 10 * kMinForkFlops) &&
                       item_flops * items >= kMinForkFlops;
  forks_ = threads > 1 && !items_in_parallel_ && flops >= kMinForkFlops;
  blocking_ = choose_blocking(shape, kernel_, forks_ ? kTasksPerThread * threads : 1);
  memory_ = workspace.add<float>(blocking_.floats() * (items_in_parallel_ ? threads : 1));
}

std::string Engine::describe() const {
  if (blocking_.thin) return "dot products";
  return fmt::format(
      "{}x{} tiles, k {}{}, {}{}", blocking_.tile_rows, kernel_.columns, blocking_.pairs ? "2x" : "", blocking_.k,
      blocking_.pack_a ? (blocking_.pack_b ? "packed" : "a packed") : (blocking_.pack_b ? "b packed" : "in place"),
      blocking_.strip_by_strip ? ", by strips"
      : blocking_.tile_by_tile ? ", by tiles"
                               : "");
}

// Some neighbouring columns of a block: the first one, how many, and from one k to the next where they are packed.
struct Engine::Strip {
  int64_t column, width, step;
  bool few;  // Tile::few
};

// One block of the product: rows [m0, m1), columns [n0, n1), values [k0, k1) of k.
struct Engine::Block {
  int64_t m0, m1, n0, n1, k0, k1;  // k0 and k1 are pairs if the blocking says so
  bool last;                       // the last block of k
  int64_t tiles, strips;
  int64_t tile_rows,
      taller;            // rows of a tile; the first `taller` tiles have one more. Kept: dividing for each tile is slow
  int64_t few;           // columns beside whole vectors, which are a strip of their own, after all others
  int64_t strip, lanes;  // columns of a full strip; of a vector
  float *packed_a, *packed_b, *sums;

  int64_t rows() const { return m1 - m0; }
  int64_t columns() const { return n1 - n0; }
  int64_t kc() const { return k1 - k0; }
  int64_t tile_row(int64_t t) const { return m0 + t * tile_rows + std::min(t, taller); }
  Strip strip_at(int64_t s) const {
    if (few > 0 && s + 1 == strips) return {.column = columns() - few, .width = few, .step = 1, .few = true};
    const int64_t column = s * strip, left = columns() - few - column;
    if (left >= strip) return {.column = column, .width = strip, .step = strip, .few = false};
    return {.column = column, .width = left, .step = ceil_div(left, lanes) * lanes, .few = false};
  }
};

template <class Body>
void Engine::share(int64_t tasks, const Body& body) const {
  if (!forks_ || tasks == 1) {
    for (int64_t i = 0; i < tasks; ++i) body(i);
    return;
  }
  cpu_->parallel_for(tasks, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) body(i);
  });
}

void Engine::multiply(const Operand& a, const Operand& b, const Result& c, float* memory) const {
  const int64_t m = shape_.m, n = shape_.n, k = blocking_.pairs ? ceil_div(shape_.k, 2) : shape_.k;
  if (m == 0 || n == 0) return;
  if (blocking_.thin) return multiply_thin(a, b, c);
  if (blocking_.pairs && !blocking_.pack_a && a.line_step % 2 != 0)
    throw Error("rows of bf16 that begin {} elements apart have no whole pairs", a.line_step);
  float *packed_a = memory, *packed_b = packed_a + blocking_.a_floats, *sums = packed_b + blocking_.b_floats;
  for (int64_t m0 = 0; m0 < m; m0 += blocking_.rows)
    for (int64_t n0 = 0; n0 < n; n0 += blocking_.columns)
      for (int64_t k0 = 0; k0 == 0 || k0 < k; k0 += blocking_.k) {  // k = 0 takes one round as well
        Block block{.m0 = m0,
                    .m1 = std::min(m, m0 + blocking_.rows),
                    .n0 = n0,
                    .n1 = std::min(n, n0 + blocking_.columns),
                    .k0 = k0,
                    .k1 = std::min(k, k0 + blocking_.k),
                    .last = k0 + blocking_.k >= k,
                    .tiles = 0,
                    .strips = 0,
                    .tile_rows = 0,
                    .taller = 0,
                    .few = 0,
                    .strip = kernel_.columns,
                    .lanes = kernel_.lanes,
                    .packed_a = packed_a,
                    .packed_b = packed_b,
                    .sums = blocking_.sum_floats > 0 ? sums : nullptr};
        block.tiles = ceil_div(block.rows(), blocking_.tile_rows);
        block.few = few_columns(blocking_, block.columns(), kernel_);
        block.strips = ceil_div(block.columns() - block.few, block.strip) + (block.few > 0 ? 1 : 0);
        block.tile_rows = block.rows() / block.tiles;
        block.taller = block.rows() % block.tiles;
        pack(a, b, block);
        compute(a, b, c, block);
      }
}

void Engine::multiply_thin(const Operand& a, const Operand& b, const Result& c) const {
  const bool swapped = shape_.m < shape_.n;  // the few vectors are rows of A, and B is the matrix
  const Operand &matrix = swapped ? b : a, &thin = swapped ? a : b;
  const int64_t lines = swapped ? shape_.n : shape_.m, vectors = swapped ? shape_.m : shape_.n;
  const ThinProduct product{.dtype = shape_.result,
                            .matrix = matrix.stored,
                            .thin = thin.stored,
                            .matrix_step = matrix.line_step,
                            .thin_step = thin.line_step,
                            .k = shape_.k,
                            .vectors = vectors,
                            .c = c.c,
                            .c_line = swapped ? 1 : c.step,
                            .c_thin = swapped ? c.step : 1,
                            .bias = c.bias,
                            .bias_line = swapped != c.bias_of_rows ? 1 : 0,
                            .bias_thin = swapped != c.bias_of_rows ? 0 : 1,
                            .alpha = c.alpha,
                            .relu = c.relu,
                            .accumulate = c.accumulate};
  const int64_t tasks = std::min<int64_t>(blocking_.max_tasks, ceil_div(lines, 4));
  share(tasks, [&](int64_t task) { run_thin(product, lines * task / tasks, lines * (task + 1) / tasks); });
}

void Engine::pack_strip(const Operand& from, int64_t line0, int64_t lines, int64_t height, const Block& block,
                        float* to) const {
  if (blocking_.pairs)
    from.pack_pairs(line0, lines, height, block.k0, block.k1, shape_.k, to);
  else
    from.pack(line0, lines, height, block.k0, block.k1, to);
}

void Engine::pack_columns(const Operand& b, const Strip& strip, const Block& block, float* to) const {
  const int64_t column = block.n0 + strip.column;
  if (!strip.few) return pack_strip(b, column, strip.width, strip.step, block, to);
  for (int64_t j = 0; j < strip.width; ++j) pack_strip(b, column + j, 1, 1, block, to + j * block.kc());
}

// Packs what all tasks of the block read: A and B, unless each task packs its tiles or its strips itself.
void Engine::pack(const Operand& a, const Operand& b, const Block& block) const {
  constexpr int64_t kTilesPerJob = 4;
  const int64_t a_jobs = blocking_.pack_a && !blocking_.tile_by_tile ? ceil_div(block.tiles, kTilesPerJob) : 0;
  const int64_t b_jobs = blocking_.strip_by_strip ? 0 : block.strips;
  share(a_jobs + b_jobs, [&](int64_t job) {
    if (job < a_jobs) {
      for (int64_t t = job * kTilesPerJob; t < std::min(block.tiles, (job + 1) * kTilesPerJob); ++t) {
        const int64_t row = block.tile_row(t), rows = block.tile_row(t + 1) - row;
        pack_strip(a, row, rows, rows, block, block.packed_a + (row - block.m0) * block.kc());
      }
    } else {
      const Strip strip = block.strip_at(job - a_jobs);
      pack_columns(b, strip, block, block.packed_b + strip.column * block.kc());
    }
  });
}

// The tiles of the block, once what they share is packed.
void Engine::compute(const Operand& a, const Operand& b, const Result& c, const Block& block) const {
  const int64_t kc = block.kc();
  const int64_t a_line = blocking_.pairs ? a.line_step / 2 : a.line_step;
  // Tile t of this strip, which is at packed_b if it is packed. Short products have many tiles in little time, so every
  // field is named: a Tile of zeros would cost as much as some steps of k.
  const auto tile_at = [&](int64_t t, const Strip& strip, const float* packed_b) {
    const int64_t row = block.tile_row(t), rows = block.tile_row(t + 1) - row, column = block.n0 + strip.column;
    const bool placed = c.rows || (c.columns && c.columns->neighbours(column, strip.width) < strip.width);
    float* sums = nullptr;
    if (c.dtype == DType::f32)
      sums = static_cast<float*>(c.c) + (placed ? 0 : row * c.step + (c.columns ? c.columns->at(column) : column));
    else if (block.sums)
      sums = block.sums + (row - block.m0) * blocking_.columns + column - block.n0;
    return Tile{
        .rows = rows,
        .columns = strip.width,
        .kc = kc,
        .a = blocking_.pack_a ? block.packed_a + (row - block.m0) * kc : a.f32() + row * a_line + block.k0 * a.k_step,
        .a_line = blocking_.pack_a ? 1 : a_line,
        .a_k = blocking_.pack_a ? rows : a.k_step,
        .b = packed_b,
        .b_k = strip.step,
        .few = strip.few,
        .b_ahead = 8 * strip.step,
        .sums = sums,
        .sums_step = c.dtype == DType::f32 ? c.step : blocking_.columns,
        .add = block.k0 > 0,
        .last = block.last,
        .row = row,
        .column = column,
        .placed = placed};
  };

  const auto run_tile = blocking_.pairs ? run_tile_of_pairs : engine::run_tile;

  // By strips: each task takes some strips of B.
  const double flops = 2.0 * block.rows() * block.columns() * kc;
  const auto wanted = std::clamp<int64_t>(static_cast<int64_t>(flops / kMinTaskFlops), 1, blocking_.max_tasks);
  if (blocking_.strip_by_strip) {
    const int64_t tasks = std::min(wanted, block.strips);
    share(tasks, [&](int64_t task) {
      float* scratch = block.packed_b + task * block.strip * blocking_.k;
      const int64_t end = block.strips * (task + 1) / tasks;
      for (int64_t s = block.strips * task / tasks; s < end; ++s) {
        const Strip strip = block.strip_at(s);
        const bool in_place = !blocking_.pack_b && strip.width == block.strip;
        if (!in_place) pack_columns(b, strip, block, scratch);
        for (int64_t t = 0; t < block.tiles; ++t) {
          Tile tile = tile_at(t, strip, scratch);
          if (in_place) {
            tile.b = b.f32() + block.n0 + strip.column + block.k0 * b.k_step;
            tile.b_k = b.k_step;
            tile.b_ahead = block.strip;
          }
          run_tile(tile, c);
        }
      }
    });
    return;
  }
  // By tiles: each task takes some tiles of A.
  if (blocking_.tile_by_tile) {
    const int64_t tasks = std::min(wanted, block.tiles);
    share(tasks, [&](int64_t task) {
      float* scratch = block.packed_a + task * blocking_.tile_rows * blocking_.k;
      const int64_t end = block.tiles * (task + 1) / tasks;
      for (int64_t t = block.tiles * task / tasks; t < end; ++t) {
        const int64_t row = block.tile_row(t), rows = block.tile_row(t + 1) - row;
        pack_strip(a, row, rows, rows, block, scratch);
        for (int64_t s = 0; s < block.strips; ++s) {
          const Strip strip = block.strip_at(s);
          Tile tile = tile_at(t, strip, block.packed_b + strip.column * kc);
          tile.a = scratch;
          run_tile(tile, c);
        }
      }
    });
    return;
  }
  // Otherwise the tasks are a grid of equal parts of the block: narrow enough for L2, and enough of them for the
  // threads.
  int64_t down = 1, across = ceil_div(block.columns(), kTaskColumns);
  while (down * across < wanted && (down < block.tiles || across < block.strips)) {
    const bool wide = block.columns() * down >= block.rows() * across || down == block.tiles;
    ++(wide && across < block.strips ? across : down);
  }
  share(down * across, [&](int64_t task) {
    const int64_t i = task % down, j = task / down;
    const int64_t tile_end = block.tiles * (i + 1) / down, strip_end = block.strips * (j + 1) / across;
    for (int64_t t = block.tiles * i / down; t < tile_end; ++t)
      for (int64_t s = block.strips * j / across; s < strip_end; ++s) {
        const Strip strip = block.strip_at(s);
        run_tile(tile_at(t, strip, block.packed_b + strip.column * kc), c);
      }
  });
}

}  // namespace duet::engine
