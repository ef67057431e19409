// SPDX-License-Identifier: Apache-2.0
// attention, packed or not, and its backward in flash style (arXiv:2205.14135, 2307.08691). A thread takes a head, or
// some queries of one, and goes through its keys in blocks. Only one block of scores exists at a time, in cache; the
// maximum and the sum of each query are carried from block to block. Products are register tiles of the matrix engine
// (gemm/engine.h). Packed heads are read and written where they lie, by the distance between their rows.
// Under a mask each tile multiplies only the blocks of keys that its queries see, and of those no key after the last.
// Where the CPU multiplies pairs of bf16, forward does so, with probabilities rounded to bf16.
// Backward: the probabilities are formed again from lse. The gradients of a head are added up in place, block by block.
// decode.cpp has few queries of many keys. Start reading at forward_head.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/attention/attention_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/registration.h"
#include "cpu_ref/attention/decode.h"
#include "cpu_ref/attention/lengths.h"
#include "cpu_ref/attention/scores-inl.h"
#include "cpu_ref/attention/tensors.h"
#include "cpu_ref/gemm/engine.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/scratch.h"

#ifndef DUET_CPU_REF_ATTENTION_TUNED_ONCE_
#define DUET_CPU_REF_ATTENTION_TUNED_ONCE_
namespace duet::flash {

constexpr int64_t kKeys = 128;  // of a block: a strip of v (16 KiB) stays in L1 while all tiles of queries use it
constexpr int64_t kPitch = kKeys + 16;  // of the scores; rows a power of two apart would evict each other
constexpr int64_t kTiles = 8;           // of queries in a block: each use what is read of k and v from L2

// How a head is cut, and how its matrices are passed to the engine. A matrix that the engine cannot read as it is,
// because it has another dtype or rows that end within a vector, is copied to f32 in scratch memory (`copies`).
struct Cut {
  engine::KernelShape kernel;
  int64_t D, padded, queries;  // padded: D in whole vectors; queries: of a block
  bool copies;
  bool pairs;  // products are those of pairs of bf16, and k is counted in these

  explicit Cut(const AttentionShape& p, bool by_pairs = false)
      : kernel(engine::kernel_shape()),
        D(p.D),
        padded(ceil_div(p.D, kernel.lanes) * kernel.lanes),
        queries(kTiles * kernel.rows),
        copies(p.dtype != DType::f32 || p.D != padded),
        pairs(by_pairs) {}
  static Cut forward(const AttentionShape& p) { return Cut(p, p.dtype == DType::bf16 && engine::pairs_are_faster()); }

  int64_t depth(int64_t k) const { return pairs ? ceil_div(k, 2) : k; }

  int64_t strips(int64_t columns) const { return ceil_div(columns, kernel.columns); }
  int64_t strip_floats(int64_t columns, int64_t k) const { return strips(columns) * kernel.columns * depth(k); }
  int64_t width(int64_t columns, int64_t strip) const {
    return std::min(kernel.columns, columns - strip * kernel.columns);
  }
  int64_t height(int64_t width) const { return width <= kernel.lanes ? kernel.lanes : kernel.columns; }

