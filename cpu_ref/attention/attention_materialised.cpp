// SPDX-License-Identifier: Apache-2.0
// attention and its backward with the whole matrix of scores in memory: the batched gemm of cpu.tuned, softmax under
// the mask, gemm again. It is there to show what the flash style of attention_tuned.cpp saves. The query heads that
// share k and v lie one after the other, so they are rows of one product. The gemm divides itself among threads; the
// passes between share the rows.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/attention/attention_materialised.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "core/registry.h"
#include "cpu_ref/attention/lengths.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/softmax-inl.h"
#include "ops/attention/attention.h"
#include "ops/gemm/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// What a query does not see of a row of n values becomes 0.
template <class T>
void clear_masked(T* row, AttentionShape::Keys seen, int64_t n) {
  std::memset(static_cast<void*>(row), 0, static_cast<size_t>(seen.first) * sizeof(T));
  std::memset(static_cast<void*>(row + seen.last), 0, static_cast<size_t>(n - seen.last) * sizeof(T));
}

// Rows [first, last) of the scores (B H Tq, Tk), in place: they become probabilities, 0 where masked. Writes lse as
// well.
void probabilities(const AttentionShape& p, const KeyLengths& lengths, void* scores, float* lse, int64_t first,
                   int64_t last) {
  const hn::ScalableTag<float> d;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t row = first; row < last; ++row) {
      T* const all = static_cast<T*>(scores) + row * p.Tk;
      const auto keys = p.seen(row % p.Tq, lengths[row / p.Tq / p.H]);
      T* const s = all + keys.first;
      const int64_t n = keys.last - keys.first;
      // Maximum and sum of exponentials of the visible keys.
      const float top = top_of(max_of(s, n)), sum = power_sum(s, n, top);
      lse[row] = (top + std::log2(sum)) * std::numbers::ln2_v<float>;
      // Probabilities, and 0 where masked.
      const auto vtop = hn::Set(d, top), scale = hn::Set(d, 1 / sum);
      map<false>(
          d, n, [&](auto v) HWY_ATTR { return hn::Mul(scale, exp2(d, log2e_times_minus(v, vtop))); }, s, s);
      clear_masked(all, keys, p.Tk);
    }
  });
}

// The same rows backward, in place: the scores become probabilities again, and dp = dy v' becomes ds, the gradient of
// the scores.
void gradients(const AttentionShape& p, const KeyLengths& lengths, void* scores, void* dp, const void* y,
               const void* dy, const float* lse, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t row = first; row < last; ++row) {
      T *const all = static_cast<T*>(scores) + row * p.Tk, *const all_ds = static_cast<T*>(dp) + row * p.Tk;
      const T *a = static_cast<const T*>(y) + row * p.D, *b = static_cast<const T*>(dy) + row * p.D;
      const auto keys = p.seen(row % p.Tq, lengths[row / p.Tq / p.H]);
      T *const s = all + keys.first, *const ds = all_ds + keys.first;
      const int64_t n = keys.last - keys.first;
      // delta = y . dy.
      auto sum = hn::Zero(d);
      for (int64_t c = 0; c < p.D; c += lanes)
        sum = hn::MulAdd(load_as_f32(d, a + c, p.D - c), load_as_f32(d, b + c, p.D - c), sum);
      const auto delta = hn::SumOfLanes(d, sum), factor = hn::Set(d, static_cast<float>(p.factor()));
      const auto level = hn::Set(d, lse[row] * kLog2E);
      // Probabilities and ds, and 0 where masked.
      for (int64_t j = 0; j < n; j += lanes) {
        const auto e = exp2(d, log2e_times_minus(load_as_f32(d, s + j, n - j), level));
        store_f32_as(d, hn::Mul(hn::Mul(e, factor), hn::Sub(load_as_f32(d, ds + j, n - j), delta)), ds + j, n - j);
        store_f32_as(d, e, s + j, n - j);
      }
      clear_masked(all, keys, p.Tk);
      clear_masked(all_ds, keys, p.Tk);
    }
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(probabilities);
HWY_EXPORT(gradients);

