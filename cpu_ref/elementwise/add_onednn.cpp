// SPDX-License-Identifier: Apache-2.0
// add and bias by oneDNN's binary; relu is behind the sum.
#include "core/registration.h"
#include "cpu_ref/onednn.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/bias.h"

namespace duet {
namespace {
using dnnl::algorithm, dnnl::binary;
using onednn::Desc;

dnnl::primitive_attr followed_by(Act act) {
  dnnl::primitive_attr attributes = onednn::attributes();
  if (act == Act::relu) {
    dnnl::post_ops after;
    after.append_eltwise(algorithm::eltwise_relu, 0, 0);
    attributes.set_post_ops(after);
  }
  return attributes;
}

Plan add_onednn(const Add& p, CpuContext&) {
  return onednn::planned([&](onednn::Program& run) {
    const Desc d = onednn::dense(p.dtype, {p.n});
    const binary::primitive_desc chosen(onednn::engine(), algorithm::binary_add, d, d, d, followed_by(p.act));
    run.add<binary>(chosen, {{DNNL_ARG_SRC_0, run.tensor(Add::a, d)},
                             {DNNL_ARG_SRC_1, run.tensor(Add::b, d)},
                             {DNNL_ARG_DST, run.tensor(Add::c, d)}});
  });
}
DUET_REGISTER(add_onednn);  // cpu.onednn

Plan bias_onednn(const Bias& p, CpuContext&) {
  return onednn::planned([&](onednn::Program& run) {
    const Desc d = onednn::dense(p.dtype, {p.outer, p.c, p.inner});
    const Desc bias = onednn::dense(p.dtype, {1, p.c, 1});
    const binary::primitive_desc chosen(onednn::engine(), algorithm::binary_add, d, bias, d, followed_by(p.act));
    run.add<binary>(chosen, {{DNNL_ARG_SRC_0, run.tensor(Bias::x, d)},
                             {DNNL_ARG_SRC_1, run.tensor(Bias::bias, bias)},
                             {DNNL_ARG_DST, run.tensor(Bias::y, d)}});
  });
}
DUET_REGISTER(bias_onednn);  // cpu.onednn

}  // namespace
}  // namespace duet