  // Packs the columns j0, j0 + 1, ... of the transpose of the matrix to strips, each (depth(k), height).
  void pack(const engine::Matrix& from, int64_t j0, int64_t columns, int64_t k, float* to) const {
    for (int64_t s = 0; s < strips(columns); ++s)
      pack_strip(from, j0 + s * kernel.columns, width(columns, s), height(width(columns, s)), k,
                 to + strip_floats(kernel.columns, k) * s);
  }
  void pack_strip(const engine::Matrix& from, int64_t j0, int64_t columns, int64_t height, int64_t k, float* to) const {
    if (pairs)
      from.pack_pairs(j0, columns, height, 0, depth(k), k, to);
    else
      from.pack(j0, columns, height, 0, k, to);
  }
  int64_t tiles(int64_t rows) const { return ceil_div(rows, kernel.rows); }
};

// The right matrix, B, of a product. Either its rows k lie `pitch` floats apart; or pitch is 0 and it consists of
// strips of `columns` columns, as pack() makes them, with `rows` values of k each, of which those from `first` on are
// used. With pairs, rows and first count pairs, as kc does below.
struct Right {
  const float* at;
  int64_t pitch, columns = 0, rows = 0, first = 0;
};
// The left matrix, A (rows, k), has value p of row i at a[i * a_line + p * a_step].
// The result goes to `to` (rows, columns), with rows `pitch` apart; `add` adds it to what is there.
struct Product {
  const float* a;
  int64_t a_line, a_step;
  Right b;
  float* to;
  int64_t pitch;
  bool add;
};
// One tile of rows, over all strips of columns and kc values of k.
inline void multiply(const Cut& cut, const Product& p, int64_t rows, int64_t columns, int64_t kc) {
  const int64_t strip = cut.kernel.columns;
  for (int64_t s = 0; s < cut.strips(columns); ++s) {
    const int64_t width = cut.width(columns, s);
    engine::Tile tile{};
    tile.rows = rows;
    tile.columns = width;
    tile.kc = kc;
    tile.a = p.a;
    tile.a_line = p.a_line;
    tile.a_k = p.a_step;
    tile.b_k = p.b.pitch ? p.b.pitch : cut.height(cut.width(p.b.columns, s));
    tile.b = p.b.at + s * strip * (p.b.pitch ? 1 : p.b.rows) + p.b.first * tile.b_k;
    tile.b_ahead = p.b.pitch ? strip : 8 * tile.b_k;
    tile.sums = p.to + s * strip;
    tile.sums_step = p.pitch;
    tile.add = p.add;
    tile.last = true;
    const auto run = cut.pairs ? engine::run_tile_of_pairs : engine::run_tile;
    run(tile, {.c = nullptr, .dtype = DType::f32, .step = 0});
  }
}

}  // namespace duet::flash
#endif

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
using flash::Cut, flash::kKeys, flash::kPitch;

// The keys [first, last) that a query sees of the block of n from key j0 on, counted from j0; none where first >= last.
HWY_INLINE AttentionShape::Keys seen_of_block(const AttentionShape& p, int64_t query, int64_t length, int64_t j0,
                                              int64_t n) {
  const AttentionShape::Keys keys = p.seen(query, length);
  return {std::clamp<int64_t>(keys.first - j0, 0, n), std::clamp<int64_t>(keys.last - j0, 0, n)};
}

// to[0 .. n) = from[0 .. n), rounded to T.
template <class T>
void narrow_row(const float* from, int64_t n, T* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) store_f32_as(d, load(d, from + i, n - i, 0.0f), to + i, n - i);
}
// Rows of D elements, which are `line` apart in `to` and follow each other in `from`.
template <class T>
void narrow_rows(const float* from, int64_t rows, int64_t D, T* to, int64_t line) {
  if (line == D) return narrow_row(from, rows * D, to);
  for (int64_t i = 0; i < rows; ++i) narrow_row(from + i * D, D, to + i * line);
}

// Rows of D elements in memory, `line` apart.
template <class T>
struct Rows {
  T* at;
  int64_t line;
  T* row(int64_t i) const { return at + i * line; }
};
// The rows of one head of a tensor.
template <class T, class Void>
Rows<T> rows_of(Void* tensor, const HeadRows& place, int64_t head) {
  return {static_cast<T*>(tensor) + place.at(head, 0), place.row};
}

