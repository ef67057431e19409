// SPDX-License-Identifier: Apache-2.0
// One thread per element of each intermediate tensor and result: the formulas as written, with scores and probabilities
// in memory. The baseline for attention_tuned.cu.
#include <type_traits>

#include "ops/attention/attention_packed.h"
#include "simt/launch.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;
constexpr int64_t kMaxScoreBytes = int64_t{8} << 30;

// The parameters of the kernels, and where rows lie. Head h of q uses head h / group of k and v, counted over the
// batch; rows of q, y and their gradients are counted over all heads.
struct Heads {
  int64_t H, group, Tq, Tk, D, window;
  bool causal;
  float scale;
  const int32_t* lengths;
  Heads(const AttentionShape& p, const int32_t* lengths)
      : H(p.H),
        group(p.group()),
        Tq(p.Tq),
        Tk(p.Tk),
        D(p.D),
        window(p.window > 0 ? p.window : p.Tq + 1),
        causal(p.causal),
        scale(static_cast<float>(p.factor())),
        lengths(lengths) {}
  __device__ int64_t q_row(int64_t row) const { return row * D; }
  __device__ int64_t y_row(int64_t row) const { return row * D; }
  __device__ int64_t k_row(int64_t head, int64_t j) const { return (head * Tk + j) * D; }  // head: of k and v
  __device__ int64_t k_line() const { return D; }                                          // from key to key
  // The keys [first, last) that a query sees; row: of all heads.
  __device__ int64_t first(int64_t row) const { return max(int64_t{0}, row % Tq + 1 - window); }
  __device__ int64_t last(int64_t row) const {
    const int64_t keys = lengths == nullptr ? Tk : min(Tk, max(int64_t{1}, int64_t{lengths[row / Tq / H]}));
    return causal ? min(keys, row % Tq + 1) : keys;
  }
};
// Heads that lie beside each other in each token.
struct PackedHeads : Heads {
  explicit PackedHeads(const PackedAttentionShape& p) : Heads(p.unpacked(), nullptr) {}
  __device__ int64_t q_row(int64_t row) const { return at(row, 3); }
  __device__ int64_t y_row(int64_t row) const { return at(row, 1); }
  __device__ int64_t k_row(int64_t head, int64_t j) const { return at(head * Tk + j, 3); }
  __device__ int64_t k_line() const { return 3 * H * D; }
  __device__ int64_t at(int64_t row, int64_t parts) const {
    const int64_t head = row / Tq, token = head / H * Tq + row % Tq;
    return (token * parts * H + head % H) * D;
  }
};

Heads heads_of(const Attention& p, const Args& t) {
  return {p, p.padded ? t[Attention::lengths].as<const int32_t>() : nullptr};
}
Heads heads_of(const AttentionBackward& p, const Args& t) {
  return {p, p.padded ? t[AttentionBackward::lengths].as<const int32_t>() : nullptr};
}
PackedHeads heads_of(const PackedAttentionShape& p, const Args&) { return PackedHeads(p); }

