// Flash style (arXiv:2205.14135, 2307.08691): a thread has a head, or some queries of one, and walks its keys in blocks.
// Of the scores only a block exists, in cache; maximum and sum of each query are carried from block to block. Products
// are register tiles of the matrix engine; under a causal mask each tile multiplies what its queries see and no more.
// Backward: the probabilities are formed again from lse; a head's gradients grow in place, block by block.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/attention/attention_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/registry.h"
#include "cpu_ref/gemm/engine.h"
#include "cpu_ref/pieces.h"
#include "cpu_ref/scratch.h"
#include "cpu_ref/softmax-inl.h"
#include "ops/attention/attention.h"

#ifndef DUET_CPU_REF_ATTENTION_TUNED_ONCE_
#define DUET_CPU_REF_ATTENTION_TUNED_ONCE_
namespace duet::flash {

constexpr int64_t kKeys = 128;  // of a block: a strip of v (16 KiB) stays in L1 while the queries' tiles pass by
constexpr int64_t kPitch = kKeys + 16;  // of the scores: rows a power of two apart would evict each other
constexpr int64_t kTiles = 8;           // of queries in a block: what is read of k and v from L2 serves so many tiles

// How a head is cut, and how it is told to the engine. Matrices are f32 in memory of their own where they are not as the
// engine reads them: another dtype, or rows that end within a vector.
struct Cut {
  engine::KernelShape kernel;
  int64_t D, padded, queries;  // padded: D in whole vectors; queries: of a block
  bool copies;

  explicit Cut(const AttentionShape& p)
      : kernel(engine::kernel_shape()),
        D(p.D),
        padded(ceil_div(p.D, kernel.lanes) * kernel.lanes),
        queries(kTiles * kernel.rows),
        copies(p.dtype != DType::f32 || p.D != padded) {}

  int64_t strips(int64_t columns) const { return ceil_div(columns, kernel.columns); }
  int64_t strip_floats(int64_t columns, int64_t k) const { return strips(columns) * kernel.columns * k; }
  int64_t width(int64_t columns, int64_t strip) const {
    return std::min(kernel.columns, columns - strip * kernel.columns);
  }
  int64_t height(int64_t width) const { return width <= kernel.lanes ? kernel.lanes : kernel.columns; }

  // to: strips of columns j0 ... of the matrix' transpose, each (k, height).
  void pack(const engine::Matrix& from, int64_t j0, int64_t columns, int64_t k, float* to) const {
    for (int64_t s = 0; s < strips(columns); ++s)
      from.pack(j0 + s * kernel.columns, width(columns, s), height(width(columns, s)), 0, k,
                to + s * kernel.columns * k);
  }
  int64_t tiles(int64_t rows) const { return ceil_div(rows, kernel.rows); }
};

// B of a product: rows k `pitch` apart or, pitch 0, strips of `columns` as pack() makes them, of `rows` k each, from
// row `first` on.
struct Right {
  const float* at;
  int64_t pitch, columns = 0, rows = 0, first = 0;
};
// A (rows, k): value p of row i at a[i * a_line + p * a_step]. to (rows, columns), rows `pitch` apart.
struct Product {
  const float* a;
  int64_t a_line, a_step;
  Right b;
  float* to;
  int64_t pitch;
  bool add;
};
inline void multiply(const Cut& cut, const Product& p, int64_t rows, int64_t columns, int64_t kc) {
  const int64_t strip = cut.kernel.columns;
  for (int64_t s = 0; s < cut.strips(columns); ++s) {
    const int64_t width = cut.width(columns, s);
    engine::Tile tile{};
    tile.rows = rows, tile.columns = width, tile.kc = kc;
    tile.a = p.a, tile.a_line = p.a_line, tile.a_k = p.a_step;
    tile.b_k = p.b.pitch ? p.b.pitch : cut.height(cut.width(p.b.columns, s));
    tile.b = p.b.at + s * strip * (p.b.pitch ? 1 : p.b.rows) + p.b.first * tile.b_k;
    tile.b_ahead = p.b.pitch ? strip : 8 * tile.b_k;
    tile.sums = p.to + s * strip, tile.sums_step = p.pitch, tile.add = p.add, tile.last = true;
    run_tile(tile, {.c = nullptr, .dtype = DType::f32, .step = 0});
  }
}

}  // namespace duet::flash
#endif

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
using flash::Cut, flash::kKeys, flash::kPitch;

// to (rows, padded) = from (rows, D), as f32, with zeros behind.
template <class T>
void widen_rows(const T* from, int64_t rows, int64_t D, int64_t padded, float* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t c = 0; c < padded; c += lanes)
      hn::StoreU(read(d, from + i * D + c, std::max<int64_t>(0, D - c)), d, to + i * padded + c);
}