// Forward: queries [first, last) of one head, whose sequence has `length` keys. q, y: Tq rows, k, v: Tk rows, lse:
// (Tq). scratch: forward_scratch.
template <class T>
void forward_head(const AttentionShape& p, int64_t length, Rows<const T> q, Rows<const T> k, Rows<const T> v, Rows<T> y,
                  float* lse, int64_t first, int64_t last, float* scratch) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Cut cut = Cut::forward(p);
  // Keys [begin, keys) are seen by some query, begin rounded down to whole blocks.
  const int64_t D = p.D, keys = p.seen(last - 1, length).last;
  const int64_t begin = p.seen(first, length).first / kKeys * kKeys;
  float *k_strips = scratch, *v_strips = k_strips + cut.strip_floats(kKeys, D) * ceil_div(p.Tk, kKeys);
  float *s = v_strips + cut.strip_floats(D, p.Tk), *out = s + cut.queries * kPitch;
  float *wide_q = out + cut.queries * cut.padded, *top = wide_q + (cut.copies ? cut.queries * cut.padded : 0);
  float *sum = top + cut.queries + lanes, *before = sum + cut.queries + lanes;
  float* const rounded = before + cut.queries + lanes;  // with pairs: probabilities of a tile as rows of bf16
  const engine::Matrix k_rows(k.at, p.dtype, k.line, 1), v_columns(v.at, p.dtype, 1, v.line);
  for (int64_t j = begin; j < keys; j += kKeys)
    cut.pack(k_rows, j, std::min(kKeys, keys - j), D, k_strips + j / kKeys * cut.strip_floats(kKeys, D));
  cut.pack(v_columns, 0, D, keys, v_strips);
  const auto factor = static_cast<float>(p.factor() * std::numbers::log2e);

  for (int64_t i0 = first; i0 < last; i0 += cut.queries) {
    const int64_t rows = std::min(cut.queries, last - i0), tiles = cut.tiles(rows);
    const auto tile_row = [&](int64_t t) { return rows * t / tiles; };
    const float* a = reinterpret_cast<const float*>(q.row(i0));
    int64_t a_line = q.line;
    // Start a block of queries.
    if (cut.pairs) {
      const engine::Matrix q_rows(q.row(i0), p.dtype, q.line, 1);
      a = wide_q;
      a_line = cut.depth(D);
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t r = tile_row(t), height = tile_row(t + 1) - r;
        cut.pack_strip(q_rows, r, height, height, D, wide_q + r * a_line);
      }
    } else if (cut.copies) {
      widen_rows(q.row(i0), q.line, rows, D, cut.padded, wide_q);
      a = wide_q;
      a_line = cut.padded;
    }
    std::fill_n(top, rows + lanes, -INFINITY);
    std::fill_n(sum, rows + lanes, 0.0f);
    clear(out, 0, rows * cut.padded);

    for (int64_t j0 = p.seen(i0, length).first / kKeys * kKeys; j0 < p.seen(i0 + rows - 1, length).last; j0 += kKeys) {
      // Query i sees the keys [first, last) of this block. A tile multiplies those up to the last of its last query,
      // or none where the block lies before the window of its first.
      const auto seen = [&](int64_t i) { return seen_of_block(p, i0 + i, length, j0, kKeys); };
      const auto multiplied = [&](int64_t t) {
        return seen(tile_row(t)).first == kKeys ? 0 : seen(tile_row(t + 1) - 1).last;
      };
      // Scores.
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t r = tile_row(t), n = multiplied(t);
        if (n == 0) continue;
        multiply(cut,
                 {.a = a + r * a_line,
                  .a_line = cut.pairs ? 1 : a_line,  // with pairs a packed strip
                  .a_step = cut.pairs ? tile_row(t + 1) - r : 1,
                  .b = {.at = k_strips + j0 / kKeys * cut.strip_floats(kKeys, D),
                        .pitch = 0,
                        .columns = std::min(kKeys, keys - j0),
                        .rows = cut.depth(D)},
                  .to = s + r * kPitch,
                  .pitch = kPitch,
                  .add = false},
                 tile_row(t + 1) - r, n, cut.depth(D));
      }
      // Maximum so far.
      for (int64_t i = 0; i < rows; ++i) {
        before[i] = top[i];
        const auto [from, to] = seen(i);
        if (from < to) top[i] = std::max(top[i], max_product(s + i * kPitch + from, to - from, factor));
      }
      // From here on `before` is the factor that rescales the sums so far to the new maximum.
      for (int64_t i = 0; i < rows; i += lanes) {
        // Before the first key that a query sees there is nothing to rescale: -inf - -inf.
        const auto old_top = hn::LoadU(d, before + i), new_top = hn::LoadU(d, top + i);
        const auto change = exp2(d, hn::Sub(old_top, new_top));
        hn::StoreU(hn::IfThenElse(hn::Eq(old_top, new_top), hn::Set(d, 1.0f), change), d, before + i);
      }
      // Exponentials and their sums, then the product with v.
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t r = tile_row(t), height = tile_row(t + 1) - r, seen_keys = multiplied(t);
        if (seen_keys == 0) continue;
        const int64_t n = cut.pairs ? ceil_div(seen_keys, 2) * 2 : seen_keys;
        for (int64_t i = r; i < tile_row(t + 1); ++i) {
          const auto [from, to] = seen(i);
          if (from >= to) {
            clear(s + i * kPitch, 0, n);
            continue;
          }
          sum[i] = sum[i] * before[i] + powers(s + i * kPitch + from, to - from, factor, top[i]);
          if (before[i] != 1) scale_row(out + i * cut.padded, cut.padded, before[i]);
          clear(s + i * kPitch, 0, from);
          clear(s + i * kPitch, to, n);
        }
        for (int64_t i = 0; cut.pairs && i < height; ++i)
          narrow_row(s + (r + i) * kPitch, n, reinterpret_cast<bf16*>(rounded + i * cut.depth(kPitch)));
        multiply(cut,
                 {.a = cut.pairs ? rounded : s + r * kPitch,
                  .a_line = cut.depth(kPitch),
                  .a_step = 1,
                  .b = {.at = v_strips, .pitch = 0, .columns = D, .rows = cut.depth(keys), .first = cut.depth(j0)},
                  .to = out + r * cut.padded,
                  .pitch = cut.padded,
                  .add = true},
                 height, D, cut.depth(n));
      }
    }
    // Normalise and write y and lse.
    for (int64_t i = 0; i < rows; ++i) {
      const auto scale = hn::Set(d, 1 / sum[i]);
      for (int64_t c = 0; c < D; c += lanes)
        store_f32_as(d, hn::Mul(hn::LoadU(d, out + i * cut.padded + c), scale), y.row(i0 + i) + c, D - c);
      lse[i0 + i] = (top[i] + std::log2(sum[i])) * std::numbers::ln2_v<float>;
    }
  }
}

