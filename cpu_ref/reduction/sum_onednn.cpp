// SPDX-License-Identifier: Apache-2.0
// sum by oneDNN's reduction.
#include "core/registration.h"
#include "cpu_ref/onednn.h"
#include "ops/reduction/sum.h"

namespace duet {
namespace {

constexpr int64_t kLanes = 8;  // of AVX2; each adds up no more than ops/summation.h allows

Plan sum_onednn(const Sum& p, CpuContext&) {
  if (p.length() == 1) return Unsupported{"oneDNN has no sum of one term"};
  if (p.length() > kLanes * kRun) return Unsupported{"oneDNN adds up a row in one chain for each of its lanes"};
  return onednn::planned([&](onednn::Program& run) {
    const auto x = run.tensor(Sum::x, onednn::dense(p.dtype, {p.rows, p.cols}));
    const auto y =
        run.tensor(Sum::y, onednn::dense(p.dtype, p.axis == 1 ? onednn::Dims{p.rows, 1} : onednn::Dims{1, p.cols}));
    const dnnl::reduction::primitive_desc chosen(onednn::engine(), dnnl::algorithm::reduction_sum, x.desc, y.desc, 0, 0,
                                                 onednn::attributes());
    run.add<dnnl::reduction>(chosen, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
  });
}
DUET_REGISTER(sum_onednn);  // cpu.onednn

}  // namespace
}  // namespace duet