HWY_INLINE void clear(float* row, int64_t first, int64_t last) {
  if (last > first) std::memset(row + first, 0, static_cast<size_t>(last - first) * sizeof(float));
}

// One block of a query's scores: s[0 .. n) become powers of two of s factor - top, where top is the maximum so far.
// Returns their sum.
HWY_INLINE float powers(float* s, int64_t n, float factor_value, float top_value) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, factor_value), top = hn::Set(d, top_value);
  auto sum0 = hn::Zero(d), sum1 = sum0;
  int64_t j = 0;
  for (; j + 2 * lanes <= n; j += 2 * lanes) {
    const auto e0 = exp2(d, hn::MulSub(hn::LoadU(d, s + j), factor, top));
    const auto e1 = exp2(d, hn::MulSub(hn::LoadU(d, s + j + lanes), factor, top));
    sum0 = hn::Add(sum0, e0), sum1 = hn::Add(sum1, e1);
    hn::StoreU(e0, d, s + j), hn::StoreU(e1, d, s + j + lanes);
  }
  for (; j < n; j += lanes) {
    const auto exists = hn::FirstN(d, static_cast<size_t>(std::min(n - j, lanes)));
    const auto e = hn::IfThenElseZero(exists, exp2(d, hn::MulSub(load(d, s + j, n - j, 0.0f), factor, top)));
    sum0 = hn::Add(sum0, e);
    store(d, e, s + j, n - j);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
}

HWY_INLINE float largest_product(const float* s, int64_t n, float factor_value) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, factor_value);
  auto max = hn::Set(d, -INFINITY);
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) max = hn::Max(max, hn::Mul(hn::LoadU(d, s + j), factor));
  if (j < n) {
    const auto exists = hn::FirstN(d, static_cast<size_t>(n - j));
    max = hn::Max(max, hn::IfThenElse(exists, hn::Mul(load(d, s + j, n - j, 0.0f), factor), hn::Set(d, -INFINITY)));
  }
  return hn::GetLane(hn::MaxOfLanes(d, max));
}

HWY_INLINE void scale_row(float* row, int64_t n, float factor) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, factor);
  for (int64_t c = 0; c < n; c += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, row + c), f), d, row + c);
}

