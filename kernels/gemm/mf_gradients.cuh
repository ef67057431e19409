// SPDX-License-Identifier: Apache-2.0
// What mf_step_naive.cu and mf_step_tuned.cu share: the gradients in the workspace, which are cleared before the
// ratings add to them by atomic additions, and the pass that moves factors and biases by them.
#pragma once
#include "core/plan.h"
#include "kernels/vector.cuh"
#include "ops/gemm/mf_step.h"

namespace duet::DUET_DEVICE {

// A table of users or of items: rows and biases, their gradients, and how many ratings each has.
struct MfTable {
  float *rows, *bias, *row_gradient, *bias_gradient;
  int* count;
  int64_t n;  // rows
};

// A batch as kernels see it.
struct MfBatch {
  const int32_t *user, *item;
  const float *rating, *lr;
  float* e;  // (n)
  int64_t n, f;
  float mu, reg;
  __device__ __forceinline__ bool exists(int64_t j, const MfTable& users, const MfTable& items) const {
    return user[j] >= 0 && user[j] < users.n && item[j] >= 0 && item[j] < items.n;
  }
};

// A map_grid of the elements of row_gradient, bias_gradient and count. No shared memory.
static __global__ void __launch_bounds__(kMapBlock) mf_clear_kernel(MfTable t, int64_t f) {
  const int64_t i = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (i < t.n * f) t.row_gradient[i] = 0;
  if (i >= t.n) return;
  t.bias_gradient[i] = 0;
  t.count[i] = 0;
}

// The same grid: value += lr * (gradient - count * reg * value). Rows without ratings stay as they are, infinities too.
static __global__ void __launch_bounds__(kMapBlock) mf_apply_kernel(MfTable t, MfBatch b) {
  const int64_t i = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  const float lr = *b.lr;
  if (i < t.n * b.f) {
    const int count = t.count[i / b.f];
    if (count != 0) t.rows[i] += lr * (t.row_gradient[i] - float(count) * b.reg * t.rows[i]);
  }
  if (i < t.n && t.count[i] != 0) t.bias[i] += lr * (t.bias_gradient[i] - float(t.count[i]) * b.reg * t.bias[i]);
}

// The workspace of a plan, and the launches around its kernel for the ratings.
class MfGradients {
 public:
  MfGradients(const MfStep& s, WorkspaceLayout& workspace)
      : s_(s),
        p_(workspace.add<float>(s.users * s.f)),
        q_(workspace.add<float>(s.items * s.f)),
        bu_(workspace.add<float>(s.users)),
        bi_(workspace.add<float>(s.items)),
        user_count_(workspace.add<int32_t>(s.users)),
        item_count_(workspace.add<int32_t>(s.items)),
        e_(workspace.add<float>(s.n)) {}

  // Calls ratings(batch, users, items), which enqueues a kernel that sets e and adds the gradients. Returns e.
  template <class Ratings>
  const float* enqueue(const Args& t, cudaStream_t stream, const Ratings& ratings) const {
    using P = MfStep;
    const MfTable users{t[P::p].as<float>(), t[P::bu].as<float>(),     t.workspace(p_),
                        t.workspace(bu_),    t.workspace(user_count_), s_.users};
    const MfTable items{t[P::q].as<float>(), t[P::bi].as<float>(),     t.workspace(q_),
                        t.workspace(bi_),    t.workspace(item_count_), s_.items};
    const MfBatch batch{t[P::user].as<const int32_t>(),
                        t[P::item].as<const int32_t>(),
                        t[P::rating].as<const float>(),
                        t[P::lr].as<const float>(),
                        t.workspace(e_),
                        s_.n,
                        s_.f,
                        static_cast<float>(s_.mu),
                        static_cast<float>(s_.reg)};
    const auto grid = [&](const MfTable& table) { return map_grid(table.n * std::max<int64_t>(1, s_.f), 1, stream); };
    launch(mf_clear_kernel, grid(users), users, s_.f);
    launch(mf_clear_kernel, grid(items), items, s_.f);
    ratings(batch, users, items);
    launch(mf_apply_kernel, grid(users), users, batch);
    launch(mf_apply_kernel, grid(items), items, batch);
    return batch.e;
  }

 private:
  MfStep s_;
  WorkspacePiece<float> p_, q_, bu_, bi_;
  WorkspacePiece<int32_t> user_count_, item_count_;
  WorkspacePiece<float> e_;
};

}  // namespace duet::DUET_DEVICE
