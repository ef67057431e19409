// SPDX-License-Identifier: Apache-2.0
// The whole score matrix in memory: the tuned batched product, softmax under the mask, another product. What flash style
// saves is seen beside it. The query heads that share k and v lie one after the other, so they are rows of one product.
#include "kernels/attention/flash.h"
#include "kernels/gemm/product.h"
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;
constexpr int64_t kMostBytes = int64_t{8} << 30;  // of a matrix of scores

// One block per row, 32 bytes of shared memory. s: (rows, Tk), scores, becomes probabilities, 0 where masked. lse: (rows).
template <class T>
__global__ void __launch_bounds__(kThreads) probabilities_kernel(Flash p, T* s, float* lse) {
  DUET_SHARED(float, part, [kThreads / 32]);
  const int64_t row = blockIdx.x;
  s += row * p.Tk;
  RunningSoftmax mine;
  for (int64_t j = threadIdx.x; j < p.Tk; j += kThreads)
    if (p.sees(row % p.Tq, j)) mine.add(load_pack<1>(s + j));
  const float max = block_reduce<TakeMax, kThreads>(mine.max, part);
  const float sum = block_reduce<TakeSum, kThreads>(mine.sum_to(max), part), scale = 1 / sum;
  for (int64_t j = threadIdx.x; j < p.Tk; j += kThreads)
    s[j] = T(p.sees(row % p.Tq, j) ? expf(float(s[j]) - max) * scale : 0.0f);
  if (threadIdx.x == 0) lse[row] = max + logf(sum);
}

// One block per row. s: (rows, Tk), scores, becomes probabilities; dp: dy v', becomes ds.
template <class T>
__global__ void __launch_bounds__(kThreads)
    gradients_kernel(Flash p, T* s, T* dp, const float* lse, const float* delta) {
  const int64_t row = blockIdx.x;
  s += row * p.Tk;
  dp += row * p.Tk;
  for (int64_t j = threadIdx.x; j < p.Tk; j += kThreads) {
    const bool seen = p.sees(row % p.Tq, j);
    const float e = seen ? expf(float(s[j]) - lse[row]) : 0.0f;
    dp[j] = T(seen ? p.scale * e * (float(dp[j]) - delta[row]) : 0.0f);
    s[j] = T(e);
  }
}

// Over all heads of k and v; m: of the queries that share one, or its keys.
Product product(const AttentionShape& p, int64_t m, int64_t n, int64_t k) {
  return {.batch = p.B * p.kv_heads(), .m = m, .n = n, .k = k};
}
Product scores(const AttentionShape& p, double factor) {
  Product s = product(p, p.group() * p.Tq, p.Tk, p.D);
  s.trans_b = true;
  s.alpha = static_cast<float>(factor);
  return s;
}

Plan attention_materialised(const Attention& p, GpuContext& gpu) {
  using A = Attention;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t rows = p.B * p.H * p.Tq, bytes = rows * p.Tk * int64_t{sizeof(T)};
    if (bytes > kMostBytes) return Unsupported{"scores of more than 8 GiB"};
    Workspace s(gpu, bytes);
    return Plan([p, rows, s = std::move(s), &gpu](Args t) {
             enqueue_product<T>(scores(p, p.factor()), t[A::q].as<const T>(), t[A::k].as<const T>(), nullptr, s.as<T>(),
                                gpu);
             launch(probabilities_kernel<T>, Grid{.blocks = rows, .threads = kThreads, .stream = gpu.stream()},
                    Flash(p), s.as<T>(), t[A::lse].as<float>());
             enqueue_product<T>(product(p, p.group() * p.Tq, p.D, p.Tk), s.as<const T>(), t[A::v].as<const T>(),
                                nullptr, t[A::y].as<T>(), gpu);
           })
        .with("gemm, softmax, gemm", bytes);
  });
}
DUET_REGISTER(attention_materialised);

Plan attention_backward_materialised(const AttentionBackward& p, GpuContext& gpu) {
  using A = AttentionBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t rows = p.B * p.H * p.Tq, bytes = rows * p.Tk * int64_t{sizeof(T)};
    if (bytes > kMostBytes) return Unsupported{"scores of more than 8 GiB"};
    Workspace s(gpu, bytes), ds(gpu, bytes), delta(gpu, rows * int64_t{sizeof(float)});
    Product to_key = product(p, p.Tk, p.D, p.group() * p.Tq);
    to_key.trans_a = true;
    const int64_t workspace = 2 * bytes + delta.bytes();
    return Plan([p, rows, to_key, s = std::move(s), ds = std::move(ds), delta = std::move(delta), &gpu](Args t) {
             const T *q = t[A::q].as<const T>(), *k = t[A::k].as<const T>(), *dy = t[A::dy].as<const T>();
             enqueue_product<T>(scores(p, p.factor()), q, k, nullptr, s.as<T>(), gpu);
             enqueue_product<T>(scores(p, 1), dy, t[A::v].as<const T>(), nullptr, ds.as<T>(), gpu);
             enqueue_row_dots(rows, p.D, t[A::y].as<const T>(), dy, delta.as<float>(), gpu.stream());
             launch(gradients_kernel<T>, Grid{.blocks = rows, .threads = kThreads, .stream = gpu.stream()}, Flash(p),
                    s.as<T>(), ds.as<T>(), t[A::lse].as<const float>(), delta.as<float>());
             enqueue_product<T>(product(p, p.group() * p.Tq, p.D, p.Tk), ds.as<const T>(), k, nullptr, t[A::dq].as<T>(),
                                gpu);
             enqueue_product<T>(to_key, ds.as<const T>(), q, nullptr, t[A::dk].as<T>(), gpu);
             enqueue_product<T>(to_key, s.as<const T>(), dy, nullptr, t[A::dv].as<T>(), gpu);
           })
        .with("gemm, gemm, softmax, gemm, gemm, gemm", workspace);
  });
}
DUET_REGISTER(attention_backward_materialised);
}  // namespace
}  // namespace duet::DUET_DEVICE