// Forward: queries [first, last) of one head. q, y: (Tq, D), k, v: (Tk, D), lse: (Tq). scratch: forward_scratch.
template <class T>
void forward_head(const Attention& p, const T* q, const T* k, const T* v, T* y, float* lse, int64_t first, int64_t last,
                  float* scratch) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Cut cut(p);
  const int64_t D = p.D, keys = p.visible(last - 1);
  float *k_strips = scratch, *v_strips = k_strips + cut.strip_floats(kKeys, D) * ceil_div(p.Tk, kKeys);
  float *s = v_strips + cut.strip_floats(D, p.Tk), *out = s + cut.queries * kPitch;
  float *wide_q = out + cut.queries * cut.padded, *top = wide_q + (cut.copies ? cut.queries * cut.padded : 0);
  float *sum = top + cut.queries + lanes, *before = sum + cut.queries + lanes;
  const engine::Matrix k_rows(k, p.dtype, D, 1), v_columns(v, p.dtype, 1, D);
  for (int64_t j = 0; j < keys; j += kKeys)
    cut.pack(k_rows, j, std::min(kKeys, keys - j), D, k_strips + j / kKeys * cut.strip_floats(kKeys, D));
  cut.pack(v_columns, 0, D, keys, v_strips);
  const auto factor = static_cast<float>(p.factor() * std::numbers::log2e);

  for (int64_t i0 = first; i0 < last; i0 += cut.queries) {
    const int64_t rows = std::min(cut.queries, last - i0), tiles = cut.tiles(rows);
    const auto tile_row = [&](int64_t t) { return rows * t / tiles; };
    const float* a = reinterpret_cast<const float*>(q + i0 * D);
    if (cut.copies) widen_rows(q + i0 * D, rows, D, cut.padded, wide_q), a = wide_q;
    const int64_t a_line = cut.copies ? cut.padded : D;
    std::fill_n(top, rows + lanes, -INFINITY), std::fill_n(sum, rows + lanes, 0.0f);
    clear(out, 0, rows * cut.padded);

    for (int64_t j0 = 0; j0 < p.visible(i0 + rows - 1); j0 += kKeys) {
      // Keys of this block that query i sees; a tile takes as many as its last query.
      const auto seen = [&](int64_t i) { return std::clamp<int64_t>(p.visible(i0 + i) - j0, 0, kKeys); };
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t r = tile_row(t), n = seen(tile_row(t + 1) - 1);
        multiply(cut,
                 {.a = a + r * a_line,
                  .a_line = a_line,
                  .a_step = 1,
                  .b = {.at = k_strips + j0 / kKeys * cut.strip_floats(kKeys, D),
                        .pitch = 0,
                        .columns = std::min(kKeys, keys - j0),
                        .rows = D},
                  .to = s + r * kPitch,
                  .pitch = kPitch,
                  .add = false},
                 tile_row(t + 1) - r, n, D);
      }
      for (int64_t i = 0; i < rows; ++i) {
        before[i] = top[i];
        top[i] = std::max(top[i], largest_product(s + i * kPitch, seen(i), factor));
      }
      for (int64_t i = 0; i < rows; i += lanes) {  // before: what the rows' sums are worth now
        const auto change = exp2(d, hn::Sub(hn::LoadU(d, before + i), hn::LoadU(d, top + i)));
        hn::StoreU(change, d, before + i);
      }
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t r = tile_row(t), n = seen(tile_row(t + 1) - 1);
        if (n == 0) continue;
        for (int64_t i = r; i < tile_row(t + 1); ++i) {
          const int64_t mine = seen(i);
          if (mine > 0) {
            sum[i] = sum[i] * before[i] + powers(s + i * kPitch, mine, factor, top[i]);
            if (before[i] != 1) scale_row(out + i * cut.padded, cut.padded, before[i]);
          }
          clear(s + i * kPitch, mine, n);
        }
        multiply(cut,
                 {.a = s + r * kPitch,
                  .a_line = kPitch,
                  .a_step = 1,
                  .b = {.at = v_strips, .pitch = 0, .columns = D, .rows = keys, .first = j0},
                  .to = out + r * cut.padded,
                  .pitch = cut.padded,
                  .add = true},
                 tile_row(t + 1) - r, D, n);
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      const auto scale = hn::Set(d, 1 / sum[i]);
      for (int64_t c = 0; c < D; c += lanes)
        write(d, hn::Mul(hn::LoadU(d, out + i * cut.padded + c), scale), y + (i0 + i) * D + c, D - c);
      lse[i0 + i] = (top[i] + std::log2(sum[i])) * std::numbers::ln2_v<float>;
    }
  }
}

int64_t forward_scratch(const AttentionShape& p) {
  const Cut cut(p);
  return cut.strip_floats(kKeys, p.D) * ceil_div(p.Tk, kKeys) + cut.strip_floats(p.D, p.Tk) +
         cut.queries * (kPitch + cut.padded * (cut.copies ? 2 : 1) + 3) + 3 * cut.kernel.lanes;
}

// item: a head, cut into `chunks` runs of queries.
void forward_item(const Attention& p, Args t, int64_t item, int64_t chunks, float* scratch) {
  using A = Attention;
  const int64_t head = item / chunks, chunk = item % chunks;
  const int64_t kv = head / p.H * p.kv_heads() + head % p.H / p.group();
  const int64_t first = p.Tq * chunk / chunks, last = p.Tq * (chunk + 1) / chunks;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    forward_head(p, t[A::q].as<const T>() + head * p.Tq * p.D, t[A::k].as<const T>() + kv * p.Tk * p.D,
                 t[A::v].as<const T>() + kv * p.Tk * p.D, t[A::y].as<T>() + head * p.Tq * p.D,
                 t[A::lse].as<float>() + head * p.Tq, first, last, scratch);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(forward_item);
HWY_EXPORT(forward_scratch);

Plan attention_tuned(const Attention& p, CpuContext& cpu) {
  if (!has_vectors(p.dtype)) return Unsupported{kNoVectors};
  const int64_t heads = p.B * p.H;
  // Enough parts for the threads, none so short that packing k and v shows.
  constexpr int64_t kShortest = 128;
  const int64_t wanted = cpu.threads() == 1 ? 1 : ceil_div(4 * cpu.threads(), std::max<int64_t>(1, heads));
  const int64_t chunks = std::clamp<int64_t>(p.Tq / kShortest, 1, wanted);
  Scratch scratch(cpu, HWY_DYNAMIC_DISPATCH(forward_scratch)(p));
  return [p, heads, chunks, scratch = std::move(scratch), &cpu](Args t) mutable {
    if (p.Tq == 0) return;
    cpu.parallel_for(heads * chunks, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) HWY_DYNAMIC_DISPATCH(forward_item)(p, t, i, chunks, scratch.mine());
    });
  };
}
DUET_REGISTER(attention_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
#endif