Grid grid_of(int64_t elements, const GpuContext& gpu) {
  return {.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
}
__device__ int64_t my_element() { return int64_t{blockIdx.x} * kThreads + threadIdx.x; }

template <class T>
__device__ float dot(const T* a, const T* b, int64_t n) {
  float sum = 0;
  for (int64_t c = 0; c < n; ++c) sum += float(a[c]) * float(b[c]);
  return sum;
}

// All kernels here: ceil(elements / kThreads) blocks of kThreads, no shared memory. s: (heads, Tq, Tk); the others lie
// as Heads says.
template <class P, class T>
__global__ void scores_kernel(P p, const T* q, const T* k, float* s, int64_t elements) {
  const int64_t index = my_element();
  if (index >= elements) return;
  const int64_t j = index % p.Tk, row = index / p.Tk, head = row / p.Tq;
  if (j < p.first(row) || j >= p.last(row)) return;
  s[index] = p.scale * dot(q + p.q_row(row), k + p.k_row(head / p.group, j), p.D);
}

// One thread per row of s, which becomes probabilities, 0 where masked. lse: (rows).
__global__ void probabilities_kernel(Heads p, float* s, float* lse, int64_t rows) {
  const int64_t row = my_element();
  if (row >= rows) return;
  s += row * p.Tk;
  const int64_t first = p.first(row), last = p.last(row);

  // Row maximum.
  float max = -INFINITY;
  for (int64_t j = first; j < last; ++j) max = fmaxf(max, s[j]);

  // Sum of exponentials, then the quotient.
  float sum = 0;
  for (int64_t j = first; j < last; ++j) sum += expf(s[j] - max);
  for (int64_t j = 0; j < p.Tk; ++j) s[j] = j >= first && j < last ? expf(s[j] - max) / sum : 0;
  lse[row] = max + logf(sum);
}

// y[row] = sum_j s[row,j] x[j], x: as k. Forward: probabilities with v gives y. Backward, y as q: ds with k gives dq.
template <bool kBackward, class P, class T>
__global__ void over_keys_kernel(P p, const float* s, const T* x, T* y, int64_t elements) {
  const int64_t index = my_element();
  if (index >= elements) return;
  const int64_t c = index % p.D, row = index / p.D, head = row / p.Tq;
  x += p.k_row(head / p.group, 0) + c;
  s += row * p.Tk;
  float sum = 0;
  for (int64_t j = 0; j < p.Tk; ++j) sum += s[j] * float(x[j * p.k_line()]);
  y[(kBackward ? p.q_row(row) : p.y_row(row)) + c] = T(sum);
}

template <class T>
struct Forward {
  const T *q, *k, *v;
  T* y;
  float* lse;
};
template <class T>
Forward<T> tensors_of(const Attention&, const Args& t) {
  using A = Attention;
  return {t[A::q].as<const T>(), t[A::k].as<const T>(), t[A::v].as<const T>(), t[A::y].as<T>(), t[A::lse].as<float>()};
}
template <class T>
Forward<T> tensors_of(const AttentionPacked& p, const Args& t) {
  using A = AttentionPacked;
  const T* qkv = t[A::qkv].as<const T>();
  return {p.part(qkv, 0), p.part(qkv, 1), p.part(qkv, 2), t[A::y].as<T>(), t[A::lse].as<float>()};
}

// problem: of shape p, packed or not.
Plan naive(const auto& problem, const AttentionShape& p, GpuContext& gpu) {
  const int64_t rows = p.B * p.H * p.Tq, bytes = rows * p.Tk * int64_t{sizeof(float)};
  if (bytes > kMaxScoreBytes) return Unsupported{"scores of more than 8 GiB"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const auto scores = workspace.add<float>(rows * p.Tk);
    return Plan([problem, rows, scores, &gpu](Args t) {
             float* const s = t.workspace(scores);
             const auto heads = heads_of(problem, t);
             using P = std::remove_const_t<decltype(heads)>;
             const Forward<T> of = tensors_of<T>(problem, t);
             launch(scores_kernel<P, T>, grid_of(rows * heads.Tk, gpu), heads, of.q, of.k, s, rows * heads.Tk);
             launch(probabilities_kernel, grid_of(rows, gpu), heads, s, of.lse, rows);
             launch(over_keys_kernel<false, P, T>, grid_of(rows * heads.D, gpu), heads, s, of.v, of.y, rows * heads.D);
           })
        .with(std::move(workspace));
  });
}

Plan attention_naive(const Attention& p, GpuContext& gpu) { return naive(p, p, gpu); }
DUET_REGISTER(attention_naive);

Plan attention_packed_naive(const AttentionPacked& p, GpuContext& gpu) { return naive(p, p.unpacked(), gpu); }
DUET_REGISTER(attention_packed_naive);

// Writes the probabilities and ds, both (heads, Tq, Tk), 0 where masked.
template <class P, class T>
__global__ void gradients_kernel(P p, const T* q, const T* k, const T* v, const T* y, const float* lse, const T* dy,
                                 float* prob, float* ds, int64_t elements) {
  const int64_t index = my_element();
  if (index >= elements) return;
  const int64_t j = index % p.Tk, row = index / p.Tk, key = p.k_row(row / p.Tq / p.group, j);
  float e = 0, slope = 0;
  if (j >= p.first(row) && j < p.last(row)) {
    const T* const dy_row = dy + p.y_row(row);
    e = expf(p.scale * dot(q + p.q_row(row), k + key, p.D) - lse[row]);
    slope = dot(dy_row, v + key, p.D) - dot(dy_row, y + p.y_row(row), p.D);
  }
  prob[index] = e;
  ds[index] = p.scale * e * slope;
}

