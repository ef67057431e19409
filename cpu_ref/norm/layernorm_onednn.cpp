// SPDX-License-Identifier: Apache-2.0
// layernorm and its gradients by oneDNN. It knows the variance where the contract has rstd, and scale and shift in f32
// only: both are converted in each run, which touches rows + 4 cols values.
#include <cmath>

#include "core/registration.h"
#include "cpu_ref/onednn.h"
#include "ops/norm/layernorm.h"

namespace duet {
namespace {
using dnnl::layer_normalization_backward, dnnl::layer_normalization_forward, dnnl::normalization_flags, dnnl::prop_kind;
using onednn::Desc;

const auto kFlags = normalization_flags::use_scale | normalization_flags::use_shift;

Plan layernorm_onednn(const LayerNorm& p, CpuContext&) {
  using L = LayerNorm;
  return onednn::planned([&](onednn::Program& run) {
    const Desc d = onednn::dense(p.dtype, {p.rows, p.cols});
    const Desc cols = onednn::dense(p.dtype, {p.cols}), wide_cols = onednn::dense(DType::f32, {p.cols});
    const Desc rows = onednn::dense(DType::f32, {p.rows});
    const layer_normalization_forward::primitive_desc chosen(onednn::engine(), prop_kind::forward_training, d, d, rows,
                                                             static_cast<float>(p.eps), kFlags, onednn::attributes());
    run.add<layer_normalization_forward>(chosen,
                                         {{DNNL_ARG_SRC, run.tensor(L::x, d)},
                                          {DNNL_ARG_SCALE, run.copied(run.tensor(L::gamma, cols), wide_cols, "gamma")},
                                          {DNNL_ARG_SHIFT, run.copied(run.tensor(L::beta, cols), wide_cols, "beta")},
                                          {DNNL_ARG_DST, run.tensor(L::y, d)},
                                          {DNNL_ARG_MEAN, run.tensor(L::mean, rows)},
                                          {DNNL_ARG_VARIANCE, run.tensor(L::rstd, rows)}});
    run.add([p](const Args& t) {  // rstd holds the variance
      auto* rstd = t[L::rstd].as<float>();
      for (int64_t r = 0; r < p.rows; ++r) rstd[r] = 1 / std::sqrt(rstd[r] + static_cast<float>(p.eps));
    });
  });
}
DUET_REGISTER(layernorm_onednn);  // cpu.onednn

Plan layernorm_backward_onednn(const LayerNormBackward& p, CpuContext&) {
  using L = LayerNormBackward;
  return onednn::planned([&](onednn::Program& run) {
    const Desc d = onednn::dense(p.dtype, {p.rows, p.cols});
    const Desc cols = onednn::dense(p.dtype, {p.cols}), wide_cols = onednn::dense(DType::f32, {p.cols});
    const Desc rows = onednn::dense(DType::f32, {p.rows});
    const auto variance = run.temporary(rows);
    run.add([p, piece = run.place_of(variance)](const Args& t) {  // whose 1 / sqrt(variance + 0) is rstd
      const auto* rstd = t[L::rstd].as<const float>();
      auto* to = static_cast<float*>(t.workspace(piece));
      for (int64_t r = 0; r < p.rows; ++r) to[r] = 1 / (rstd[r] * rstd[r]);
    });
    const layer_normalization_forward::primitive_desc forward(onednn::engine(), prop_kind::forward_training, d, d, rows,
                                                              0, kFlags);
    const layer_normalization_backward::primitive_desc chosen(onednn::engine(), prop_kind::backward, d, d, d, rows, 0,
                                                              kFlags, forward, onednn::attributes());
    const auto dgamma = run.tensor(L::dgamma, cols), dbeta = run.tensor(L::dbeta, cols);
    const auto to_gamma = run.staged(dgamma, wide_cols), to_beta = run.staged(dbeta, wide_cols);
    const auto gamma = run.copied(run.tensor(L::gamma, cols), wide_cols, "gamma");
    run.add<layer_normalization_backward>(chosen, {{DNNL_ARG_SRC, run.tensor(L::x, d)},
                                                   {DNNL_ARG_DIFF_DST, run.tensor(L::dy, d)},
                                                   {DNNL_ARG_MEAN, run.tensor(L::mean, rows)},
                                                   {DNNL_ARG_VARIANCE, variance},
                                                   {DNNL_ARG_SCALE, gamma},
                                                   {DNNL_ARG_SHIFT, gamma},  // asked for, and not read
                                                   {DNNL_ARG_DIFF_SRC, run.tensor(L::dx, d)},
                                                   {DNNL_ARG_DIFF_SCALE, to_gamma},
                                                   {DNNL_ARG_DIFF_SHIFT, to_beta}});
    run.unstage(to_gamma, dgamma, "dgamma");
    run.unstage(to_beta, dbeta, "dbeta");
  });
}
DUET_REGISTER(layernorm_backward_onednn);  // cpu.onednn

}  // namespace
}  // namespace duet
