// SPDX-License-Identifier: Apache-2.0
// embedding and its backward, with vectors of f32. Forward: threads share the tokens. Backward: the tokens are sorted
// by word (a counting sort, serial and stable), then threads share the rows of dtable. Each row adds the rows of dy of
// its own tokens in their order, so no two threads write one row and the result does not depend on the number of
// threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/embedding/embedding_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/reduce-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/embedding/embedding.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// y[0 .. n) = 0.
template <bool kStream, class T>
HWY_INLINE void clear(T* y, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = kStream ? elements_to_alignment(d, y, n) : 0;
  if (i > 0) store_f32_as(d, hn::Zero(d), y, i);
  for (; i + lanes <= n; i += lanes) stream_store<kStream>(d, hn::Zero(d), y + i);
  if (i < n) store_f32_as(d, hn::Zero(d), y + i, n - i);
}

// Tokens [first, last): y = the row of the word, if there is one, plus the row of the position, if there are positions.
// A single row is copied as it is, without conversion.
template <bool kStream, class T>
void look_up(const Embedding& p, Args t, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<Bits<T>> bits;
  // Rows of half a vector need no masks. Below 16 bytes, vectors cannot be streamed.
  const hn::Half<decltype(bits)> half_bits;
  const bool is_half_vector =
      p.C == static_cast<int64_t>(hn::Lanes(half_bits)) && hn::MaxLanes(half_bits) * sizeof(T) >= 16;
  const auto same = [](auto v) HWY_ATTR { return v; };
  const auto sum = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  const auto* token = t[Embedding::token].as<const int32_t>();
  const auto* table = t[Embedding::table].as<const T>();
  const auto* position = p.position ? t[Embedding::place].as<const T>() : nullptr;
  auto* y = t[Embedding::y].as<T>();
  for (int64_t i = first; i < last; ++i) {
    T* to = y + i * p.C;
    // The rows to add; a word outside the table has none.
    const bool known = token[i] >= 0 && token[i] < p.V;
    const T *row = known ? table + token[i] * p.C : nullptr, *place = position ? position + i % p.T * p.C : nullptr;
    if (!row) std::swap(row, place);
    // Write the sum, a copy, or zeros.
    if (row && place)
      map<kStream>(d, p.C, sum, to, row, place);
    else if (row && is_half_vector)
      map<kStream>(half_bits, p.C, same, bits_of(to), bits_of(row));
    else if (row)
      map<kStream>(bits, p.C, same, bits_of(to), bits_of(row));
    else
      clear<kStream>(to, p.C);
  }
}

void embedding_rows(const Embedding& p, Args t, int64_t first, int64_t last, bool stream) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    stream ? look_up<true, T>(p, t, first, last) : look_up<false, T>(p, t, first, last);
  });
  if (stream) hwy::FlushStream();
}

// to[0 .. n) = the sum of `count` rows of n elements, of which row k lies at x + at(k) n; with `add`, plus what `to`
// holds.
template <bool kStream, class T, class At>
HWY_INLINE void add_rows(const T* x, int64_t n, int64_t count, const At& at, bool add, T* to) {
  const hn::ScalableTag<float> d;
  const auto sum_columns = [&](int64_t first, int64_t columns, const auto& store_whole) HWY_ATTR {
    sum_rows(
        d, columns, count,
        [&](int64_t c, auto... left) HWY_ATTR { return add ? load_as_f32(d, to + first + c, left...) : hn::Zero(d); },
        [&](int64_t k) { return x + at(k) * n + first; },
        [&](int64_t c, auto total, auto... left) HWY_ATTR {
          T* here = to + first + c;
          if constexpr (sizeof...(left) == 0)
            store_whole(total, here);
          else
            store_f32_as(d, total, here, left...);
        });
  };
  // Up to where `to` is aligned, then vectors that may bypass the caches.
  const int64_t head = kStream ? elements_to_alignment(d, to, n) : 0;
  sum_columns(0, head, [d](auto v, T* here) HWY_ATTR { store_f32_as(d, v, here); });
  sum_columns(head, n - head, [d](auto v, T* here) HWY_ATTR { stream_store<kStream>(d, v, here); });
}

