// SPDX-License-Identifier: Apache-2.0
// conv2d, conv2d_bias and the gradients by oneDNN's direct convolution, in the layouts that it prefers: tensors of
// layout nchw are copied to blocks of channels and back in every run. Layout nhwc stays as it is. Filters are packed in
// every run, or before.
#include "core/registration.h"
#include "cpu_ref/onednn.h"
#include "ops/conv/conv2d_backward.h"
#include "ops/conv/conv2d_bias.h"

namespace duet {
namespace {
using dnnl::algorithm, dnnl::convolution_forward, dnnl::prop_kind;
using onednn::Desc, onednn::Dims, onednn::Packing;

// The tensors as the contract lays them out, in oneDNN's order of dimensions: n c h w, and g k c r s or k c r s.
struct Convolution {
  Conv2d p;
  Desc x, w, y;
  Dims strides, dilations, pads;

  explicit Convolution(const Conv2d& conv) : p(conv) {
    x = image(p.c, p.h, p.w);
    y = image(p.k, p.ho(), p.wo());
    const int64_t c = p.group_c();
    const int64_t taps = p.r * p.s, filter = c * taps;
    Dims dims{p.k, c, p.r, p.s};
    Dims steps = p.layout == Layout::nhwc ? Dims{filter, 1, p.s * c, c} : Dims{filter, taps, p.s, 1};
    if (p.groups > 1) {
      dims[0] = p.group_k();
      dims.insert(dims.begin(), p.groups);
      steps.insert(steps.begin(), p.group_k() * filter);
    }
    w = {dims, onednn::type_of(p.dtype), steps};
    strides = {p.stride_h, p.stride_w};
    dilations = {p.dil_h - 1, p.dil_w - 1};
    pads = {p.pad_h, p.pad_w};
  }
  Desc image(int64_t channels, int64_t h, int64_t wide) const {
    const Dims steps = p.layout == Layout::nhwc ? Dims{h * wide * channels, 1, wide * channels, channels}
                                                : Dims{channels * h * wide, h * wide, wide, 1};
    return {{p.n, channels, h, wide}, onednn::type_of(p.dtype), steps};
  }
  // What oneDNN may choose the layout of.
  Desc chosen_image(const Desc& d) const { return p.layout == Layout::nhwc ? d : onednn::any(p.dtype, d.get_dims()); }
  Desc chosen_filter() const { return onednn::any(p.dtype, w.get_dims()); }

