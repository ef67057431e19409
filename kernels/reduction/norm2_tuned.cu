// SPDX-License-Identifier: Apache-2.0
// total.cuh: blocks add the squares of packs of 16 bytes, and one block adds their sums.
#include "kernels/reduction/total.cuh"
#include "ops/reduction/norm2.h"

namespace duet::DUET_DEVICE {
namespace {
struct Square {
  __device__ float operator()(float x) const { return x * x; }
};
struct Root {
  __device__ float operator()(double sum) const { return static_cast<float>(sqrt(sum)); }
};

Plan norm2_tuned(const Norm2& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const Total total(p.n, gpu, workspace);
    return Plan([total](Args t) {
             total.enqueue(t, Square{}, Root{}, t[Norm2::y].as<float>(), t[Norm2::x].as<const T>());
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(norm2_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