// Rows [first, last) of dtable. The tokens of word v are order[start[v]] ... order[start[v + 1] - 1].
void embedding_backward_words(const EmbeddingBackward& p, Args t, const int32_t* start, const int32_t* order,
                              int64_t first, int64_t last, bool stream) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* dy = t[EmbeddingBackward::dy].as<const T>();
    auto* dtable = t[EmbeddingBackward::dtable].as<T>();
    for (int64_t v = first; v < last; ++v) {
      const int32_t* tokens = order + start[v];
      const int64_t count = start[v + 1] - start[v];
      const auto at = [tokens](int64_t k) { return int64_t{tokens[k]}; };
      T* to = dtable + v * p.C;
      if (count == 0 && p.accumulate) continue;
      if (count == 0)
        stream ? clear<true>(to, p.C) : clear<false>(to, p.C);
      else
        stream ? add_rows<true>(dy, p.C, count, at, p.accumulate, to)
               : add_rows<false>(dy, p.C, count, at, p.accumulate, to);
    }
  });
  if (stream) hwy::FlushStream();
}

// Rows [first, last) of dposition: each adds one token of every sequence.
void embedding_backward_places(const EmbeddingBackward& p, Args t, int64_t first, int64_t last) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* dy = t[EmbeddingBackward::dy].as<const T>();
    auto* dposition = t[EmbeddingBackward::dposition].as<T>();
    for (int64_t i = first; i < last; ++i)
      add_rows<false>(
          dy, p.C, p.B, [&](int64_t b) { return b * p.T + i; }, false, dposition + i * p.C);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(embedding_rows);
HWY_EXPORT(embedding_backward_words);
HWY_EXPORT(embedding_backward_places);

Plan embedding_tuned(const Embedding& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(2 * p.tokens() * p.C * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    cpu.parallel_for(p.tokens(), rows_per_chunk(p.C), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(embedding_rows)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(embedding_tuned);  // cpu.tuned

// The numbers of the tokens, sorted by word. Tokens whose word is outside the table are left out. Word v starts at
// start[v].
struct SortedTokens {
  int32_t *start, *order;  // (words + 2), (tokens)
  void sort(const int32_t* token, int64_t tokens, int64_t words) const {
    // Count: start[v + 2] is how often word v occurs.
    std::fill_n(start, words + 2, 0);
    const auto n = static_cast<int32_t>(tokens);
    const auto known = [&](int32_t i) { return token[i] >= 0 && token[i] < words; };
    for (int32_t i = 0; i < n; ++i)
      if (known(i)) ++start[token[i] + 2];
    // Add up: start[v + 1] is where word v begins.
    for (int64_t v = 2; v < words + 2; ++v) start[v] += start[v - 1];
    // Place each token; afterwards start[v + 1] is where word v ends and word v + 1 begins.
    for (int32_t i = 0; i < n; ++i)
      if (known(i)) order[start[token[i] + 1]++] = i;
  }
};

Plan embedding_backward_tuned(const EmbeddingBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = !p.accumulate && beyond_cache((p.V + p.tokens()) * p.C * size_of(p.dtype));
  WorkspaceLayout workspace;
  const auto start = workspace.add<int32_t>(p.V + 2), order = workspace.add<int32_t>(p.tokens());
  const auto run = [p, stream, start, order, &cpu](Args t) {
    const SortedTokens sorted{t.workspace(start), t.workspace(order)};
    sorted.sort(t[EmbeddingBackward::token].as<const int32_t>(), p.tokens(), p.V);
    cpu.parallel_for(p.V, rows_per_chunk(p.C), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(embedding_backward_words)
      (p, t, sorted.start, sorted.order, first, last, stream);
    });
    if (!p.position) return;
    cpu.parallel_for(p.T, rows_per_chunk(p.C * p.B), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(embedding_backward_places)(p, t, first, last);
    });
  };
  return Plan(run).with(std::move(workspace));
}
DUET_REGISTER(embedding_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
