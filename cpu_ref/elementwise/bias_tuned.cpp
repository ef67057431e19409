// SPDX-License-Identifier: Apache-2.0
// bias (with relu or without) and its backward, with vectors of f32. x is (outer, c, inner); a plane is its `inner`
// neighbouring elements of one channel.
//
// Forward: threads share the elements in chunks (chunks.h). Where planes are short, the bias is expanded once to a
// pattern of about 2048 elements, which repeats along x. Where they are long, each plane broadcasts its one value.
//
// Backward: dbias needs a sum for each channel. With short planes, dy is seen as a matrix of wide rows, whose columns
// are summed in blocks; with long planes, each plane is summed. The mask of relu is applied on the way, so that dy and
// y are read from memory once. The cuts that results depend on follow from the shape alone (bias_cuts.h), and partial
// sums are added in order, in double.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/bias_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <cmath>

#include "core/registration.h"
#include "cpu_ref/elementwise/bias_cuts.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/exp-inl.h"
#include "cpu_ref/map_ahead-inl.h"
#include "cpu_ref/reduce-inl.h"
#include "cpu_ref/streaming.h"
#include "ops/elementwise/bias.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// x + bias, and relu, which is a maximum with 0; without relu it is a maximum with -inf, which changes nothing.
struct AddBias {
  hn::Vec<hn::ScalableTag<float>> floor;
  explicit AddBias(Act act) : floor(hn::Set(hn::ScalableTag<float>(), act == Act::relu ? 0.0f : -INFINITY)) {}
  template <class V>
  HWY_INLINE V operator()(V x, V bias) const {
    return max_or_nan(floor, hn::Add(x, bias));
  }
};

// pattern[i] = bias[i / inner % c] for i < n, as f32. For long planes inner counts as 1: the pattern is the bias
// itself.
void expand_bias(const Bias& p, const void* from, float* pattern, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t inner = p.inner < kMinLongPlane ? p.inner : 1, period = std::min(n, p.c * inner);
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T* bias = static_cast<const T*>(from);
    if (inner == 1) {
      for (int64_t i = 0; i < period; i += lanes)
        store(d, load_as_f32(d, bias + i, period - i), pattern + i, period - i);
    } else {
      const hn::CappedTag<float, 1> one;
      for (int64_t i = 0; i < period; ++i) pattern[i] = hn::GetLane(load_as_f32(one, bias + i / inner));
    }
  });
  for (int64_t i = period; i < n; ++i) pattern[i] = pattern[i - period];
}

// Elements [first, last) where planes are short: the pattern, `width` elements long, repeats along x.
template <bool kStream, class T>
void add_pattern(const T* x, const float* pattern, int64_t width, Act act, T* y, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const AddBias add(act);
  for (int64_t i = first, at = first % width; i < last; at = 0) {
    const int64_t n = std::min(last - i, width - at);
    map<kStream>(d, n, add, y + i, x + i, pattern + at);
    i += n;
  }
}

// Elements [first, last) where planes are at least a vector long. Whole vectors of one plane take its bias. A vector
// that crosses into the next plane takes both biases and is stored whole: then no cache line of y mixes streaming
// stores with others.
template <bool kStream, class T>
void add_planes(const Bias& p, const T* x, const float* bias, T* y, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const AddBias add(p.act);
  int64_t i = first;
  int64_t head = kStream ? elements_to_alignment(d, y + first, last - first) : 0;  // elements before y is aligned
  int64_t plane = first / p.inner, end = (plane + 1) * p.inner;
  while (i < last) {
    const auto b = hn::Set(d, bias[plane % p.c]);
    const float next = bias[(plane + 1) % p.c];
    // The whole vectors of this plane.
    if (head == 0) {
      const int64_t whole = (std::min(end, last) - i) / lanes * lanes;
      const auto with_bias = [&](auto v) HWY_ATTR { return add(v, b); };
      map<kStream>(d, whole, with_bias, y + i, x + i);
      i += whole;
    }
    // One vector or less, across the end of the plane, or up to the alignment of y.
    const int64_t left = std::min(head ? head : lanes, last - i);
    if (left > 0) {
      const auto both =
          hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(std::min(lanes, end - i))), b, hn::Set(d, next));
      const auto v = add(load_as_f32(d, x + i, left), both);
      left == lanes ? stream_store<kStream>(d, v, y + i) : store_f32_as(d, v, y + i, left);
      i += left;
      head = 0;
    }
    if (i >= end) {
      ++plane;
      end += p.inner;
    }
  }
}

