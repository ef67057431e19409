// SPDX-License-Identifier: Apache-2.0
// Groups of 4 threads copy lines of 64 bytes, one after the other: asynchronously to shared memory, in up to four
// stages, and from there to y. With one stage each line is waited for before the next one is asked for.
#include "ops/study/prefetch.h"
#include "simt/mma.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 128, kGroup = 4;               // threads of a block, and of a line: 16 bytes each
constexpr int kGroups = kThreads / kGroup, kLines = 8;  // lines that a group copies

// ceil(n / (kGroups * kLines)) blocks. Group g copies lines g, g + groups, ... of the block's. Shared memory: 16 bytes
// per thread and stage. Each thread reads only what it copied itself, so that there is no barrier. x: (rows, 16),
// index: (n), y: (n, 16), all aligned to 16 bytes but the index.
template <int kStages>
__global__ void __launch_bounds__(kThreads) stages_kernel(const float* x, const int32_t* index, float* y, int64_t n) {
  DUET_SHARED(float4, stage, [kStages][kThreads]);
  const int part = static_cast<int>(threadIdx.x) % kGroup * 4;
  const int64_t first = int64_t{blockIdx.x} * kGroups * kLines + threadIdx.x / kGroup;
  const auto ask = [&](int line) {
    const int64_t i = first + int64_t{line} * kGroups;
    if (line < kLines && i < n) cp_async16(&stage[line % kStages][threadIdx.x], x + int64_t{index[i]} * 16 + part);
    cp_async_commit();  // also of nothing, so that the number of groups is the number of lines
  };
#pragma unroll
  for (int line = 0; line < kStages - 1; ++line) ask(line);
#pragma unroll
  for (int line = 0; line < kLines; ++line) {
    ask(line + kStages - 1);
    cp_async_wait<kStages - 1>();
    const int64_t i = first + int64_t{line} * kGroups;
    if (i < n) *reinterpret_cast<float4*>(y + i * 16 + part) = stage[line % kStages][threadIdx.x];
  }
}

// The same without asynchronous copies, which need aligned addresses.
__global__ void __launch_bounds__(kThreads) plain_kernel(const float* x, const int32_t* index, float* y, int64_t n) {
  const int part = static_cast<int>(threadIdx.x) % kGroup * 4;
  const int64_t first = int64_t{blockIdx.x} * kGroups * kLines + threadIdx.x / kGroup;
  for (int line = 0; line < kLines; ++line) {
    const int64_t i = first + int64_t{line} * kGroups;
    if (i >= n) return;
#pragma unroll
    for (int e = 0; e < 4; ++e) y[i * 16 + part + e] = x[int64_t{index[i]} * 16 + part + e];
  }
}

Plan study_prefetch_kernel(const Prefetch& p, GpuContext& gpu) {
  if (p.ahead > 3) return Unsupported{"more than 4 stages"};
  const Grid grid{.blocks = ceil_div(p.n, kGroups * kLines), .threads = kThreads, .stream = gpu.stream()};
  return Plan([p, grid](Args t) {
           const float* x = t[Prefetch::x].as<const float>();
           float* y = t[Prefetch::y].as<float>();
           const bool aligned = (reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y)) % 16 == 0;
           const auto kernel = !aligned       ? plain_kernel
                               : p.ahead == 0 ? stages_kernel<1>
                               : p.ahead == 1 ? stages_kernel<2>
                               : p.ahead == 2 ? stages_kernel<3>
                                              : stages_kernel<4>;
           launch(kernel, grid, x, t[Prefetch::index].as<const int32_t>(), y, p.n);
         })
      .with(std::to_string(p.ahead + 1) + (p.ahead == 0 ? " stage" : " stages"));
}
DUET_REGISTER(study_prefetch_kernel);
}  // namespace
}  // namespace duet::DUET_DEVICE
