// SPDX-License-Identifier: Apache-2.0
// Reductions with vectors: the one place that unrolls a sum or a maximum over several accumulators.
//
//   reduce          any step and any way to merge two accumulators, over the elements [0, n) of a row
//   sum, dot        sums of at most kSumRun terms in f32: of term(x[i], ...), and of a[i] b[i]
//   sum_in_runs     the same sum of any length: runs in f32, whose sums are added in double
//   sum_rows        sums down the columns of a matrix, several vectors of neighbouring columns at a time
//   sum_parts       the same for what blocks of rows have left, with compensation
//
// Why several accumulators: an addition takes 3 or 4 cycles, and a core starts two of them in each cycle. With one
// accumulator every addition waits for the one before, so a loop uses an eighth of the adders. Four independent sums
// reach one vector a cycle. That suffices where a term is computed (a product, an exponential) or comes from L2 or
// beyond. The sum of bare elements in L1, which two loads a cycle could feed, takes eight.
//
// Used by reductions (sum, norm2), losses, norms, softmax, pooling, bias and embedding. ops/summation.h says how many
// additions a term may pass through: with vectors of one lane and four accumulators, a run of kSumRun terms takes 1024
// and a few. Include after foreach_target.
#if defined(DUET_CPU_REF_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_REDUCE_INL_H_
#undef DUET_CPU_REF_REDUCE_INL_H_
#else
#define DUET_CPU_REF_REDUCE_INL_H_
#endif
#include <algorithm>

#include "cpu_ref/floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kSumRun = 4096;  // terms added in f32

// Reduces the elements [0, n) to one accumulator, which starts from `identity` and may be a vector or a struct of
// vectors:
//   step(acc, i)         acc with the whole vector of elements at i
//   step(acc, i, left)   acc with the last `left` elements, fewer than a vector; the other lanes must not count
//   merge(acc, acc)      both in one
// One generic lambda with a parameter pack (`auto... left`) serves as both steps. The lanes of the result are still
// apart.
template <int kAccumulators = 4, class D, class Acc, class Step, class Merge>
HWY_INLINE Acc reduce([[maybe_unused]] D d, int64_t n, Acc identity, const Step& step, const Merge& merge) {
  static_assert((kAccumulators & (kAccumulators - 1)) == 0 && kAccumulators > 1);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Acc acc[kAccumulators];
#pragma GCC unroll 8
  for (int k = 0; k < kAccumulators; ++k) acc[k] = identity;

  // Whole vectors, each to its own accumulator.
  int64_t i = 0;
  for (; i + kAccumulators * lanes <= n; i += kAccumulators * lanes) {
#pragma GCC unroll 8
    for (int k = 0; k < kAccumulators; ++k) acc[k] = step(acc[k], i + k * lanes);
  }
  // Vectors that do not fill a round, and the partial one. They have a sum of their own: g++ 12 keeps the array in
  // memory when one of its elements is used apart from the others.
  Acc rest = identity;
  for (; i + lanes <= n; i += lanes) rest = step(rest, i);
  if (i < n) rest = step(rest, i, n - i);

    // A tree, so that its depth is the logarithm of the number of accumulators.
#pragma GCC unroll 4
  for (int half = kAccumulators / 2; half > 0; half /= 2) {
#pragma GCC unroll 4
    for (int k = 0; k < half; ++k) acc[k] = merge(acc[k], acc[k + half]);
  }
  return merge(acc[0], rest);
}

// v, or with `left` its first lanes: those beyond, which hold no element, become `absent`.
template <class D>
HWY_INLINE hn::Vec<D> existing(D, hn::Vec<D> v, hn::Vec<D>) {
  return v;
}
template <class D>
HWY_INLINE hn::Vec<D> existing(D d, hn::Vec<D> v, hn::Vec<D> absent, int64_t left) {
  return hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(left)), v, absent);
}