// dk[j] = sum_i s[i,j] x[i] over the queries i of all heads that share the key. ds with q gives dk; the probabilities
// with dy, kOfY, give dv.
template <bool kOfY, class P, class T>
__global__ void over_queries_kernel(P p, const float* s, const T* x, T* dk, int64_t elements) {
  const int64_t index = my_element();
  if (index >= elements) return;
  const int64_t c = index % p.D, key = index / p.D, j = key % p.Tk, first = key / p.Tk * p.group * p.Tq;
  float sum = 0;
  for (int64_t row = first; row < first + p.group * p.Tq; ++row)
    sum += s[row * p.Tk + j] * float(x[(kOfY ? p.y_row(row) : p.q_row(row)) + c]);
  dk[p.k_row(key / p.Tk, j) + c] = T(sum);
}

template <class T>
struct Backward {
  const T *q, *k, *v, *y, *dy;
  const float* lse;
  T *dq, *dk, *dv;
};
template <class T>
Backward<T> tensors_of(const AttentionBackward&, const Args& t) {
  using A = AttentionBackward;
  return {t[A::q].as<const T>(), t[A::k].as<const T>(),  t[A::v].as<const T>(),
          t[A::y].as<const T>(), t[A::dy].as<const T>(), t[A::lse].as<const float>(),
          t[A::dq].as<T>(),      t[A::dk].as<T>(),       t[A::dv].as<T>()};
}
template <class T>
Backward<T> tensors_of(const AttentionPackedBackward& p, const Args& t) {
  using A = AttentionPackedBackward;
  const T* qkv = t[A::qkv].as<const T>();
  T* dqkv = t[A::dqkv].as<T>();
  return {p.part(qkv, 0),        p.part(qkv, 1),         p.part(qkv, 2),
          t[A::y].as<const T>(), t[A::dy].as<const T>(), t[A::lse].as<const float>(),
          p.part(dqkv, 0),       p.part(dqkv, 1),        p.part(dqkv, 2)};
}

Plan naive_backward(const auto& problem, const AttentionShape& p, GpuContext& gpu) {
  const int64_t rows = p.B * p.H * p.Tq, keys = p.B * p.kv_heads() * p.Tk;
  const int64_t bytes = rows * p.Tk * int64_t{sizeof(float)};
  if (bytes > kMaxScoreBytes) return Unsupported{"scores of more than 8 GiB"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const auto probabilities = workspace.add<float>(rows * p.Tk), gradients = workspace.add<float>(rows * p.Tk);
    return Plan([problem, rows, keys, probabilities, gradients, &gpu](Args t) {
             float *const prob = t.workspace(probabilities), *const ds = t.workspace(gradients);
             const auto heads = heads_of(problem, t);
             using P = std::remove_const_t<decltype(heads)>;
             const Backward<T> of = tensors_of<T>(problem, t);
             const int64_t of_queries = rows * heads.D, of_keys = keys * heads.D;
             launch(gradients_kernel<P, T>, grid_of(rows * heads.Tk, gpu), heads, of.q, of.k, of.v, of.y, of.lse, of.dy,
                    prob, ds, rows * heads.Tk);
             launch(over_keys_kernel<true, P, T>, grid_of(of_queries, gpu), heads, ds, of.k, of.dq, of_queries);
             launch(over_queries_kernel<false, P, T>, grid_of(of_keys, gpu), heads, ds, of.q, of.dk, of_keys);
             launch(over_queries_kernel<true, P, T>, grid_of(of_keys, gpu), heads, prob, of.dy, of.dv, of_keys);
           })
        .with(std::move(workspace));
  });
}

Plan attention_backward_naive(const AttentionBackward& p, GpuContext& gpu) { return naive_backward(p, p, gpu); }
DUET_REGISTER(attention_backward_naive);

Plan attention_packed_backward_naive(const AttentionPackedBackward& p, GpuContext& gpu) {
  return naive_backward(p, p.unpacked(), gpu);
}
DUET_REGISTER(attention_packed_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
