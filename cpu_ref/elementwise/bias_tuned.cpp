// SPDX-License-Identifier: Apache-2.0
// Forward: the bias is laid out as a pattern of some 2048 elements, which repeats along x; long planes broadcast theirs.
// Backward: sums of columns of x seen as wide rows, or of planes; what is masked on the way is read from memory once.
// The cuts depend on the shape alone, and partial sums are added in order, in double.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/bias_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <cmath>

#include "core/registration.h"
#include "cpu_ref/elementwise/bias_cuts.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/elementwise/bias.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

struct AddBias {
  hn::Vec<hn::ScalableTag<float>> floor;
  explicit AddBias(Act act) : floor(hn::Set(hn::ScalableTag<float>(), act == Act::relu ? 0.0f : -INFINITY)) {}
  template <class V>
  HWY_INLINE V operator()(V x, V bias) const {
    return hn::Max(floor, hn::Add(x, bias));
  }
};

// pattern[i] = bias[i / inner % c] for i < n
void expand_bias(const Bias& p, const void* from, float* pattern, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t inner = p.inner < kLongPlane ? p.inner : 1, period = std::min(n, p.c * inner);
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

// Elements [first, last) of planes of at least a vector. The vectors that lie in one plane are whole; one that crosses
// into the next takes both biases, so that streaming stores never share a line with others.
template <bool kStream, class T>
void add_planes(const Bias& p, const T* x, const float* bias, T* y, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const AddBias add(p.act);
  int64_t i = first, head = kStream ? elements_to_alignment(d, y + first, last - first) : 0;
  int64_t plane = first / p.inner, end = (plane + 1) * p.inner;
  while (i < last) {
    const float mine = bias[plane % p.c], next = bias[(plane + 1) % p.c];
    const auto b = hn::Set(d, mine);
    if (head == 0) {
      const int64_t whole = (std::min(end, last) - i) / lanes * lanes;
      const auto with_bias = [&](auto v) HWY_ATTR { return add(v, b); };
      map<kStream>(d, whole, with_bias, y + i, x + i);
      i += whole;
    }
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
    if (p.inner >= kLongPlane)
      (stream ? add_planes<true, T> : add_planes<false, T>)(p, x, pattern, y, first, last);
    else
      (stream ? add_pattern<true, T> : add_pattern<false, T>)(x, pattern, width, p.act, y, first, last);
  });
  if (stream) hwy::FlushStream();
}

// --- backward --------------------------------------------------------------------------------------------------------

struct Gate {  // where y is positive
  template <class V>
  HWY_INLINE V operator()(V y, V dy) const {
    return hn::IfThenElseZero(hn::Gt(y, hn::Zero(hn::DFromV<V>())), dy);
  }
};

// The tensors' elements from one on. y, dx: null without relu.
template <class T>
struct From {
  const T *y, *dy;
  T* dx;
  From at(int64_t i) const { return y ? From{y + i, dy + i, dx + i} : From{nullptr, dy + i, nullptr}; }
};

template <bool kRelu, class D, class T>
HWY_INLINE hn::Vec<D> gated(D d, const From<T>& from, int64_t i) {
  const auto dy = load_as_f32(d, from.dy + i);
  return kRelu ? Gate()(load_as_f32(d, from.y + i), dy) : dy;
}
template <bool kRelu, class D, class T>
HWY_INLINE hn::Vec<D> gated(D d, const From<T>& from, int64_t i, int64_t left) {
  const auto dy = load_as_f32(d, from.dy + i, left);
  return kRelu ? Gate()(load_as_f32(d, from.y + i, left), dy) : dy;
}

// to[j] += the sum of column j < n of `rows` rows, `width` apart. kStream: n and width are whole vectors, dx is aligned.
template <bool kRelu, bool kStream, class T>
void sum_columns(const From<T>& from, int64_t rows, int64_t width, int64_t n, float* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const From<T> row = from.at(r * width);
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
  for (; r < rows; ++r) {
    const From<T> row = from.at(r * width);
    for (int64_t j = 0; j < n; j += lanes) {
      const auto g = gated<kRelu>(d, row, j, n - j);
      if (kRelu) store_f32_as(d, g, row.dx + j, n - j);
      store(d, hn::Add(load(d, to + j, n - j, 0.0f), g), to + j, n - j);
    }
  }
}