void bias_chunk(const Bias& p, Args t, const float* pattern, int64_t width, int64_t first, int64_t last, bool stream) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T* x = t[Bias::x].as<const T>();
    T* y = t[Bias::y].as<T>();
    if (p.inner >= kMinLongPlane)
      (stream ? add_planes<true, T> : add_planes<false, T>)(p, x, pattern, y, first, last);
    else
      (stream ? add_pattern<true, T> : add_pattern<false, T>)(x, pattern, width, p.act, y, first, last);
  });
  if (stream) hwy::FlushStream();
}

// --- backward --------------------------------------------------------------------------------------------------------

// dy where y is positive, else 0: what relu passes back.
struct Gate {
  template <class V>
  HWY_INLINE V operator()(V y, V dy) const {
    return hn::IfThenElseZero(hn::Gt(y, hn::Zero(hn::DFromV<V>())), dy);
  }
};

// The tensors of the backward pass, from some element on. y and dx are null without relu.
template <class T>
struct Planes {
  const T *y, *dy;
  T* dx;
  Planes at(int64_t i) const { return y ? Planes{y + i, dy + i, dx + i} : Planes{nullptr, dy + i, nullptr}; }
};

// The vector of masked dy at element i; with `left`, of its first elements, followed by zeros.
template <bool kRelu, class D, class T>
HWY_INLINE hn::Vec<D> gated(D d, const Planes<T>& from, int64_t i) {
  const auto dy = load_as_f32(d, from.dy + i);
  return kRelu ? Gate()(load_as_f32(d, from.y + i), dy) : dy;
}
template <bool kRelu, class D, class T>
HWY_INLINE hn::Vec<D> gated(D d, const Planes<T>& from, int64_t i, int64_t left) {
  const auto dy = load_as_f32(d, from.dy + i, left);
  return kRelu ? Gate()(load_as_f32(d, from.y + i, left), dy) : dy;
}

// to[j] += the sum of column j < n over `rows` rows, which lie `width` elements apart; with relu, dx is written as
// well. kStream requires that n and width are whole vectors and dx is aligned. The sums are loaded and stored once for
// four rows.
template <bool kRelu, bool kStream, class T>
void sum_columns(const Planes<T>& from, int64_t rows, int64_t width, int64_t n, float* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // Four rows at a time.
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const Planes<T> row = from.at(r * width);
    int64_t j = 0;
    for (; j + lanes <= n; j += lanes) {
      const auto g0 = gated<kRelu>(d, row, j), g1 = gated<kRelu>(d, row, j + width);
      const auto g2 = gated<kRelu>(d, row, j + 2 * width), g3 = gated<kRelu>(d, row, j + 3 * width);
      if (kRelu) {
        stream_store<kStream>(d, g0, row.dx + j);
        stream_store<kStream>(d, g1, row.dx + j + width);
        stream_store<kStream>(d, g2, row.dx + j + 2 * width);
        stream_store<kStream>(d, g3, row.dx + j + 3 * width);
      }
      hn::StoreU(hn::Add(hn::LoadU(d, to + j), hn::Add(hn::Add(g0, g1), hn::Add(g2, g3))), d, to + j);
    }
    if (j < n)
      for (int64_t k = 0; k < 4; ++k) {
        const auto g = gated<kRelu>(d, row, j + k * width, n - j);
        if (kRelu) store_f32_as(d, g, row.dx + j + k * width, n - j);
        store(d, hn::Add(load(d, to + j, n - j, 0.0f), g), to + j, n - j);
      }
  }
  // The last rows, one by one.
  for (; r < rows; ++r) {
    const Planes<T> row = from.at(r * width);
    for (int64_t j = 0; j < n; j += lanes) {
      const auto g = gated<kRelu>(d, row, j, n - j);
      if (kRelu) store_f32_as(d, g, row.dx + j, n - j);
      store(d, hn::Add(load(d, to + j, n - j, 0.0f), g), to + j, n - j);
    }
  }
}

