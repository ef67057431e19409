// SPDX-License-Identifier: Apache-2.0
// batchnorm, its gradients, and inference by oneDNN, on the layouts of the contract. It knows the variance where the
// contract has rstd and running statistics: those c values are computed behind it. relu is fused; where
// it passed something on, oneDNN keeps in a format of its own, so that the gradient, which has y instead, is left out.
#include <cmath>
#include <string>

#include "core/registration.h"
#include "cpu_ref/onednn.h"
#include "ops/norm/batchnorm.h"

namespace duet {
namespace {
using dnnl::batch_normalization_backward, dnnl::batch_normalization_forward, dnnl::normalization_flags, dnnl::prop_kind;
using onednn::Desc, onednn::Dims, onednn::Value;

const auto kFlags = normalization_flags::use_scale | normalization_flags::use_shift;

// In oneDNN's order of dimensions: n c h w.
Desc image(const Channels& p) {
  const Dims steps =
      p.layout == Layout::nhwc ? Dims{p.pixels() * p.c, 1, p.w * p.c, p.c} : Dims{p.c * p.pixels(), p.pixels(), p.w, 1};
  return {{p.n, p.c, p.h, p.w}, onednn::type_of(p.dtype), steps};
}
const char* unsupported_reason(const Channels& p) {
  return p.residual ? "oneDNN has a residual for some types of layout nhwc only, with a workspace of its own" : nullptr;
}
// Sums that are formed worse than ops/summation.h allows: oneDNN adds up so many values of a channel in one chain.
std::string unsupported_chain(int64_t values) {
  if (values <= kRun) return "";
  return "oneDNN adds up " + std::to_string(values) + " values of a channel in one chain, and the contract allows " +
         std::to_string(kRun);
}
normalization_flags with_relu(const Channels& p, normalization_flags flags) {
  return p.relu() ? flags | normalization_flags::fuse_norm_relu : flags;
}
// gamma or beta: oneDNN takes them in f32.
Value per_channel(onednn::Program& run, Slot slot, const Channels& p) {
  return run.copied(run.tensor(slot, onednn::dense(p.dtype, {p.c})), onednn::dense(DType::f32, {p.c}), slot.name);
}

Plan batchnorm_onednn(const BatchNorm& p, CpuContext&) {
  using B = BatchNorm;
  if (const char* reason = unsupported_reason(p)) return Unsupported{reason};
  const int64_t chain = p.layout == Layout::nhwc ? p.count() : p.pixels();
  if (std::string reason = unsupported_chain(chain); !reason.empty()) return Unsupported{std::move(reason)};
  return onednn::planned([&](onednn::Program& run) {
    const Desc d = image(p), channels = onednn::dense(DType::f32, {p.c});
    const batch_normalization_forward::primitive_desc chosen(onednn::engine(), prop_kind::forward_training, d, d,
                                                             static_cast<float>(p.eps), with_relu(p, kFlags),
                                                             onednn::attributes());
    run.add<batch_normalization_forward>(chosen, {{DNNL_ARG_SRC, run.tensor(B::x, d)},
                                                  {DNNL_ARG_WORKSPACE, run.temporary(chosen.workspace_desc())},
                                                  {DNNL_ARG_SCALE, per_channel(run, B::gamma, p)},
                                                  {DNNL_ARG_SHIFT, per_channel(run, B::beta, p)},
                                                  {DNNL_ARG_DST, run.tensor(B::y, d)},
                                                  {DNNL_ARG_MEAN, run.tensor(B::mean, channels)},
                                                  {DNNL_ARG_VARIANCE, run.tensor(B::rstd, channels)}});
    run.add([p](const Args& t) {  // rstd holds the variance
      const auto* mean = t[B::mean].as<const float>();
      auto* rstd = t[B::rstd].as<float>();
      auto *running_mean = t[B::running_mean].as<float>(), *running_var = t[B::running_var].as<float>();
      const auto share = static_cast<float>(p.momentum), kept = static_cast<float>(1 - p.momentum);
      const auto unbiased = static_cast<float>(p.unbiased());
      for (int64_t c = 0; c < p.c; ++c) {
        running_mean[c] = kept * running_mean[c] + share * mean[c];
        running_var[c] = kept * running_var[c] + share * (rstd[c] * unbiased);
        rstd[c] = 1 / std::sqrt(rstd[c] + static_cast<float>(p.eps));
      }
    });
  });
}
DUET_REGISTER(batchnorm_onednn);  // cpu.onednn

Plan batchnorm_backward_onednn(const BatchNormBackward& p, CpuContext&) {
  using B = BatchNormBackward;
  if (p.relu()) return Unsupported{"oneDNN's relu needs a workspace of its forward pass instead of y"};
  if (const char* reason = unsupported_reason(p)) return Unsupported{reason};
  const int64_t chain = p.layout == Layout::nchw ? p.count() : 0;
  if (std::string reason = unsupported_chain(chain); !reason.empty()) return Unsupported{std::move(reason)};
  return onednn::planned([&](onednn::Program& run) {
    const Desc d = image(p), channels = onednn::dense(DType::f32, {p.c}), narrow = onednn::dense(p.dtype, {p.c});
    const auto variance = run.temporary(channels);
    run.add([p, piece = run.place_of(variance)](const Args& t) {  // whose 1 / sqrt(variance + 0) is rstd
      const auto* rstd = t[B::rstd].as<const float>();
      auto* to = static_cast<float*>(t.workspace(piece));
      for (int64_t c = 0; c < p.c; ++c) to[c] = 1 / (rstd[c] * rstd[c]);
    });
    const batch_normalization_forward::primitive_desc forward(onednn::engine(), prop_kind::forward_training, d, d, 0,
                                                              kFlags);
    const batch_normalization_backward::primitive_desc chosen(onednn::engine(), prop_kind::backward, d, d, d, 0, kFlags,
                                                              forward, onednn::attributes());
    const auto dgamma = run.tensor(B::dgamma, narrow), dbeta = run.tensor(B::dbeta, narrow);
    const auto to_gamma = run.staged(dgamma, channels), to_beta = run.staged(dbeta, channels);
    run.add<batch_normalization_backward>(chosen, {{DNNL_ARG_SRC, run.tensor(B::x, d)},
                                                   {DNNL_ARG_DIFF_DST, run.tensor(B::dy, d)},
                                                   {DNNL_ARG_MEAN, run.tensor(B::mean, channels)},
                                                   {DNNL_ARG_VARIANCE, variance},
                                                   {DNNL_ARG_SCALE, per_channel(run, B::gamma, p)},
                                                   {DNNL_ARG_DIFF_SRC, run.tensor(B::dx, d)},
                                                   {DNNL_ARG_DIFF_SCALE, to_gamma},
                                                   {DNNL_ARG_DIFF_SHIFT, to_beta}});
    run.unstage(to_gamma, dgamma, "dgamma");
    run.unstage(to_beta, dbeta, "dbeta");
  });
}
DUET_REGISTER(batchnorm_backward_onednn);  // cpu.onednn

Plan batchnorm_inference_onednn(const BatchNormInference& p, CpuContext&) {
  using B = BatchNormInference;
  if (const char* reason = unsupported_reason(p)) return Unsupported{reason};
  return onednn::planned([&](onednn::Program& run) {
    const Desc d = image(p), channels = onednn::dense(DType::f32, {p.c});
    const batch_normalization_forward::primitive_desc chosen(
        onednn::engine(), prop_kind::forward_inference, d, d, static_cast<float>(p.eps),
        with_relu(p, kFlags | normalization_flags::use_global_stats), onednn::attributes());
    run.add<batch_normalization_forward>(chosen, {{DNNL_ARG_SRC, run.tensor(B::x, d)},
                                                  {DNNL_ARG_SCALE, per_channel(run, B::gamma, p)},
                                                  {DNNL_ARG_SHIFT, per_channel(run, B::beta, p)},
                                                  {DNNL_ARG_MEAN, run.tensor(B::mean, channels)},
                                                  {DNNL_ARG_VARIANCE, run.tensor(B::var, channels)},
                                                  {DNNL_ARG_DST, run.tensor(B::y, d)}});
  });
}
DUET_REGISTER(batchnorm_inference_onednn);  // cpu.onednn

}  // namespace
}  // namespace duet