// Floats of scratch that forward_head takes.
int64_t forward_scratch(const AttentionShape& p) {
  const Cut cut = Cut::forward(p);
  return cut.strip_floats(kKeys, p.D) * ceil_div(p.Tk, kKeys) + cut.strip_floats(p.D, p.Tk) +
         cut.queries * (kPitch + cut.padded * (cut.copies ? 2 : 1) + 3) + 3 * cut.kernel.lanes +
         (cut.pairs ? cut.kernel.rows * cut.depth(kPitch) : 0);
}

// item: one of the `chunks` runs of queries of a head.
void forward_item(const AttentionShape& p, const flash::Forward& t, int64_t item, int64_t chunks, float* scratch) {
  const int64_t head = item / chunks, chunk = item % chunks;
  const int64_t kv = head / p.H * p.kv_heads() + head % p.H / p.group();
  const int64_t first = p.Tq * chunk / chunks, last = p.Tq * (chunk + 1) / chunks;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    forward_head(p, KeyLengths(p, t.lengths)[head / p.H], rows_of<const T>(t.q, t.rows.q, head),
                 rows_of<const T>(t.k, t.rows.k, kv), rows_of<const T>(t.v, t.rows.v, kv),
                 rows_of<T>(t.y, t.rows.y, head), t.lse + head * p.Tq, first, last, scratch);
  });
}

