// SPDX-License-Identifier: Apache-2.0
// Forward: threads share the tokens. Backward: tokens are sorted by word (counting sort, serial, stable), then threads share
// the rows of dtable: each adds its tokens' rows in their order, so nothing collides and the result does not depend on the
// threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/embedding/embedding_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/embedding/embedding.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

template <bool kStream, class T>
HWY_INLINE void clear(T* y, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = kStream ? elements_to_alignment(d, y, n) : 0;
  if (i > 0) store_f32_as(d, hn::Zero(d), y, i);
  for (; i + lanes <= n; i += lanes) stream_store<kStream>(d, hn::Zero(d), y + i);
  if (i < n) store_f32_as(d, hn::Zero(d), y + i, n - i);
}

template <bool kStream, class T>
void look_up(const Embedding& p, Args t, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<Bits<T>> bits;
  const auto same = [](auto v) HWY_ATTR { return v; };
  const auto sum = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  const auto* token = t[Embedding::token].as<const int32_t>();
  const auto* table = t[Embedding::table].as<const T>();
  const auto* position = p.position ? t[Embedding::place].as<const T>() : nullptr;
  auto* y = t[Embedding::y].as<T>();
  for (int64_t i = first; i < last; ++i) {
    T* to = y + i * p.C;
    const bool known = token[i] >= 0 && token[i] < p.V;
    const T *row = known ? table + token[i] * p.C : nullptr, *place = position ? position + i % p.T * p.C : nullptr;
    if (!row) std::swap(row, place);
    if (row && place)
      map<kStream>(d, p.C, sum, to, row, place);
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

inline constexpr int64_t kTerms = 1024;  // of a run of additions: fewer than ops/summation.h allows

// to[0 .. n) = (add: to +) the sum of `count` rows x + at(k) n.
template <bool kStream, class T, class At>
HWY_INLINE void add_rows(const T* x, int64_t n, int64_t count, const At& at, bool add, T* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto head = kStream ? elements_to_alignment(d, to, n) : 0;
  const auto columns = [&](int64_t c, int64_t left) HWY_ATTR {  // one vector, of `left` lanes
    auto total = add ? load_as_f32(d, to + c, left) : hn::Zero(d);
    for (int64_t first = 0; first < count; first += kTerms) {
      auto sum = hn::Zero(d);
      for (int64_t k = first; k < std::min(count, first + kTerms); ++k)
        sum = hn::Add(sum, load_as_f32(d, x + at(k) * n + c, left));
      total = hn::Add(total, sum);
    }
    return total;
  };
  int64_t c = 0;
  if (head > 0) {
    store_f32_as(d, columns(0, head), to, head);
    c = head;
  }
  for (; c + 4 * lanes <= n; c += 4 * lanes) {
    auto t0 = hn::Zero(d), t1 = t0, t2 = t0, t3 = t0;
    if (add) {
      t0 = load_as_f32(d, to + c);
      t1 = load_as_f32(d, to + c + lanes);
      t2 = load_as_f32(d, to + c + 2 * lanes);
      t3 = load_as_f32(d, to + c + 3 * lanes);
    }
    for (int64_t first = 0; first < count; first += kTerms) {
      auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
      for (int64_t k = first; k < std::min(count, first + kTerms); ++k) {
        const T* row = x + at(k) * n + c;
        s0 = hn::Add(s0, load_as_f32(d, row));
        s1 = hn::Add(s1, load_as_f32(d, row + lanes));
        s2 = hn::Add(s2, load_as_f32(d, row + 2 * lanes));
        s3 = hn::Add(s3, load_as_f32(d, row + 3 * lanes));
      }
      t0 = hn::Add(t0, s0);
      t1 = hn::Add(t1, s1);
      t2 = hn::Add(t2, s2);
      t3 = hn::Add(t3, s3);
    }
    stream_store<kStream>(d, t0, to + c);
    stream_store<kStream>(d, t1, to + c + lanes);
    stream_store<kStream>(d, t2, to + c + 2 * lanes);
    stream_store<kStream>(d, t3, to + c + 3 * lanes);
  }
  for (; c < n; c += lanes) store_f32_as(d, columns(c, n - c), to + c, n - c);
}

// Rows [first, last) of dtable: word v's tokens are order[start[v]] ... order[start[v + 1] - 1].
void embedding_backward_words(const EmbeddingBackward& p, Args t, const int32_t* start, const int32_t* order,
                              int64_t first, int64_t last, bool stream) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* dy = t[EmbeddingBackward::dy].as<const T>();
    auto* dtable = t[EmbeddingBackward::dtable].as<T>();
    for (int64_t v = first; v < last; ++v) {
      const int32_t* mine = order + start[v];
      const int64_t count = start[v + 1] - start[v];
      const auto at = [mine](int64_t k) { return int64_t{mine[k]}; };
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

// Rows [first, last) of dposition.
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

// The tokens in order of their word; those outside the table are left out.
struct SortedTokens {
  int32_t *start, *order;  // (words + 2), (tokens)
  void sort(const int32_t* token, int64_t tokens, int64_t words) const {
    std::fill_n(start, words + 2, 0);
    const auto n = static_cast<int32_t>(tokens);
    const auto known = [&](int32_t i) { return token[i] >= 0 && token[i] < words; };
    for (int32_t i = 0; i < n; ++i)
      if (known(i)) ++start[token[i] + 2];
    for (int64_t v = 2; v < words + 2; ++v) start[v] += start[v - 1];  // start[v + 1]: where word v begins
    for (int32_t i = 0; i < n; ++i)
      if (known(i)) order[start[token[i] + 1]++] = i;  // and now where it ends
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
