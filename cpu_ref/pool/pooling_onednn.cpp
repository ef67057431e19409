// SPDX-License-Identifier: Apache-2.0
// max_pool2d, avg_pool2d, global_avg_pool and the gradients of averages by oneDNN's pooling, on the layouts of the
// contract. Of max_pool2d only the form without an index, and both passes as one problem: oneDNN keeps the places of
// the maxima in a workspace of its own format, and the contract of a pass by itself wants positions in the plane.
#include <string>

#include "core/registration.h"
#include "cpu_ref/onednn.h"
#include "ops/pool/avg_pool2d.h"
#include "ops/pool/global_avg_pool.h"
#include "ops/pool/max_pool2d_training.h"

namespace duet {
namespace {
using dnnl::algorithm, dnnl::pooling_backward, dnnl::pooling_forward, dnnl::prop_kind;
using onednn::Desc, onednn::Dims;

// In oneDNN's order of dimensions: n c h w.
Desc image(DType dtype, Layout layout, int64_t n, int64_t c, int64_t h, int64_t w) {
  const Dims steps = layout == Layout::nhwc ? Dims{h * w * c, 1, w * c, c} : Dims{c * h * w, h * w, w, 1};
  return {{n, c, h, w}, onednn::type_of(dtype), steps};
}

struct Windows {
  Desc x, y;
  Dims strides, kernel, dilations, pads, end_pads;

  explicit Windows(const Pool2d& p)
      : x(image(p.dtype, p.layout, p.n, p.c, p.h, p.w)),
        y(image(p.dtype, p.layout, p.n, p.c, p.ho(), p.wo())),
        strides{p.stride_h, p.stride_w},
        kernel{p.r, p.s},
        dilations{p.dil_h - 1, p.dil_w - 1},
        pads{p.pad_h, p.pad_w},
        end_pads{pads} {}
  explicit Windows(const GlobalAvgPool& p)  // one window for each plane
      : x(image(p.dtype, p.layout, p.n, p.c, p.h, p.w)),
        y(image(p.dtype, p.layout, p.n, p.c, 1, 1)),
        strides{1, 1},
        kernel{p.h, p.w},
        dilations{0, 0},
        pads{0, 0},
        end_pads{0, 0} {}

  pooling_forward::primitive_desc forward(algorithm kind, prop_kind prop = prop_kind::forward_inference) const {
    return {onednn::engine(), prop, kind, x, y, strides, kernel, dilations, pads, end_pads, onednn::attributes()};
  }
  pooling_backward::primitive_desc backward(algorithm kind, const pooling_forward::primitive_desc& of_forward) const {
    return {onednn::engine(), kind, x, y, strides, kernel, dilations, pads, end_pads, of_forward, onednn::attributes()};
  }
};

Plan forward(const auto& p, algorithm kind, Slot x, Slot y) {
  return onednn::planned([&](onednn::Program& run) {
    const Windows w(p);
    const auto from = run.tensor(x, w.x), to = run.tensor(y, w.y);
    run.add<pooling_forward>(w.forward(kind), {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}});
  });
}
Plan backward(const auto& p, algorithm kind, Slot dy, Slot dx) {
  return onednn::planned([&](onednn::Program& run) {
    const Windows w(p);
    const auto from = run.tensor(dy, w.y), to = run.tensor(dx, w.x);
    run.add<pooling_backward>(w.backward(kind, w.forward(kind, prop_kind::forward_training)),
                              {{DNNL_ARG_DIFF_DST, from}, {DNNL_ARG_DIFF_SRC, to}});
  });
}
std::string sums_unsupported_reason(const Pool2d& p) {
  if (size_of(p.dtype) != 2 || p.overlap() == 1) return "";
  return std::string("oneDNN adds up the windows of a pixel in ") + name_of(p.dtype);
}
algorithm average(bool count_pad) {
  return count_pad ? algorithm::pooling_avg_include_padding : algorithm::pooling_avg_exclude_padding;
}

Plan max_pool2d_onednn(const MaxPool2d& p, CpuContext&) {
  if (p.indexed) return Unsupported{"oneDNN keeps the places of the maxima in a format of its own"};
  return forward(p, algorithm::pooling_max, MaxPool2d::x, MaxPool2d::y);
}
Plan max_pool2d_training_onednn(const MaxPool2dTraining& p, CpuContext&) {
  using P = MaxPool2dTraining;
  if (!p.distinct())
    return Unsupported{"windows of over 256 pixels: equal elements, of which oneDNN takes one by a rule of its own"};
  if (const std::string why = sums_unsupported_reason(p); !why.empty()) return Unsupported{why};
  return onednn::planned([&](onednn::Program& run) {
    const Windows w(p);
    const auto x = run.tensor(P::x, w.x), dy = run.tensor(P::dy, w.y), y = run.tensor(P::y, w.y),
               dx = run.tensor(P::dx, w.x);
    const auto forward = w.forward(algorithm::pooling_max, prop_kind::forward_training);
    const auto places = run.temporary(forward.workspace_desc());
    run.add<pooling_forward>(forward, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}, {DNNL_ARG_WORKSPACE, places}});
    run.add<pooling_backward>(w.backward(algorithm::pooling_max, forward),
                              {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}, {DNNL_ARG_WORKSPACE, places}});
  });
}
Plan avg_pool2d_onednn(const AvgPool2d& p, CpuContext&) {
  return forward(p, average(p.count_pad), AvgPool2d::x, AvgPool2d::y);
}
Plan avg_pool2d_backward_onednn(const AvgPool2dBackward& p, CpuContext&) {
  if (const std::string why = sums_unsupported_reason(p); !why.empty()) return Unsupported{why};
  return backward(p, average(p.count_pad), AvgPool2dBackward::dy, AvgPool2dBackward::dx);
}
Plan global_avg_pool_onednn(const GlobalAvgPool& p, CpuContext&) {
  return forward(p, average(false), GlobalAvgPool::x, GlobalAvgPool::y);
}
Plan global_avg_pool_backward_onednn(const GlobalAvgPoolBackward& p, CpuContext&) {
  const GlobalAvgPool shape{.n = p.n, .c = p.c, .h = p.h, .w = p.w, .layout = p.layout, .dtype = p.dtype};
  return backward(shape, average(false), GlobalAvgPoolBackward::dy, GlobalAvgPoolBackward::dx);
}

DUET_REGISTER(max_pool2d_onednn);                // cpu.onednn
DUET_REGISTER(max_pool2d_training_onednn);       // cpu.onednn
DUET_REGISTER(avg_pool2d_onednn);                // cpu.onednn
DUET_REGISTER(avg_pool2d_backward_onednn);       // cpu.onednn
DUET_REGISTER(global_avg_pool_onednn);           // cpu.onednn
DUET_REGISTER(global_avg_pool_backward_onednn);  // cpu.onednn

}  // namespace
}  // namespace duet
