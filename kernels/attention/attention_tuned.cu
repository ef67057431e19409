// SPDX-License-Identifier: Apache-2.0
// Flash attention: flash_f32.cu by register tiling, flash_half.cu and flash_half_backward.cu on the tensor cores;
// decode.cu for few queries. The backward pass first computes the sums of dy y (row_dots_kernel), with one warp per
// query.
#include <string>

#include "kernels/attention/decode.h"
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kRowsPerBlock = 8;

// Blocks of (32, 8), a warp per row, no shared memory. y, dy: (rows, D); delta: (rows).
template <class T>
__global__ void row_dots_kernel(const T* y, const T* dy, float* delta, int64_t rows, int64_t D) {
  const int64_t row = int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.y;
  if (row >= rows) return;  // for a whole warp
  float sum = 0;
  for (int64_t c = threadIdx.x; c < D; c += 32) sum += float(y[row * D + c]) * float(dy[row * D + c]);
  sum = warp_reduce<SumOp>(sum);
  if (threadIdx.x == 0) delta[row] = sum;
}
}  // namespace

template <class T>
void enqueue_row_dots(int64_t rows, int64_t D, const T* y, const T* dy, float* delta, cudaStream_t stream) {
  const Grid grid{.blocks = ceil_div(rows, kRowsPerBlock), .threads = {32, kRowsPerBlock}, .stream = stream};
  launch(row_dots_kernel<T>, grid, y, dy, delta, rows, D);
}
template void enqueue_row_dots(int64_t, int64_t, const float*, const float*, float*, cudaStream_t);
template void enqueue_row_dots(int64_t, int64_t, const __nv_bfloat16*, const __nv_bfloat16*, float*, cudaStream_t);
template void enqueue_row_dots(int64_t, int64_t, const __half*, const __half*, float*, cudaStream_t);

namespace {
// "" where a block of the f32 kernels fits the device's shared memory. The halves need less than any device has.
std::string shared_memory_unsupported_reason(DType dtype, int64_t bytes, const GpuContext& gpu) {
  if (dtype != DType::f32 || bytes <= gpu.shared_bytes()) return "";
  return "a block needs " + std::to_string(bytes) + " bytes of shared memory, the device has " +
         std::to_string(gpu.shared_bytes());
}

Plan attention_tuned(const Attention& p, GpuContext& gpu) {
  using A = Attention;
  if (p.D > kMaxFlashDepth) return Unsupported{"heads of more than 128 features"};
  if (std::max(p.Tq, p.Tk) > kMaxFlashRows) return Unsupported{"more than 2^23 queries or keys"};
  if (auto why = shared_memory_unsupported_reason(p.dtype, flash_shared_bytes(p.D), gpu); !why.empty())
    return Unsupported{why};
  const int64_t parts = decode_parts(p, gpu.multiprocessors());
  WorkspaceLayout workspace;
  const auto sums = workspace.add<float>(parts == 0 ? 0 : decode_workspace_floats(p, parts));
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return Plan([p, parts, sums, &gpu](Args t) {
             const FlashTensors<T> tensors{t[A::q].as<const T>(), t[A::k].as<const T>(), t[A::v].as<const T>(),
                                           t[A::y].as<T>(), t[A::lse].as<float>()};
             if (parts > 0 && aligned16(tensors.q, tensors.k, tensors.v)) {
               const MaskedFlash mask(p, p.padded ? t[A::lengths].as<const int32_t>() : nullptr);
               enqueue_decode(mask, tensors, parts, t.workspace(sums), gpu.stream());
               return;
             }
             const FlashDevice on{gpu.capability(), gpu.stream()};
             for_mask(p, t, A::lengths, [&](const auto& mask) { enqueue_flash(mask, tensors, on); });
           })
        .with(parts == 0 ? "" : "keys of a head in " + std::to_string(parts) + " parts", std::move(workspace));
  });
}
DUET_REGISTER(attention_tuned);

Plan attention_backward_tuned(const AttentionBackward& p, GpuContext& gpu) {
  using A = AttentionBackward;
  if (p.D > kMaxFlashDepth) return Unsupported{"heads of more than 128 features"};
  if (auto why = shared_memory_unsupported_reason(p.dtype, flash_backward_shared_bytes(p.D), gpu); !why.empty())
    return Unsupported{why};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t rows = p.B * p.H * p.Tq;
    WorkspaceLayout workspace;
    const auto row_dots = workspace.add<float>(rows);
    constexpr bool kHalf = sizeof(T) == 2;
    const FlashDqSpace space = kHalf ? flash_dq_space_half(p) : flash_dq_space_f32(p);
    const auto dq_sums = workspace.add<float>(space.sums);
    const auto dq_counters = workspace.add<int32_t>(space.counters);
    return Plan([p, rows, row_dots, space, dq_sums, dq_counters, &gpu](Args t) {
             float* const delta = t.workspace(row_dots);
             const T *y = t[A::y].as<const T>(), *dy = t[A::dy].as<const T>();
             enqueue_row_dots(rows, p.D, y, dy, delta, gpu.stream());
             const FlashGradients<T> tensors{t[A::q].as<const T>(),
                                             t[A::k].as<const T>(),
                                             t[A::v].as<const T>(),
                                             y,
                                             dy,
                                             t[A::lse].as<const float>(),
                                             delta,
                                             t[A::dq].as<T>(),
                                             t[A::dk].as<T>(),
                                             t[A::dv].as<T>(),
                                             t.workspace(dq_sums),
                                             t.workspace(dq_counters)};
             gpu.fill_bytes(tensors.dq_counters, 0, space.counters * int64_t{sizeof(int32_t)});
             for_mask(p, t, A::lengths, [&](const auto& mask) {
               if constexpr (kHalf)
                 enqueue_flash_backward(mask, tensors, gpu.shared_bytes(), gpu.stream());
               else
                 enqueue_flash_backward(mask, tensors, gpu.stream());
             });
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(attention_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