// Blocks [first, last) of the matrix of wide rows: at most kBlockRows rows of `width` elements, and `columns` columns.
// The last row of the matrix may be short.
template <bool kRelu, class T>
void column_blocks(const Planes<T>& from, int64_t elements, int64_t width, int64_t columns, int64_t first, int64_t last,
                   bool stream, float* partial) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  stream = stream && width % lanes == 0 && elements_to_alignment(d, from.dx, lanes) == 0;
  const auto sum = stream ? sum_columns<kRelu, true, T> : sum_columns<kRelu, false, T>;
  const int64_t rows = elements / width, rest = elements % width;
  const int64_t across = ceil_div(width, columns);
  for (int64_t b = first; b < last; ++b) {
    const int64_t column = b % across * columns, n = std::min(columns, width - column);
    const int64_t row = b / across * kBlockRows, end = std::min(rows, row + kBlockRows);
    float* to = partial + b / across * width + column;
    std::fill_n(to, n, 0.0f);
    if (end > row) sum(from.at(row * width + column), end - row, width, n, to);
    if (end == rows && row + kBlockRows > rows && rest > column)
      sum_columns<kRelu, false>(from.at(rows * width + column), 1, width, std::min(n, rest - column), to);
  }
  if (stream) hwy::FlushStream();
}

// The sum of n <= kInL1 masked elements; with kStore, they are written to dx as well. kStream: dx is aligned.
template <bool kRelu, bool kStore, bool kStream, class T>
HWY_INLINE float sum_run(const Planes<T>& from, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto sums = reduce(
      d, n, hn::Zero(d),
      [&](auto acc, int64_t i, auto... left) HWY_ATTR {
        const auto g = gated<kRelu>(d, from, i, left...);
        if constexpr (kStore && sizeof...(left) == 0)
          stream_store<kStream>(d, g, from.dx + i);
        else if constexpr (kStore)
          store_f32_as(d, g, from.dx + i, left...);
        return hn::Add(acc, g);
      },
      [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
  return hn::GetLane(hn::SumOfLanes(d, sums));
}

// Long planes: partial[u] = the sum of part u % parts of plane u / parts, for u in [first, last). A part is summed in
// runs that fit L1, and dx is written on the way. Only where dx goes past the caches, and not all of its runs are
// aligned, a second pass over the run writes it, from L1, with several planes that fit L1 together as one run.
template <bool kRelu, bool kStream, class T>
void plane_parts(const Planes<T>& from, int64_t inner, int64_t first, int64_t last, float* partial) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool fused = !kStream || (inner % lanes == 0 && elements_to_alignment(d, from.dx, lanes) == 0);
  const int64_t parts = ceil_div(inner, kPlanePart), planes_at_once = inner <= kInL1 && !fused ? kInL1 / inner : 1;
  for (int64_t u = first; u < last;) {
    const int64_t begin = u / parts * inner + u % parts * kPlanePart;
    const int64_t length = std::min(kPlanePart, inner - u % parts * kPlanePart),
                  count = std::min(planes_at_once, last - u);
    for (int64_t k = 0; k < count; ++k) partial[u + k] = 0;
    for (int64_t at = 0; at < length; at += kInL1) {
      const int64_t n = std::min(kInL1, length - at);
      const Planes<T> run = from.at(begin + at);
      if (fused) {
        partial[u] += sum_run<kRelu, kRelu, kStream>(run, n);
        continue;
      }
      for (int64_t k = 0; k < count; ++k) partial[u + k] += sum_run<kRelu, false, false>(run.at(k * inner), n);
      if (kRelu)
        map_ahead<kStream>(d, count * n, Gate(), run.dx, {run.y + count * n, run.dy + count * n}, run.y, run.dy);
    }
    u += count;
  }
  if (kStream) hwy::FlushStream();
}

// Tasks [first, last): blocks of columns where planes are short, parts of planes where they are long.
void bias_backward_part(const BiasBackward& p, Args t, int64_t width, int64_t columns, int64_t first, int64_t last,
                        bool stream, float* partial) {
  using P = BiasBackward;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const bool relu = p.act == Act::relu;
    const Planes<T> from{relu ? t[P::y].as<const T>() : nullptr, t[P::dy].as<const T>(),
                         relu ? t[P::dx].as<T>() : nullptr};
    if (p.inner < kMinLongPlane)
      (relu ? column_blocks<true, T> : column_blocks<false, T>)(from, p.elements(), width, columns, first, last, stream,
                                                                partial);
    else if (relu)
      (stream ? plane_parts<true, true, T> : plane_parts<true, false, T>)(from, p.inner, first, last, partial);
    else
      plane_parts<false, false>(from, p.inner, first, last, partial);
  });
}

