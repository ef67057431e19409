// SPDX-License-Identifier: Apache-2.0
// One thread per rating: it forms its error and adds its gradients to the tables of the workspace, one atomic addition
// for each factor. One block adds the squares of the errors.
#include "kernels/gemm/mf_gradients.cuh"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n / kThreads) blocks of kThreads, no shared memory.
__global__ void ratings_kernel(MfBatch b, MfTable users, MfTable items) {
  const int64_t j = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (j >= b.n) return;
  b.e[j] = 0;
  if (!b.exists(j, users, items)) return;
  const int64_t user = b.user[j], item = b.item[j];
  const float *p = users.rows + user * b.f, *q = items.rows + item * b.f;
  float e = b.rating[j] - b.mu - users.bias[user] - items.bias[item];
  for (int64_t c = 0; c < b.f; ++c) e -= p[c] * q[c];
  b.e[j] = e;
  for (int64_t c = 0; c < b.f; ++c) {
    atomicAdd(&users.row_gradient[user * b.f + c], e * q[c]);
    atomicAdd(&items.row_gradient[item * b.f + c], e * p[c]);
  }
  atomicAdd(&users.bias_gradient[user], e);
  atomicAdd(&items.bias_gradient[item], e);
  atomicAdd(&users.count[user], 1);
  atomicAdd(&items.count[item], 1);
}

// One block of kThreads, kThreads doubles of shared memory. e: (n), loss: (1).
__global__ void loss_kernel(const float* e, float* loss, int64_t n) {
  DUET_SHARED(double, part, [kThreads]);
  const int thread = static_cast<int>(threadIdx.x);
  double sum = 0;
  for (int64_t j = thread; j < n; j += kThreads) sum += double(e[j]) * e[j];
  part[thread] = sum;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) part[thread] += part[thread + half];
  }
  if (thread == 0) *loss = static_cast<float>(n > 0 ? part[0] / double(n) : 0);
}

Plan mf_step_naive(const MfStep& s, GpuContext& gpu) {
  if (s.dtype != DType::f32) return Unsupported{"dtype other than f32"};
  WorkspaceLayout workspace;
  const MfGradients gradients(s, workspace);
  return Plan([s, gradients, stream = gpu.stream()](Args t) {
           const float* e =
               gradients.enqueue(t, stream, [&](const MfBatch& b, const MfTable& users, const MfTable& items) {
                 launch(ratings_kernel, Grid{.blocks = ceil_div(s.n, kThreads), .threads = kThreads, .stream = stream},
                        b, users, items);
               });
           launch(loss_kernel, Grid{.blocks = 1, .threads = kThreads, .stream = stream}, e, t[MfStep::loss].as<float>(),
                  s.n);
         })
      .with("atomic additions", std::move(workspace))
      .varying();
}
DUET_REGISTER(mf_step_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
