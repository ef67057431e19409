// SPDX-License-Identifier: Apache-2.0
// Expands a into the workspace, where the values that are not kept are 0, then multiplies it as a dense matrix
// (product.h). Expanding moves 2 bytes for each value of a, which the product then uses n times. The tensor cores'
// sparse products (mma.sp), which skip the zeros, are not used.
#include "kernels/gemm/expand_2_4.h"
#include "kernels/gemm/product.h"
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {
namespace {

// A map_grid(groups, 1), no shared memory: a thread for each 8 values of a, which one byte of meta describes. value:
// (4 groups), a: (8 groups). aligned: value and a are aligned to 16 bytes.
template <class T>
__global__ void __launch_bounds__(kMapBlock)
    expand_kernel(const T* value, const uint8_t* meta, T* a, int64_t groups, bool aligned) {
  const int64_t group = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (group >= groups) return;
  const unsigned bits = meta[group];
  Pack<T, 4> kept;
  if (aligned) {
    kept = load_pack<4>(value + 4 * group);
  } else {
#pragma unroll
    for (int s = 0; s < 4; ++s) kept.at[s] = value[4 * group + s];
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int first = bits >> (4 * half) & 3, second = bits >> (4 * half + 2) & 3;
    const T v = kept.at[2 * half], w = kept.at[2 * half + 1];
    Pack<T, 4> out;
#pragma unroll
    for (int p = 0; p < 4; ++p) out.at[p] = p == second ? w : p == first ? v : T(0.0f);
    store_pack(a + 8 * group + 4 * half, out);
  }
}

Plan gemm_2_4_tuned(const Gemm24& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const auto dense = workspace.add<T>(p.m * p.k);
    return Plan([p, dense, &gpu](Args t) {
             T* a = t.workspace(dense);
             enqueue_expanded(p, t[Gemm24::value].as<const T>(), t[Gemm24::meta].as<const uint8_t>(), a, gpu);
             enqueue_product<T>(Product{.m = p.m, .n = p.n, .k = p.k}, a, t[Gemm24::b].as<const T>(), nullptr,
                                t[Gemm24::c].as<T>(), gpu);
           })
        .with("expanded, then dense", std::move(workspace));
  });
}
DUET_REGISTER(gemm_2_4_tuned);
}  // namespace

template <class T>
void enqueue_expanded(const Gemm24& p, const T* value, const uint8_t* meta, T* a, GpuContext& gpu) {
  const int64_t groups = p.m * p.k / 8;
  launch(expand_kernel<T>, map_grid(groups, 1, gpu.stream()), value, meta, a, groups, aligned16(value));
}
template void enqueue_expanded(const Gemm24&, const float*, const uint8_t*, float*, GpuContext&);
template void enqueue_expanded(const Gemm24&, const __nv_bfloat16*, const uint8_t*, __nv_bfloat16*, GpuContext&);
template void enqueue_expanded(const Gemm24&, const __half*, const uint8_t*, __half*, GpuContext&);

}  // namespace duet::DUET_DEVICE