template <class T>
HWY_INLINE float dot(const T* a, const T* b, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  for (int64_t i = 0; i < n; i += lanes)
    sum = hn::MulAdd(load_as_f32(d, a + i, n - i), load_as_f32(d, b + i, n - i), sum);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// One row of a block of `keys`, of which the query sees those of `seen`: s becomes p = 2^(s log2_factor - level), and
// dp becomes ds = p (dp factor - delta); both become 0 for the other keys.
HWY_INLINE void gradient_of_row(float* s, float* dp, AttentionShape::Keys seen, int64_t keys, float log2_factor,
                                float level, float factor_value, float delta_value) {
  const int64_t n = seen.last;
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto to_log2 = hn::Set(d, log2_factor), top = hn::Set(d, level);
  const auto factor = hn::Set(d, factor_value), delta = hn::Set(d, delta_value);
  int64_t j = seen.first;
  for (; j + lanes <= n; j += lanes) {
    const auto e = exp2(d, hn::MulSub(hn::LoadU(d, s + j), to_log2, top));
    hn::StoreU(hn::Mul(e, hn::MulSub(hn::LoadU(d, dp + j), factor, delta)), d, dp + j);
    hn::StoreU(e, d, s + j);
  }
  if (j < n) {
    const auto e = exp2(d, hn::MulSub(load(d, s + j, n - j, 0.0f), to_log2, top));
    store(d, hn::Mul(e, hn::MulSub(load(d, dp + j, n - j, 0.0f), factor, delta)), dp + j, n - j);
    store(d, e, s + j, n - j);
  }
  const int64_t before = std::min(seen.first, keys), after = std::max(n, before);
  clear(s, 0, before);
  clear(dp, 0, before);
  clear(s, after, keys);
  clear(dp, after, keys);
}

// One query head: adds to dq, dk and dv, in f32. q, dy and k are as the engine reads them.
struct HeadGradient {
  Rows<const float> q{}, dy{}, k{};
  const float *lse = nullptr, *delta = nullptr;
  Rows<float> dq{}, dk{}, dv{};
};
void backward_head(const AttentionShape& p, int64_t length, const engine::Matrix& k_rows, const engine::Matrix& v_rows,
                   const HeadGradient& h, float* scratch) {
  const Cut cut(p);
  const int64_t D = p.D;
  float *k_strips = scratch, *v_strips = k_strips + cut.strip_floats(kKeys, D);
  float *s = v_strips + cut.strip_floats(kKeys, D), *ds = s + cut.queries * kPitch;
  const auto factor = static_cast<float>(p.factor()),
             log2_factor = static_cast<float>(p.factor() * std::numbers::log2e);

  for (int64_t j0 = 0; j0 < length; j0 += kKeys) {
    // Pack a block of keys. Under a mask, queries before `first` and from `last` on see none of it.
    const int64_t keys = std::min(kKeys, length - j0), first = p.causal ? j0 / cut.queries * cut.queries : 0;
    const int64_t last = p.window > 0 ? std::min(p.Tq, j0 + keys - 1 + p.window) : p.Tq;
    if (first < last) {
      cut.pack(k_rows, j0, keys, D, k_strips);
      cut.pack(v_rows, j0, keys, D, v_strips);
    }
    const flash::Right k_columns{.at = k_strips, .pitch = 0, .columns = keys, .rows = D};
    const flash::Right v_columns{.at = v_strips, .pitch = 0, .columns = keys, .rows = D};

    for (int64_t i0 = first; i0 < last; i0 += cut.queries) {
      const int64_t rows = std::min(cut.queries, last - i0), tiles = cut.tiles(rows);
      const auto tile_row = [&](int64_t t) { return rows * t / tiles; };
      const auto seen = [&](int64_t i) { return seen_of_block(p, i0 + i, length, j0, keys); };
      // Scores, dp, their gradients, and dq, tile by tile.
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t r = tile_row(t), end = tile_row(t + 1), n = seen(end - 1).last;
        multiply(cut, {h.q.row(i0 + r), h.q.line, 1, k_columns, s + r * kPitch, kPitch, false}, end - r, n, D);
        multiply(cut, {h.dy.row(i0 + r), h.dy.line, 1, v_columns, ds + r * kPitch, kPitch, false}, end - r, n, D);
        for (int64_t i = r; i < end; ++i)
          gradient_of_row(s + i * kPitch, ds + i * kPitch, seen(i), keys, log2_factor,
                          h.lse[i0 + i] * std::numbers::log2e_v<float>, factor, factor * h.delta[i0 + i]);
        if (n > 0)
          multiply(cut, {ds + r * kPitch, kPitch, 1, {h.k.row(j0), h.k.line}, h.dq.row(i0 + r), h.dq.line, true},
                   end - r, D, n);
      }
      // dv and dk: transposed products, whose rows are keys and whose k are the queries that see the first key of the
      // tile.
      const int64_t key_tiles = cut.tiles(keys);
      for (int64_t t = 0; t < key_tiles; ++t) {
        const int64_t r = keys * t / key_tiles, count = keys * (t + 1) / key_tiles - r;
        const int64_t i = p.causal ? std::max<int64_t>(0, j0 + r - i0) : 0;
        if (i >= rows) continue;
        multiply(cut, {s + i * kPitch + r, 1, kPitch, {h.dy.row(i0 + i), h.dy.line}, h.dv.row(j0 + r), h.dv.line, true},
                 count, D, rows - i);
        multiply(cut, {ds + i * kPitch + r, 1, kPitch, {h.q.row(i0 + i), h.q.line}, h.dk.row(j0 + r), h.dk.line, true},
                 count, D, rows - i);
      }
    }
  }
}