// Blocks of at most kBlockRows rows and kStrip columns of x seen as rows of `width`, the last of which may be short.
template <bool kRelu, class T>
void column_blocks(const From<T>& from, int64_t elements, int64_t width, int64_t first, int64_t last, bool stream,
                   float* partial) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  stream = stream && width % lanes == 0 && elements_to_alignment(d, from.dx, lanes) == 0;
  const auto sum = stream ? sum_columns<kRelu, true, T> : sum_columns<kRelu, false, T>;
  const int64_t strips = ceil_div(width, kStrip), rows = elements / width, rest = elements % width;
  for (int64_t b = first; b < last; ++b) {
    const int64_t column = b % strips * kStrip, n = std::min(kStrip, width - column);
    const int64_t row = b / strips * kBlockRows, end = std::min(rows, row + kBlockRows);
    float* to = partial + b / strips * width + column;
    std::fill_n(to, n, 0.0f);
    if (end > row) sum(from.at(row * width + column), end - row, width, n, to);
    if (end == rows && row + kBlockRows > rows && rest > column)
      sum_columns<kRelu, false>(from.at(rows * width + column), 1, width, std::min(n, rest - column), to);
  }
  if (stream) hwy::FlushStream();
}

// The sum of n <= kInL1 elements.
template <bool kRelu, class T>
HWY_INLINE float sum_run(const From<T>& from, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::Add(s0, gated<kRelu>(d, from, i));
    s1 = hn::Add(s1, gated<kRelu>(d, from, i + lanes));
    s2 = hn::Add(s2, gated<kRelu>(d, from, i + 2 * lanes));
    s3 = hn::Add(s3, gated<kRelu>(d, from, i + 3 * lanes));
  }
  for (; i < n; i += lanes) s0 = hn::Add(s0, gated<kRelu>(d, from, i, n - i));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

// partial[plane * parts + part]: the sums of parts of planes. Short planes are masked several at a time.
template <bool kRelu, bool kStream, class T>
void plane_parts(const From<T>& from, int64_t inner, int64_t first, int64_t last, float* partial) {
  const hn::ScalableTag<float> d;
  const int64_t parts = ceil_div(inner, kPlanePart), together = inner <= kInL1 ? kInL1 / inner : 1;
  for (int64_t u = first; u < last;) {
    const int64_t begin = u / parts * inner + u % parts * kPlanePart;
    const int64_t length = std::min(kPlanePart, inner - u % parts * kPlanePart), count = std::min(together, last - u);
    for (int64_t k = 0; k < count; ++k) partial[u + k] = 0;
    for (int64_t at = 0; at < length; at += kInL1) {
      const int64_t n = std::min(kInL1, length - at);
      for (int64_t k = 0; k < count; ++k) partial[u + k] += sum_run<kRelu>(from.at(begin + at + k * inner), n);
      const From<T> run = from.at(begin + at);
      if (kRelu) map<kStream>(d, count * n, Gate(), run.dx, run.y, run.dy);
    }
    u += count;
  }
  if (kStream) hwy::FlushStream();
}

void bias_backward_part(const BiasBackward& p, Args t, int64_t width, int64_t first, int64_t last, bool stream,
                        float* partial) {
  using P = BiasBackward;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const bool relu = p.act == Act::relu;
    const From<T> from{relu ? t[P::y].as<const T>() : nullptr, t[P::dy].as<const T>(),
                       relu ? t[P::dx].as<T>() : nullptr};
    if (p.inner < kLongPlane)
      (relu ? column_blocks<true, T> : column_blocks<false, T>)(from, p.elements(), width, first, last, stream,
                                                                partial);
    else if (relu)
      (stream ? plane_parts<true, true, T> : plane_parts<true, false, T>)(from, p.inner, first, last, partial);
    else
      plane_parts<false, false>(from, p.inner, first, last, partial);
  });
}

// dbias of channels [first, last)
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
  const int64_t period = p.c * p.inner;
  const int64_t width = p.inner < kLongPlane ? period * std::min(p.outer, ceil_div(kPattern, period)) : p.c;
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
  int64_t width = 0, tasks = 0, grain = 1, floats = 0;
  Partials at{0, 0, 0};
  if (p.elements() == 0) {  // dbias is 0
  } else if (p.inner < kLongPlane) {
    const int64_t period = p.c * p.inner, repeats = ceil_div(kWide, period);
    width = period * repeats;
    const int64_t blocks = ceil_div(ceil_div(p.elements(), width), kBlockRows);
    tasks = blocks * ceil_div(width, kStrip);
    floats = blocks * width;
    grain = 1 + kChunkElements / std::min(p.elements(), kBlockRows * std::min(width, kStrip));
    at = {blocks * repeats, period, p.inner};
  } else {
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
      HWY_DYNAMIC_DISPATCH(bias_backward_part)(p, t, width, first, last, stream, sums);
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