  // bias: its description where there is one.
  convolution_forward::primitive_desc forward(const Desc& bias = {},
                                              const dnnl::primitive_attr& attributes = onednn::attributes()) const {
    return {onednn::engine(),
            prop_kind::forward_training,
            algorithm::convolution_direct,
            chosen_image(x),
            chosen_filter(),
            bias,
            chosen_image(y),
            strides,
            dilations,
            pads,
            pads,
            attributes};
  }
};

std::string unsupported_reason(const Conv2d& p) { return p.math == Math::tf32 ? "no TF32 on a CPU" : ""; }

Plan forward(const Conv2d& p, Packing packing) {
  if (const std::string reason = unsupported_reason(p); !reason.empty()) return Unsupported{reason};
  return onednn::planned(packing, [&](onednn::Program& run) {
    const Convolution conv(p);
    const auto x = run.tensor(Conv2d::x, conv.x), w = run.tensor(Conv2d::filter, conv.w);
    const auto y = run.tensor(Conv2d::y, conv.y);
    const convolution_forward::primitive_desc chosen = conv.forward();
    const auto to = run.staged(y, chosen.dst_desc());
    const auto filter = run.packed(Conv2d::filter, w, chosen.weights_desc(), packing);
    run.add<convolution_forward>(
        chosen,
        {{DNNL_ARG_SRC, run.copied(x, chosen.src_desc(), "x")}, {DNNL_ARG_WEIGHTS, filter}, {DNNL_ARG_DST, to}});
    run.unstage(to, y, "y");
  });
}
Plan conv2d_onednn(const Conv2d& p, CpuContext&) { return forward(p, Packing::in_each_run); }
Plan conv2d_onednn_packed(const Conv2d& p, CpuContext&) { return forward(p, Packing::before); }
DUET_REGISTER(conv2d_onednn);         // cpu.onednn
DUET_REGISTER(conv2d_onednn_packed);  // cpu.onednn_packed

Plan forward(const Conv2dBias& p, Packing packing) {
  using C = Conv2dBias;
  if (const std::string reason = unsupported_reason(p.conv); !reason.empty()) return Unsupported{reason};
  return onednn::planned(packing, [&](onednn::Program& run) {
    const Convolution conv(p.conv);
    const auto x = run.tensor(C::x, conv.x), w = run.tensor(C::filter, conv.w), y = run.tensor(C::y, conv.y);
    const auto bias = run.tensor(C::bias, onednn::dense(p.conv.dtype, {p.conv.k}));
    dnnl::primitive_attr attributes = onednn::attributes();
    if (p.act == Act::relu) {
      dnnl::post_ops after;
      after.append_eltwise(algorithm::eltwise_relu, 0, 0);
      attributes.set_post_ops(after);
    }
    const convolution_forward::primitive_desc chosen = conv.forward(bias.desc, attributes);
    const auto to = run.staged(y, chosen.dst_desc());
    const auto filter = run.packed(C::filter, w, chosen.weights_desc(), packing);
    run.add<convolution_forward>(chosen, {{DNNL_ARG_SRC, run.copied(x, chosen.src_desc(), "x")},
                                          {DNNL_ARG_WEIGHTS, filter},
                                          {DNNL_ARG_BIAS, bias},
                                          {DNNL_ARG_DST, to}});
    run.unstage(to, y, "y");
  });
}
Plan conv2d_bias_onednn(const Conv2dBias& p, CpuContext&) { return forward(p, Packing::in_each_run); }
Plan conv2d_bias_onednn_packed(const Conv2dBias& p, CpuContext&) { return forward(p, Packing::before); }
DUET_REGISTER(conv2d_bias_onednn);         // cpu.onednn
DUET_REGISTER(conv2d_bias_onednn_packed);  // cpu.onednn_packed

Plan conv2d_backward_data_onednn(const Conv2dBackwardData& p, CpuContext&) {
  using dnnl::convolution_backward_data;
  using C = Conv2dBackwardData;
  if (const std::string reason = unsupported_reason(p.conv); !reason.empty()) return Unsupported{reason};
  return onednn::planned([&](onednn::Program& run) {
    const Convolution conv(p.conv);
    const auto w = run.tensor(C::filter, conv.w), dy = run.tensor(C::dy, conv.y), dx = run.tensor(C::dx, conv.x);
    const convolution_backward_data::primitive_desc chosen(onednn::engine(), algorithm::convolution_direct,
                                                           conv.chosen_image(conv.x), conv.chosen_filter(),
                                                           conv.chosen_image(conv.y), conv.strides, conv.dilations,
                                                           conv.pads, conv.pads, conv.forward(), onednn::attributes());
    const auto to = run.staged(dx, chosen.diff_src_desc());
    run.add<convolution_backward_data>(chosen, {{DNNL_ARG_DIFF_DST, run.copied(dy, chosen.diff_dst_desc(), "dy")},
                                                {DNNL_ARG_WEIGHTS, run.copied(w, chosen.weights_desc(), "w")},
                                                {DNNL_ARG_DIFF_SRC, to}});
    run.unstage(to, dx, "dx");
  });
}
DUET_REGISTER(conv2d_backward_data_onednn);  // cpu.onednn

Plan conv2d_backward_filter_onednn(const Conv2dBackwardFilter& p, CpuContext&) {
  using dnnl::convolution_backward_weights;
  using C = Conv2dBackwardFilter;
  if (const std::string reason = unsupported_reason(p.conv); !reason.empty()) return Unsupported{reason};
  return onednn::planned([&](onednn::Program& run) {
    const Convolution conv(p.conv);
    const auto x = run.tensor(C::x, conv.x), dy = run.tensor(C::dy, conv.y), dw = run.tensor(C::dw, conv.w);
    const convolution_backward_weights::primitive_desc chosen(
        onednn::engine(), algorithm::convolution_direct, conv.chosen_image(conv.x), conv.chosen_filter(),
        conv.chosen_image(conv.y), conv.strides, conv.dilations, conv.pads, conv.pads, conv.forward(),
        onednn::attributes());
    const auto to = run.staged(dw, chosen.diff_weights_desc());
    run.add<convolution_backward_weights>(chosen, {{DNNL_ARG_SRC, run.copied(x, chosen.src_desc(), "x")},
                                                   {DNNL_ARG_DIFF_DST, run.copied(dy, chosen.diff_dst_desc(), "dy")},
                                                   {DNNL_ARG_DIFF_WEIGHTS, to}});
    run.unstage(to, dw, "dw");
  });
}
DUET_REGISTER(conv2d_backward_filter_onednn);  // cpu.onednn

}  // namespace
}  // namespace duet
