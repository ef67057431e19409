// SPDX-License-Identifier: Apache-2.0
// One thread per element of c: the formula as written. The lanes of a warp have 32 neighbours in a row of c, so that
// reads of b coalesce and the element of a is the same in all lanes.
#include "simt/launch.h"
#include "kernels/gemm/product_float8.h"
#include "ops/gemm/gemm.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(elements / kThreads) blocks of kThreads, no shared memory. c: (batch, m, n); a and b are addressed by the
// strides of their rows and columns.
template <class T, bool kAccumulate>
__global__ void gemm_kernel(const T* a, const T* b, T* c, int64_t elements, int64_t m, int64_t n, int64_t k,
                            int64_t a_row, int64_t a_col, int64_t b_row, int64_t b_col, float alpha) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= elements) return;
  const int64_t j = index % n, i = index / n % m, batch = index / n / m;
  a += batch * m * k + i * a_row;
  b += batch * k * n + j * b_col;
  float sum = 0;
  for (int64_t p = 0; p < k; ++p) sum += float(a[p * a_col]) * float(b[p * b_row]);
  c[index] = T(kAccumulate ? float(c[index]) + alpha * sum : alpha * sum);
}

// The same for i8 with sums in i32.
__global__ void gemm_int8_kernel(const int8_t* a, const int8_t* b, int* c, int64_t elements, int64_t m, int64_t n,
                                 int64_t k, int64_t a_row, int64_t a_col, int64_t b_row, int64_t b_col) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= elements) return;
  const int64_t j = index % n, i = index / n % m, batch = index / n / m;
  a += batch * m * k + i * a_row;
  b += batch * k * n + j * b_col;
  int sum = 0;
  for (int64_t p = 0; p < k; ++p) sum += int{a[p * a_col]} * int{b[p * b_row]};
  c[index] = sum;
}

// The same for f8e4m3, whose bits a and b hold, with c in bf16.
__global__ void gemm_float8_kernel(const uint8_t* a, const uint8_t* b, __nv_bfloat16* c, int64_t elements, int64_t m,
                                   int64_t n, int64_t k, int64_t a_row, int64_t a_col, int64_t b_row, int64_t b_col,
                                   float alpha) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= elements) return;
  const int64_t j = index % n, i = index / n % m, batch = index / n / m;
  a += batch * m * k + i * a_row;
  b += batch * k * n + j * b_col;
  float sum = 0;
  for (int64_t p = 0; p < k; ++p) sum += float_of_e4m3(a[p * a_col]) * float_of_e4m3(b[p * b_row]);
  c[index] = __nv_bfloat16(alpha * sum);
}

Plan plan_float8(const Gemm& p, GpuContext& gpu) {
  const int64_t elements = p.batch * p.m * p.n;
  const Grid grid{.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
  return [p, grid, elements](Args t) {
    launch(gemm_float8_kernel, grid, float8_bits(t[Gemm::a]), float8_bits(t[Gemm::b]), t[Gemm::c].as<__nv_bfloat16>(),
           elements, p.m, p.n, p.k, p.trans_a ? 1 : p.k, p.trans_a ? p.m : 1, p.trans_b ? 1 : p.n, p.trans_b ? p.k : 1,
           p.alpha);
  };
}

Plan plan_int8(const Gemm& p, GpuContext& gpu) {
  const int64_t elements = p.batch * p.m * p.n;
  const Grid grid{.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
  return [p, grid, elements](Args t) {
    launch(gemm_int8_kernel, grid, t[Gemm::a].as<const int8_t>(), t[Gemm::b].as<const int8_t>(),
           t[Gemm::c].as<int32_t>(), elements, p.m, p.n, p.k, p.trans_a ? 1 : p.k, p.trans_a ? p.m : 1,
           p.trans_b ? 1 : p.n, p.trans_b ? p.k : 1);
  };
}

template <bool kAccumulate>
Plan plan(const GemmOf<kAccumulate>& p, GpuContext& gpu) {
  if (p.math == Math::tf32) return Unsupported{"math tf32: the naive product is IEEE f32"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t elements = p.batch * p.m * p.n;
    const Grid grid{.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, elements](Args t) {
      launch(gemm_kernel<T, kAccumulate>, grid, t[Gemm::a].as<const T>(), t[Gemm::b].as<const T>(), t[Gemm::c].as<T>(),
             elements, p.m, p.n, p.k, p.trans_a ? 1 : p.k, p.trans_a ? p.m : 1, p.trans_b ? 1 : p.n,
             p.trans_b ? p.k : 1, p.alpha);
    };
  });
}

Plan gemm_naive(const Gemm& p, GpuContext& gpu) {
  return p.is_int8() ? plan_int8(p, gpu) : p.is_float8() ? plan_float8(p, gpu) : plan(p, gpu);
}
Plan gemm_acc_naive(const GemmAcc& p, GpuContext& gpu) { return plan(p, gpu); }
DUET_REGISTER(gemm_naive);
DUET_REGISTER(gemm_acc_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
