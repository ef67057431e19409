// SPDX-License-Identifier: Apache-2.0
// The whole score matrix in memory: a tuned batched product, the masked softmax (one block per row), another product.
// It is the baseline that shows what flash attention saves. The query heads that share one head of k and v are adjacent
// in memory, so they are rows of one product.
#include "kernels/attention/flash.h"
#include "kernels/gemm/product.h"
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;
constexpr int64_t kMaxScoreBytes = int64_t{8} << 30;

// One block per row, 32 bytes of shared memory. s: (rows, Tk): in, scores; out, probabilities, 0 where masked. lse:
// (rows).
template <class T, class F>
__global__ void __launch_bounds__(kThreads) probabilities_kernel(F p, T* s, float* lse) {
  DUET_SHARED(float, part, [kThreads / 32]);
  const int64_t row = blockIdx.x, keys = p.keys_of(row / p.Tq);
  s += row * p.Tk;

  // Row maximum and sum of exponentials in one pass.
  RunningSoftmax mine;
  for (int64_t j = threadIdx.x; j < p.Tk; j += kThreads)
    if (p.sees(row % p.Tq, j, keys)) mine.add(load_pack<1>(s + j));
  const float max = block_reduce<MaxOp, kThreads>(mine.max, part);
  const float sum = block_reduce<SumOp, kThreads>(mine.sum_to(max), part);
  const float inv_sum = 1 / sum;

  // Write back.
  for (int64_t j = threadIdx.x; j < p.Tk; j += kThreads)
    s[j] = T(p.sees(row % p.Tq, j, keys) ? expf(float(s[j]) - max) * inv_sum : 0.0f);
  if (threadIdx.x == 0) lse[row] = max + logf(sum);
}

// One block per row, no shared memory. s: (rows, Tk): in, scores; out, probabilities. dp: (rows, Tk): in, dy v'; out,
// ds.
template <class T, class F>
__global__ void __launch_bounds__(kThreads) gradients_kernel(F p, T* s, T* dp, const float* lse, const float* delta) {
  const int64_t row = blockIdx.x, keys = p.keys_of(row / p.Tq);
  s += row * p.Tk;
  dp += row * p.Tk;
  for (int64_t j = threadIdx.x; j < p.Tk; j += kThreads) {
    const bool seen = p.sees(row % p.Tq, j, keys);
    const float e = seen ? expf(float(s[j]) - lse[row]) : 0.0f;
    dp[j] = T(seen ? p.scale * e * (float(dp[j]) - delta[row]) : 0.0f);
    s[j] = T(e);
  }
}

// A product for every head of k and v. m: the queries of all heads that share it, or its keys.
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
    if (bytes > kMaxScoreBytes) return Unsupported{"scores of more than 8 GiB"};
    WorkspaceLayout workspace;
    const auto all_scores = workspace.add<T>(rows * p.Tk);
    return Plan([p, rows, all_scores, &gpu](Args t) {
             T* const s = t.workspace(all_scores);
             enqueue_product<T>(scores(p, p.factor()), t[A::q].as<const T>(), t[A::k].as<const T>(), nullptr, s, gpu);
             for_mask(p, t, A::lengths, [&]<class F>(const F& mask) {
               launch(probabilities_kernel<T, F>, Grid{.blocks = rows, .threads = kThreads, .stream = gpu.stream()},
                      mask, s, t[A::lse].as<float>());
             });
             enqueue_product<T>(product(p, p.group() * p.Tq, p.D, p.Tk), s, t[A::v].as<const T>(), nullptr,
                                t[A::y].as<T>(), gpu);
           })
        .with("gemm, softmax, gemm", std::move(workspace));
  });
}
DUET_REGISTER(attention_materialised);

Plan attention_backward_materialised(const AttentionBackward& p, GpuContext& gpu) {
  using A = AttentionBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t rows = p.B * p.H * p.Tq, bytes = rows * p.Tk * int64_t{sizeof(T)};
    if (bytes > kMaxScoreBytes) return Unsupported{"scores of more than 8 GiB"};
    WorkspaceLayout workspace;
    const auto all_scores = workspace.add<T>(rows * p.Tk), all_gradients = workspace.add<T>(rows * p.Tk);
    const auto row_dots = workspace.add<float>(rows);
    Product to_key = product(p, p.Tk, p.D, p.group() * p.Tq);
    to_key.trans_a = true;
    return Plan([p, rows, to_key, all_scores, all_gradients, row_dots, &gpu](Args t) {
             T *const s = t.workspace(all_scores), *const ds = t.workspace(all_gradients);
             float* const delta = t.workspace(row_dots);
             const T *q = t[A::q].as<const T>(), *k = t[A::k].as<const T>(), *dy = t[A::dy].as<const T>();
             enqueue_product<T>(scores(p, p.factor()), q, k, nullptr, s, gpu);
             enqueue_product<T>(scores(p, 1), dy, t[A::v].as<const T>(), nullptr, ds, gpu);
             enqueue_row_dots(Flash(p), t[A::y].as<const T>(), dy, delta, gpu.stream());
             for_mask(p, t, A::lengths, [&]<class F>(const F& mask) {
               launch(gradients_kernel<T, F>, Grid{.blocks = rows, .threads = kThreads, .stream = gpu.stream()}, mask,
                      s, ds, t[A::lse].as<const float>(), delta);
             });
             enqueue_product<T>(product(p, p.group() * p.Tq, p.D, p.Tk), ds, k, nullptr, t[A::dq].as<T>(), gpu);
             enqueue_product<T>(to_key, ds, q, nullptr, t[A::dk].as<T>(), gpu);
             enqueue_product<T>(to_key, s, dy, nullptr, t[A::dv].as<T>(), gpu);
           })
        .with("gemm, gemm, softmax, gemm, gemm, gemm", std::move(workspace));
  });
}
DUET_REGISTER(attention_backward_materialised);
}  // namespace
}  // namespace duet::DUET_DEVICE