// dbias of channels [first, last): the partial sums of each, added in order, in double.
void add_partials(DType dtype, const float* partial, const Partials& at, int64_t first, int64_t last, void* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for_float(dtype, [&]<class T>() HWY_ATTR {
    HWY_ALIGN float sums[hn::MaxLanes(d)] = {};
    for (int64_t k = first; k < last; k += lanes) {
      const int64_t n = std::min(lanes, last - k);
      double sum[hn::MaxLanes(d)] = {};
      for (int64_t g = 0; g < at.groups; ++g) {
        const float* row = partial + g * at.stride + k * at.step;
        for (int64_t l = 0; l < n; ++l)
          for (int64_t j = 0; j < at.step; ++j) sum[l] += row[l * at.step + j];
      }
      for (int64_t l = 0; l < n; ++l) sums[l] = static_cast<float>(sum[l]);
      store_f32_as(d, hn::Load(d, sums), static_cast<T*>(to) + k, n);
    }
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(expand_bias);
HWY_EXPORT(bias_chunk);
HWY_EXPORT(bias_backward_part);
HWY_EXPORT(add_partials);

Plan bias_tuned(const Bias& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  if (p.elements() == 0) return [](Args) {};
  // The pattern: whole periods of (c, inner), at least kMinPattern elements; for long planes one value a channel.
  const int64_t period = p.c * p.inner;
  const int64_t width = p.inner < kMinLongPlane ? period * std::min(p.outer, ceil_div(kMinPattern, period)) : p.c;
  const bool stream = beyond_cache(2 * p.elements() * size_of(p.dtype));
  WorkspaceLayout workspace;
  const auto pattern = workspace.add<float>(width);
  const auto run = [p, width, stream, pattern, &cpu](Args t) {
    float* bias = t.workspace(pattern);
    HWY_DYNAMIC_DISPATCH(expand_bias)(p, t[Bias::bias].data, bias, width);
    parallel_chunks(cpu, p.elements(), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(bias_chunk)(p, t, bias, width, first, last, stream);
    });
  };
  return Plan(run).with(std::move(workspace));
}
DUET_REGISTER(bias_tuned);  // cpu.tuned

Plan bias_backward_tuned(const BiasBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  int64_t width = 0, columns = 0, tasks = 0, grain = 1, floats = 0;
  Partials at{0, 0, 0};
  if (p.elements() == 0) {  // no tasks: dbias is 0
  } else if (p.inner < kMinLongPlane) {
    // Short planes: rows of some periods (c, inner); each block of rows leaves a row of partial sums.
    const int64_t period = p.c * p.inner, repeats = ceil_div(kMinWideRow, period);
    width = period * repeats;
    const int64_t blocks = ceil_div(ceil_div(p.elements(), width), kBlockRows);
    columns = block_columns(p.elements() / width, cpu.threads());
    tasks = blocks * ceil_div(width, columns);
    floats = blocks * width;
    grain = 1 + kChunkElements / std::min(p.elements(), kBlockRows * std::min(width, columns));
    at = {blocks * repeats, period, p.inner};
  } else {
    // Long planes: each part of a plane leaves one partial sum.
    const int64_t parts = ceil_div(p.inner, kPlanePart);
    tasks = floats = p.outer * p.c * parts;
    grain = ceil_div(kChunkElements, std::min(p.inner, kPlanePart));
    at = {p.outer, p.c * parts, parts};
  }
  const bool stream = p.act == Act::relu && beyond_cache(3 * p.elements() * size_of(p.dtype));
  WorkspaceLayout workspace;
  const auto partial = workspace.add<float>(floats);
  const auto run = [=, &cpu](Args t) {
    float* sums = t.workspace(partial);
    cpu.parallel_for(tasks, grain, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(bias_backward_part)(p, t, width, columns, first, last, stream, sums);
    });
    cpu.parallel_for(p.c, 64 + kChunkElements / (1 + at.groups * at.step), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(add_partials)(p.dtype, sums, at, first, last, t[BiasBackward::dbias].data);
    });
  };
  return Plan(run).with(std::move(workspace));
}
DUET_REGISTER(bias_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
