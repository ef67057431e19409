// SPDX-License-Identifier: Apache-2.0
// A warp per rating: its lanes share the factors, so that rows are read and gradients are added 128 bytes at a time.
// The tables and their gradients are small enough for L2, where the atomic additions are done. total.cuh adds the
// squares of the errors.
#include "kernels/gemm/mf_gradients.cuh"
#include "kernels/reduction/total.cuh"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kHeld = 4;  // factors of each table that a lane holds in registers: f up to 128

// ceil(n / 8) blocks of 256 threads, no shared memory.
__global__ void __launch_bounds__(kThreads) ratings_kernel(MfBatch b, MfTable users, MfTable items) {
  const int64_t j = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (j >= b.n) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (!b.exists(j, users, items)) {
    if (lane == 0) b.e[j] = 0;
    return;
  }
  const int64_t user = b.user[j], item = b.item[j];
  const float *p = users.rows + user * b.f, *q = items.rows + item * b.f;
  // The product of the two rows.
  float of_p[kHeld], of_q[kHeld], sum = 0;
#pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    const int64_t c = lane + 32 * h;
    of_p[h] = c < b.f ? p[c] : 0;
    of_q[h] = c < b.f ? q[c] : 0;
    sum += of_p[h] * of_q[h];
  }
  for (int64_t c = lane + 32 * kHeld; c < b.f; c += 32) sum += p[c] * q[c];
  const float e = b.rating[j] - b.mu - users.bias[user] - items.bias[item] - warp_reduce<SumOp>(sum);

  // Gradients.
  float *to_p = users.row_gradient + user * b.f, *to_q = items.row_gradient + item * b.f;
#pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    const int64_t c = lane + 32 * h;
    if (c >= b.f) break;
    atomicAdd(to_p + c, e * of_q[h]);
    atomicAdd(to_q + c, e * of_p[h]);
  }
  for (int64_t c = lane + 32 * kHeld; c < b.f; c += 32) {
    atomicAdd(to_p + c, e * q[c]);
    atomicAdd(to_q + c, e * p[c]);
  }
  if (lane != 0) return;
  b.e[j] = e;
  atomicAdd(users.bias_gradient + user, e);
  atomicAdd(items.bias_gradient + item, e);
  atomicAdd(users.count + user, 1);
  atomicAdd(items.count + item, 1);
}

struct Square {
  __device__ float operator()(float x) const { return x * x; }
};
Plan mf_step_tuned(const MfStep& s, GpuContext& gpu) {
  if (s.dtype != DType::f32) return Unsupported{"dtype other than f32"};
  WorkspaceLayout workspace;
  const MfGradients gradients(s, workspace);
  const Total total(s.n, gpu, workspace);
  const MeanOf mean{static_cast<double>(s.n)};
  return Plan([s, gradients, total, mean, stream = gpu.stream()](Args t) {
           const float* e =
               gradients.enqueue(t, stream, [&](const MfBatch& b, const MfTable& users, const MfTable& items) {
                 launch(ratings_kernel, Grid{.blocks = ceil_div(s.n, kWarps), .threads = kThreads, .stream = stream}, b,
                        users, items);
               });
           total.enqueue(t, Square{}, mean, t[MfStep::loss].as<float>(), e);
         })
      .with("atomic additions", std::move(workspace))
      .varying();
}
DUET_REGISTER(mf_step_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