class Product {
 public:
  Product(Gemm gemm, CpuContext& cpu, WorkspaceLayout& workspace)
      : dtype_(gemm.dtype),
        plan_(find_implementation("gemm", "cpu.tuned")->plan(Problem::of(gemm), cpu)),
        workspace_(workspace.add(plan_.workspace)) {}
  // args: of the plan that this product is a part of.
  void operator()(const Args& args, const void* a, const void* b, void* c) {
    const Tensor tensors[]{
        {const_cast<void*>(a), dtype_, Role::in}, {const_cast<void*>(b), dtype_, Role::in}, {c, dtype_, Role::out}};
    plan_(Args(tensors, args.workspace(workspace_), workspace_.bytes()));
  }

 private:
  DType dtype_;
  Plan plan_;
  WorkspacePiece<void> workspace_;
};

// One product for each head of k and v. m: the rows of all queries that share the head, or its keys.
Gemm product(const AttentionShape& p, int64_t m, int64_t n, int64_t k) {
  return {.batch = p.B * p.kv_heads(), .m = m, .n = n, .k = k, .dtype = p.dtype};
}
Gemm scores(const AttentionShape& p, double factor) {
  Gemm g = product(p, p.group() * p.Tq, p.Tk, p.D);
  g.trans_b = true;
  g.alpha = static_cast<float>(factor);
  return g;
}

Plan attention_materialised(const Attention& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  WorkspaceLayout workspace;
  Product score(scores(p, p.factor()), cpu, workspace);
  Product mix(product(p, p.group() * p.Tq, p.D, p.Tk), cpu, workspace);
  const auto all_scores = workspace.add_bytes(p.B * p.H * p.Tq * p.Tk * size_of(p.dtype));
  auto run = [p, score = std::move(score), mix = std::move(mix), all_scores, &cpu](Args t) mutable {
    void* const s = t.workspace(all_scores);
    score(t, t[Attention::q].data, t[Attention::k].data, s);
    cpu.parallel_for(p.B * p.H * p.Tq, rows_per_chunk(p.Tk), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(probabilities)
      (p, KeyLengths(p, t, Attention::lengths), s, t[Attention::lse].as<float>(), first, last);
    });
    mix(t, s, t[Attention::v].data, t[Attention::y].data);
  };
  return Plan(std::move(run)).with("gemm, softmax, gemm", std::move(workspace));
}
DUET_REGISTER(attention_materialised);  // cpu.materialised

Plan attention_backward_materialised(const AttentionBackward& p, CpuContext& cpu) {
  using A = AttentionBackward;
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  Gemm transposed = product(p, p.Tk, p.D, p.group() * p.Tq);
  transposed.trans_a = true;
  WorkspaceLayout workspace;
  Product score(scores(p, p.factor()), cpu, workspace), to_p(scores(p, 1), cpu, workspace);
  Product to_q(product(p, p.group() * p.Tq, p.D, p.Tk), cpu, workspace), to_key(transposed, cpu, workspace);
  const int64_t bytes = p.B * p.H * p.Tq * p.Tk * size_of(p.dtype);
  const auto all_scores = workspace.add_bytes(bytes), all_gradients = workspace.add_bytes(bytes);
  auto run = [p, score = std::move(score), to_p = std::move(to_p), to_q = std::move(to_q), to_key = std::move(to_key),
              all_scores, all_gradients, &cpu](Args t) mutable {
    void *const s = t.workspace(all_scores), *const ds = t.workspace(all_gradients);
    score(t, t[A::q].data, t[A::k].data, s);
    to_p(t, t[A::dy].data, t[A::v].data, ds);
    cpu.parallel_for(p.B * p.H * p.Tq, rows_per_chunk(p.Tk), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(gradients)
      (p, KeyLengths(p, t, A::lengths), s, ds, t[A::y].data, t[A::dy].data, t[A::lse].as<const float>(), first, last);
    });
    to_q(t, ds, t[A::k].data, t[A::dq].data);
    to_key(t, ds, t[A::q].data, t[A::dk].data);
    to_key(t, s, t[A::dy].data, t[A::dv].data);
  };
  return Plan(std::move(run)).with("gemm, gemm, softmax, gemm, gemm, gemm", std::move(workspace));
}
DUET_REGISTER(attention_backward_materialised);  // cpu.materialised

}  // namespace
}  // namespace duet
#endif
