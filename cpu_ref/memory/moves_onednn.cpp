// SPDX-License-Identifier: Apache-2.0
// transpose and permute by oneDNN's reorder: of extents in the order of y, with the strides of each side.
#include "core/registration.h"
#include "cpu_ref/onednn.h"
#include "ops/memory/permute.h"
#include "ops/memory/transpose.h"

namespace duet {
namespace {
using onednn::Desc, onednn::Dims;

void reorder(onednn::Program& run, const onednn::Value& x, const onednn::Value& y) {
  const dnnl::reorder::primitive_desc chosen(onednn::engine(), x.desc, onednn::engine(), y.desc, onednn::attributes());
  run.add<dnnl::reorder>(chosen, {{DNNL_ARG_FROM, x}, {DNNL_ARG_TO, y}});
}

constexpr const char* kThroughF32 = "oneDNN moves 16 bits through f32, where subnormal numbers become 0";

Plan transpose_onednn(const Transpose& p, CpuContext&) {
  if (size_of(p.dtype) == 2) return Unsupported{kThroughF32};
  return onednn::planned([&](onednn::Program& run) {
    const Dims dims{p.batch, p.cols, p.rows};
    const Desc as_read(dims, onednn::type_of(p.dtype), {p.rows * p.cols, 1, p.cols});
    reorder(run, run.tensor(Transpose::x, as_read), run.tensor(Transpose::y, onednn::dense(p.dtype, dims)));
  });
}
DUET_REGISTER(transpose_onednn);  // cpu.onednn

Plan permute_onednn(const Permute& p, CpuContext&) {
  if (size_of(p.dtype) == 2) return Unsupported{kThroughF32};
  return onednn::planned([&](onednn::Program& run) {
    const Dims dims{p.split, p.B, p.H, p.T, p.D};
    const int64_t token = p.split * p.H * p.D;
    const Desc tokens(dims, onednn::type_of(p.dtype), {p.H * p.D, p.T * token, p.D, token, 1});
    const Desc heads = onednn::dense(p.dtype, dims);
    reorder(run, run.tensor(Permute::x, p.inverse ? heads : tokens),
            run.tensor(Permute::y, p.inverse ? tokens : heads));
  });
}
DUET_REGISTER(permute_onednn);  // cpu.onednn

}  // namespace
}  // namespace duet