// Floats of scratch that backward_item takes.
int64_t backward_scratch(const AttentionShape& p) {
  const Cut cut(p);
  const int64_t wide = cut.copies ? (2 * p.Tq + p.Tk) * cut.padded : 0;
  const int64_t sums = p.dtype == DType::f32 ? 0 : (p.Tq + 2 * p.Tk) * p.D;
  return 2 * cut.strip_floats(kKeys, p.D) + 2 * cut.queries * kPitch + p.Tq + wide + sums + cut.kernel.lanes;
}

// item: a head of k and v, with all query heads that share it.
void backward_item(const AttentionShape& p, const flash::Backward& t, int64_t item, float* scratch) {
  const Cut cut(p);
  const int64_t length = KeyLengths(p, t.lengths)[item / p.kv_heads()];
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    constexpr bool kInPlace = std::is_same_v<T, float>;  // gradients are added up in the outputs themselves
    const auto k = rows_of<const T>(t.k, t.rows.k, item), v = rows_of<const T>(t.v, t.rows.v, item);
    const auto dk = rows_of<T>(t.dk, t.rows.k, item), dv = rows_of<T>(t.dv, t.rows.v, item);
    float *delta = scratch + 2 * cut.strip_floats(kKeys, p.D) + 2 * cut.queries * kPitch, *free = delta + p.Tq;
    const auto take = [&free](int64_t n) { return std::exchange(free, free + n); };
    // Rows as the engine reads them: as they are, or as f32 in scratch memory.
    const auto readable = [&](Rows<const T> from, int64_t rows, float* wide) -> Rows<const float> {
      if (!cut.copies) return {reinterpret_cast<const float*>(from.at), from.line};
      widen_rows(from.at, from.line, rows, p.D, cut.padded, wide);
      return {wide, cut.padded};
    };
    // Where a gradient is added up, from 0 on.
    const auto cleared = [&](Rows<T> to, int64_t rows, float* sums) -> Rows<float> {
      const Rows<float> from =
          kInPlace ? Rows<float>{reinterpret_cast<float*>(to.at), to.line} : Rows<float>{sums, p.D};
      for (int64_t i = 0; i < rows; ++i) clear(from.row(i), 0, p.D);
      return from;
    };
    const auto write = [&](Rows<float> from, int64_t rows, Rows<T> to) {
      if (!kInPlace) narrow_rows(from.at, rows, p.D, to.at, to.line);
    };
    float* const wide_k = cut.copies ? take(p.Tk * cut.padded) : nullptr;
    float* const wide_q = cut.copies ? take(p.Tq * cut.padded) : nullptr;
    float* const wide_dy = cut.copies ? take(p.Tq * cut.padded) : nullptr;
    HeadGradient h{.k = readable(k, p.Tk, wide_k), .delta = delta};
    h.dk = cleared(dk, p.Tk, kInPlace ? nullptr : take(p.Tk * p.D));
    h.dv = cleared(dv, p.Tk, kInPlace ? nullptr : take(p.Tk * p.D));
    float* const dq_sums = kInPlace ? nullptr : take(p.Tq * p.D);
    for (int64_t head = item * p.group(); head < (item + 1) * p.group(); ++head) {
      const auto q = rows_of<const T>(t.q, t.rows.q, head), y = rows_of<const T>(t.y, t.rows.y, head);
      const auto dy = rows_of<const T>(t.dy, t.rows.y, head);
      const auto dq = rows_of<T>(t.dq, t.rows.q, head);
      for (int64_t i = 0; i < p.Tq; ++i) delta[i] = dot(dy.row(i), y.row(i), p.D);
      h.q = readable(q, p.Tq, wide_q);
      h.dy = readable(dy, p.Tq, wide_dy);
      h.lse = t.lse + head * p.Tq;
      h.dq = cleared(dq, p.Tq, dq_sums);
      backward_head(p, length, engine::Matrix(k.at, p.dtype, k.line, 1), engine::Matrix(v.at, p.dtype, v.line, 1), h,
                    scratch);
      write(h.dq, p.Tq, dq);
    }
    write(h.dk, p.Tk, dk);
    write(h.dv, p.Tk, dv);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(forward_item);
HWY_EXPORT(forward_scratch);
HWY_EXPORT(backward_item);
HWY_EXPORT(backward_scratch);

Plan forward(const auto& problem, const AttentionShape& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const int64_t heads = p.B * p.H;
  // Enough runs of queries for the threads, but none so short that packing k and v takes a visible part of the time.
  constexpr int64_t kMinQueries = 128;
  const int64_t wanted = cpu.threads() == 1 ? 1 : ceil_div(4 * cpu.threads(), std::max<int64_t>(1, heads));
  const int64_t chunks = std::clamp<int64_t>(p.Tq / kMinQueries, 1, wanted);
  WorkspaceLayout workspace;
  const Scratch scratch(cpu, workspace, HWY_DYNAMIC_DISPATCH(forward_scratch)(p));
  return Plan([problem, p, heads, chunks, scratch, &cpu](Args t) {
           if (p.Tq == 0) return;
           const flash::Forward tensors = flash::tensors_of(problem, t);
           cpu.parallel_for(heads * chunks, 1, [&](int64_t first, int64_t last) {
             for (int64_t i = first; i < last; ++i)
               HWY_DYNAMIC_DISPATCH(forward_item)(p, tensors, i, chunks, scratch.of_this_thread(t));
           });
         })
      .with(std::move(workspace));
}
Plan backward(const auto& problem, const AttentionShape& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  WorkspaceLayout workspace;
  const Scratch scratch(cpu, workspace, HWY_DYNAMIC_DISPATCH(backward_scratch)(p));
  return Plan([problem, p, scratch, &cpu](Args t) {
           const flash::Backward tensors = flash::tensors_of(problem, t);
           cpu.parallel_for(p.B * p.kv_heads(), 1, [&](int64_t first, int64_t last) {
             for (int64_t i = first; i < last; ++i)
               HWY_DYNAMIC_DISPATCH(backward_item)(p, tensors, i, scratch.of_this_thread(t));
           });
         })
      .with(std::move(workspace));
}

Plan attention_tuned(const Attention& p, CpuContext& cpu) {
  return is_decode(p) && is_simd_dtype(p.dtype) ? attention_decode(p, cpu) : forward(p, p, cpu);
}
DUET_REGISTER(attention_tuned);  // cpu.tuned

Plan attention_backward_tuned(const AttentionBackward& p, CpuContext& cpu) { return backward(p, p, cpu); }
DUET_REGISTER(attention_backward_tuned);  // cpu.tuned

Plan attention_packed_tuned(const AttentionPacked& p, CpuContext& cpu) { return forward(p, p.unpacked(), cpu); }
DUET_REGISTER(attention_packed_tuned);  // cpu.tuned

Plan attention_packed_backward_tuned(const AttentionPackedBackward& p, CpuContext& cpu) {
  return backward(p, p.unpacked(), cpu);
}
DUET_REGISTER(attention_packed_backward_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
#endif