// The sum of term(x[i], ...) over n elements, lane by lane. A term of absent elements does not count, whatever it is. n
// is at most kSumRun, or with another number of accumulators kRun (ops/summation.h) for each of them.
template <int kAccumulators = 4, class D, class F, class... X>
HWY_INLINE hn::Vec<D> sum_vector(D d, int64_t n, const F& term, const X*... x) {
  return reduce<kAccumulators>(
      d, n, hn::Zero(d),
      [&](auto acc, int64_t i, auto... left)
          HWY_ATTR { return hn::Add(acc, existing(d, term(load_as_f32(d, x + i, left...)...), hn::Zero(d), left...)); },
      [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}
template <int kAccumulators = 4, class D, class F, class... X>
HWY_INLINE float sum(D d, int64_t n, const F& term, const X*... x) {
  return hn::GetLane(hn::SumOfLanes(d, sum_vector<kAccumulators>(d, n, term, x...)));
}

// The sum of term(x[i], ...) over any number of elements: runs of kSumRun in f32, added in order in double.
template <class D, class F, class... X>
HWY_INLINE double sum_in_runs(D d, int64_t n, const F& term, const X*... x) {
  double total = 0;
  for (int64_t first = 0; first < n; first += kSumRun)
    total += sum(d, std::min(kSumRun, n - first), term, x + first...);
  return total;
}

// The sum of a[i] b[i].
template <class D, class A, class B>
HWY_INLINE float dot(D d, const A* a, const B* b, int64_t n) {
  const auto sums = reduce(
      d, n, hn::Zero(d),
      [&](auto acc, int64_t i, auto... left)
          HWY_ATTR { return hn::MulAdd(load_as_f32(d, a + i, left...), load_as_f32(d, b + i, left...), acc); },
      [](auto p, auto q) HWY_ATTR { return hn::Add(p, q); });
  return hn::GetLane(hn::SumOfLanes(d, sums));
}

// Sums of the columns [0, n) of `count` rows, where row(k) points to column 0 of row k. For each vector of columns c:
//   start(c)         what the rows are added to
//   done(c, total)   receives the sums
// Both take a last argument `left` where only that many columns, fewer than a vector, are left. start is called before
// the rows are read, so that what it loads comes from memory at the same time. Four vectors of columns at a time: four
// sums in flight, and each row is read in runs of whole cache lines. More than kRowRun rows are cut into runs, which
// are added in f32 as well.
template <class D, class Start, class Row, class Done>
HWY_INLINE void sum_rows(D d, int64_t n, int64_t count, const Start& start, const Row& row, const Done& done) {
  constexpr int64_t kRowRun = 1024;
  constexpr int kVectors = 4;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + kVectors * lanes <= n; c += kVectors * lanes) {
    hn::Vec<D> total[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) total[v] = start(c + v * lanes);
    for (int64_t first = 0; first < count; first += kRowRun) {
      const int64_t last = std::min(count, first + kRowRun);
      hn::Vec<D> run[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) run[v] = hn::Zero(d);
      for (int64_t k = first; k < last; ++k) {
        const auto* x = row(k) + c;
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) run[v] = hn::Add(run[v], load_as_f32(d, x + v * lanes));
      }
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) total[v] = hn::Add(total[v], run[v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) done(c + v * lanes, total[v]);
  }
  // One vector of columns at a time, the last of which may be partial.
  const auto sum_vector_of_rows = [&](auto... left) HWY_ATTR {
    auto total = start(c, left...);
    for (int64_t first = 0; first < count; first += kRowRun) {
      const int64_t last = std::min(count, first + kRowRun);
      auto run = hn::Zero(d);
      for (int64_t k = first; k < last; ++k) run = hn::Add(run, load_as_f32(d, row(k) + c, left...));
      total = hn::Add(total, run);
    }
    done(c, total, left...);
  };
  for (; c + lanes <= n; c += lanes) sum_vector_of_rows();
  if (c < n) sum_vector_of_rows(n - c);
}

// y[c] = the sum of `count` parts, of which part k lies at parts + k pitch, for the columns [first, last). Parts may be
// many and of one sign, as those of a bias's gradient: with Kahan's compensation the error is that of a few additions.
template <class D, class T>
HWY_INLINE void sum_parts(D d, const float* parts, int64_t pitch, int64_t count, int64_t first, int64_t last, T* y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = first; c < last; c += lanes) {
    auto total = hn::Zero(d), excess = total;  // what `total` has too much
    for (int64_t k = 0; k < count; ++k) {
      const auto rest = hn::Sub(load_as_f32(d, parts + k * pitch + c, last - c), excess);
      const auto next = hn::Add(total, rest);
      excess = hn::Sub(hn::Sub(next, total), rest);
      total = next;
    }
    store_f32_as(d, total, y + c, last - c);
  }
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
