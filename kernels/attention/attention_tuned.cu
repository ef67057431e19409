// SPDX-License-Identifier: Apache-2.0
// Flash attention, packed or not: flash_f32.cu by register tiling, flash_half.cu and flash_half_backward.cu on the
// tensor cores; decode.cu for few queries. The backward pass first computes the sums of dy y (row_dots_kernel), with
// one warp per query.
#include <string>
#include <type_traits>
#include <utility>

#include "kernels/attention/decode.h"
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kRowsPerBlock = 8;

// Blocks of (32, 8), a warp per row, no shared memory. y, dy: as F says; delta: (rows).
template <class F, class T>
__global__ void row_dots_kernel(F p, const T* y, const T* dy, float* delta, int64_t rows) {
  const int64_t row = int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.y;
  if (row >= rows) return;  // for a whole warp
  int64_t at = row * p.D;
  if constexpr (F::kPacked) at = p.y_head(row / p.Tq) + row % p.Tq * p.y_line();
  float sum = 0;
  for (int64_t c = threadIdx.x; c < p.D; c += 32) sum += float(y[at + c]) * float(dy[at + c]);
  sum = warp_reduce<SumOp>(sum);
  if (threadIdx.x == 0) delta[row] = sum;
}
}  // namespace

template <class F, class T>
void enqueue_row_dots(const F& p, const T* y, const T* dy, float* delta, cudaStream_t stream) {
  const int64_t rows = p.heads * p.Tq;
  const Grid grid{.blocks = ceil_div(rows, kRowsPerBlock), .threads = {32, kRowsPerBlock}, .stream = stream};
  launch(row_dots_kernel<F, T>, grid, p, y, dy, delta, rows);
}
template void enqueue_row_dots(const Flash&, const float*, const float*, float*, cudaStream_t);
template void enqueue_row_dots(const Flash&, const __nv_bfloat16*, const __nv_bfloat16*, float*, cudaStream_t);
template void enqueue_row_dots(const Flash&, const __half*, const __half*, float*, cudaStream_t);

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

template <class T>
FlashGradients<T> tensors_of(const AttentionBackward&, const Args& t) {
  using A = AttentionBackward;
  return {.q = t[A::q].as<const T>(),
          .k = t[A::k].as<const T>(),
          .v = t[A::v].as<const T>(),
          .y = t[A::y].as<const T>(),
          .dy = t[A::dy].as<const T>(),
          .lse = t[A::lse].as<const float>(),
          .dq = t[A::dq].as<T>(),
          .dk = t[A::dk].as<T>(),
          .dv = t[A::dv].as<T>()};
}
template <class T>
FlashGradients<T> tensors_of(const AttentionPackedBackward& p, const Args& t) {
  using A = AttentionPackedBackward;
  const T* qkv = t[A::qkv].as<const T>();
  T* dqkv = t[A::dqkv].as<T>();
  return {.q = p.part(qkv, 0),
          .k = p.part(qkv, 1),
          .v = p.part(qkv, 2),
          .y = t[A::y].as<const T>(),
          .dy = t[A::dy].as<const T>(),
          .lse = t[A::lse].as<const float>(),
          .dq = p.part(dqkv, 0),
          .dk = p.part(dqkv, 1),
          .dv = p.part(dqkv, 2)};
}
void with_mask(const AttentionBackward& p, const Args& t, auto&& f) { for_mask(p, t, AttentionBackward::lengths, f); }
void with_mask(const AttentionPackedBackward& p, const Args&, auto&& f) { f(PackedFlash(p)); }

// problem: of shape p, packed or not.
Plan flash_backward(const auto& problem, const AttentionShape& p, GpuContext& gpu) {
  if (p.D > kMaxFlashDepth) return Unsupported{"heads of more than 128 features"};
  if (auto why = shared_memory_unsupported_reason(p.dtype, flash_backward_shared_bytes(p.D), gpu); !why.empty())
    return Unsupported{why};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const auto row_dots = workspace.add<float>(p.B * p.H * p.Tq);
    constexpr bool kHalf = sizeof(T) == 2;
    const FlashDqSpace space = kHalf ? flash_dq_space_half(p) : flash_dq_space_f32(p);
    const auto dq_sums = workspace.add<float>(space.sums);
    const auto dq_counters = workspace.add<int32_t>(space.counters);
    return Plan([problem, row_dots, space, dq_sums, dq_counters, &gpu](Args t) {
             FlashGradients<T> tensors = tensors_of<T>(problem, t);
             tensors.delta = t.workspace(row_dots);
             tensors.dq_sums = t.workspace(dq_sums);
             tensors.dq_counters = t.workspace(dq_counters);
             gpu.fill_bytes(tensors.dq_counters, 0, space.counters * int64_t{sizeof(int32_t)});
             with_mask(problem, t, [&]<class F>(const F& mask) {
               using Places = std::conditional_t<F::kPacked, PackedFlash, Flash>;
               enqueue_row_dots<Places>(mask, tensors.y, tensors.dy, tensors.delta, gpu.stream());
               if constexpr (kHalf)
                 enqueue_flash_backward(mask, tensors, gpu.shared_bytes(), gpu.stream());
               else
                 enqueue_flash_backward(mask, tensors, gpu.stream());
             });
           })
        .with(std::move(workspace));
  });
}

Plan attention_backward_tuned(const AttentionBackward& p, GpuContext& gpu) { return flash_backward(p, p, gpu); }
DUET_REGISTER(attention_backward_tuned);

std::string packed_unsupported_reason(const PackedAttentionShape& p) {
  if (p.T > kMaxFlashRows) return "more than 2^23 tokens";
  return p.B * p.H > INT32_MAX ? "more than 2^31 - 1 heads" : "";
}

Plan attention_packed_tuned(const AttentionPacked& p, GpuContext& gpu) {
  using A = AttentionPacked;
  if (p.D > kMaxFlashDepth) return Unsupported{"heads of more than 128 features"};
  if (std::string why = packed_unsupported_reason(p); !why.empty()) return Unsupported{std::move(why)};
  // flash_half.cu counts the elements of a sequence in 32 bits, up to a tile behind the last token.
  if (p.dtype != DType::f32 && (p.T + 128) * 3 * p.H * p.D > INT32_MAX)
    return Unsupported{"about 2^31 elements in a sequence, or more"};
  if (auto why = shared_memory_unsupported_reason(p.dtype, flash_shared_bytes(p.D), gpu); !why.empty())
    return Unsupported{why};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, &gpu](Args t) {
      const T* qkv = t[A::qkv].as<const T>();
      const FlashTensors<T> tensors{p.part(qkv, 0), p.part(qkv, 1), p.part(qkv, 2), t[A::y].as<T>(),
                                    t[A::lse].as<float>()};
      enqueue_flash(PackedFlash(p), tensors, FlashDevice{gpu.capability(), gpu.stream()});
    };
  });
}
DUET_REGISTER(attention_packed_tuned);

Plan attention_packed_backward_tuned(const AttentionPackedBackward& p, GpuContext& gpu) {
  if (std::string why = packed_unsupported_reason(p); !why.empty()) return Unsupported{std::move(why)};
  return flash_backward(p, p.unpacked(), gpu);
}
DUET_REGISTER(attention_packed_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
