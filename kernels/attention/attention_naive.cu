// SPDX-License-Identifier: Apache-2.0
// One thread per element of each intermediate tensor and result: the formulas as written, with scores and probabilities
// in memory. The baseline for attention_tuned.cu.
#include "simt/launch.h"
#include "ops/attention/attention.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;
constexpr int64_t kMaxScoreBytes = int64_t{8} << 30;

// The parameters of the kernels. Head h of q uses head h / group of k and v, counted over the batch.
struct Heads {
  int64_t H, group, Tq, Tk, D, window;
  bool causal;
  float scale;
  const int32_t* lengths;
  Heads(const AttentionShape& p, const Args& t, Slot lengths_slot)
      : H(p.H),
        group(p.group()),
        Tq(p.Tq),
        Tk(p.Tk),
        D(p.D),
        window(p.window > 0 ? p.window : p.Tq + 1),
        causal(p.causal),
        scale(static_cast<float>(p.factor())),
        lengths(p.padded ? t[lengths_slot].as<const int32_t>() : nullptr) {}
  // The keys [first, last) that a query sees; row: of all heads.
  __device__ int64_t first(int64_t row) const { return max(int64_t{0}, row % Tq + 1 - window); }
  __device__ int64_t last(int64_t row) const {
    const int64_t keys = lengths == nullptr ? Tk : min(Tk, max(int64_t{1}, int64_t{lengths[row / Tq / H]}));
    return causal ? min(keys, row % Tq + 1) : keys;
  }
};

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

// All kernels here: ceil(elements / kThreads) blocks of kThreads, no shared memory. s: (heads, Tq, Tk); q: (heads, Tq,
// D); k: (heads / group, Tk, D).
template <class T>
__global__ void scores_kernel(Heads p, const T* q, const T* k, float* s, int64_t elements) {
  const int64_t index = my_element();
  if (index >= elements) return;
  const int64_t j = index % p.Tk, row = index / p.Tk, head = row / p.Tq;
  if (j < p.first(row) || j >= p.last(row)) return;
  s[index] = p.scale * dot(q + row * p.D, k + (head / p.group * p.Tk + j) * p.D, p.D);
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

// y[row] = sum_j s[row,j] x[j], x: (heads / group, Tk, D). Forward: probabilities with v gives y. Backward: ds with k
// gives dq.
template <class T>
__global__ void over_keys_kernel(Heads p, const float* s, const T* x, T* y, int64_t elements) {
  const int64_t index = my_element();
  if (index >= elements) return;
  const int64_t c = index % p.D, row = index / p.D, head = row / p.Tq;
  x += head / p.group * p.Tk * p.D + c;
  s += row * p.Tk;
  float sum = 0;
  for (int64_t j = 0; j < p.Tk; ++j) sum += s[j] * float(x[j * p.D]);
  y[index] = T(sum);
}

Plan attention_naive(const Attention& p, GpuContext& gpu) {
  using A = Attention;
  const int64_t rows = p.B * p.H * p.Tq, bytes = rows * p.Tk * int64_t{sizeof(float)};
  if (bytes > kMaxScoreBytes) return Unsupported{"scores of more than 8 GiB"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const auto scores = workspace.add<float>(rows * p.Tk);
    return Plan([p, rows, scores, &gpu](Args t) {
             float* const s = t.workspace(scores);
             const Heads heads(p, t, A::lengths);
             launch(scores_kernel<T>, grid_of(rows * p.Tk, gpu), heads, t[A::q].as<const T>(), t[A::k].as<const T>(), s,
                    rows * p.Tk);
             launch(probabilities_kernel, grid_of(rows, gpu), heads, s, t[A::lse].as<float>(), rows);
             launch(over_keys_kernel<T>, grid_of(rows * p.D, gpu), heads, s, t[A::v].as<const T>(), t[A::y].as<T>(),
                    rows * p.D);
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(attention_naive);

// Writes the probabilities and ds, both (heads, Tq, Tk), 0 where masked.
template <class T>
__global__ void gradients_kernel(Heads p, const T* q, const T* k, const T* v, const T* y, const float* lse, const T* dy,
                                 float* prob, float* ds, int64_t elements) {
  const int64_t index = my_element();
  if (index >= elements) return;
  const int64_t j = index % p.Tk, row = index / p.Tk, key = row / p.Tq / p.group * p.Tk + j;
  float e = 0, slope = 0;
  if (j >= p.first(row) && j < p.last(row)) {
    e = expf(p.scale * dot(q + row * p.D, k + key * p.D, p.D) - lse[row]);
    slope = dot(dy + row * p.D, v + key * p.D, p.D) - dot(dy + row * p.D, y + row * p.D, p.D);
  }
  prob[index] = e;
  ds[index] = p.scale * e * slope;
}

// dk[j] = sum_i s[i,j] x[i] over the queries i of all heads that share the key. ds with q gives dk; the probabilities
// with dy give dv.
template <class T>
__global__ void over_queries_kernel(Heads p, const float* s, const T* x, T* dk, int64_t elements) {
  const int64_t index = my_element();
  if (index >= elements) return;
  const int64_t c = index % p.D, key = index / p.D, j = key % p.Tk, first = key / p.Tk * p.group * p.Tq;
  float sum = 0;
  for (int64_t row = first; row < first + p.group * p.Tq; ++row) sum += s[row * p.Tk + j] * float(x[row * p.D + c]);
  dk[index] = T(sum);
}

Plan attention_backward_naive(const AttentionBackward& p, GpuContext& gpu) {
  using A = AttentionBackward;
  const int64_t rows = p.B * p.H * p.Tq, keys = p.B * p.kv_heads() * p.Tk;
  const int64_t bytes = rows * p.Tk * int64_t{sizeof(float)};
  if (bytes > kMaxScoreBytes) return Unsupported{"scores of more than 8 GiB"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const auto probabilities = workspace.add<float>(rows * p.Tk), gradients = workspace.add<float>(rows * p.Tk);
    return Plan([p, rows, keys, probabilities, gradients, &gpu](Args t) {
             float *const prob = t.workspace(probabilities), *const ds = t.workspace(gradients);
             const Heads heads(p, t, A::lengths);
             const T *q = t[A::q].as<const T>(), *k = t[A::k].as<const T>(), *dy = t[A::dy].as<const T>();
             launch(gradients_kernel<T>, grid_of(rows * p.Tk, gpu), heads, q, k, t[A::v].as<const T>(),
                    t[A::y].as<const T>(), t[A::lse].as<const float>(), dy, prob, ds, rows * p.Tk);
             launch(over_keys_kernel<T>, grid_of(rows * p.D, gpu), heads, ds, k, t[A::dq].as<T>(), rows * p.D);
             launch(over_queries_kernel<T>, grid_of(keys * p.D, gpu), heads, ds, q, t[A::dk].as<T>(), keys * p.D);
             launch(over_queries_kernel<T>, grid_of(keys * p.D, gpu), heads, prob, dy, t[A::dv].as<T>(), keys * p.D);
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(attention_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
