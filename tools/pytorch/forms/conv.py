# SPDX-License-Identifier: Apache-2.0
from pytorch.forms import op
from pytorch.lazy import F, aten, torch


def _shape(w):
    """Sizes of x and of the filter, those of y, and stride, pad, dilation, groups."""
    n, c, h, width, r, s = (w.p(name) for name in ("n", "c", "h", "w", "r", "s"))
    k, groups = w.p("k", 1), w.p("groups", 1)  # im2col has neither
    stride, pad, dil = ([w.p(f"{name}_{axis}", default) for axis in "hw"] for name, default in (("stride", 1), ("pad", 0), ("dil", 1)))
    out = [(size + 2 * pad[i] - dil[i] * (taps - 1) - 1) // stride[i] + 1 for i, (size, taps) in enumerate(((h, r), (width, s)))]
    return (n, c, h, width), (k, c // groups, r, s), (n, k, *out), (stride, pad, dil, groups)


def _prepacked(w, x, weights, bias, rest, act):
    """oneDNN with a filter that is reordered outside the clock."""
    if w.t != torch.float32:
        return
    stride, pad, dil, groups = rest
    try:
        packed = torch.ops.mkldnn._reorder_convolution_weight(weights, pad, stride, dil, groups, list(x.shape))
    except (AttributeError, RuntimeError):  # a build without oneDNN, or an empty tensor
        return
    w.form("mkldnn, w prepacked", lambda: torch.ops.mkldnn._convolution_pointwise(x, packed, bias, pad, stride, dil, groups, act, [], ""),
           packs=True)


@op("conv2d")
def conv2d(w):
    x_shape, w_shape, _, rest = _shape(w)
    x, weights = w.image("x", *x_shape), w.image("w", *w_shape)
    for suffix, (x, weights) in w.layouts(x, weights):
        w.function("conv2d" + suffix, lambda x, weights: F.conv2d(x, weights, None, *rest), (x, weights))
    _prepacked(w, x, weights, None, rest, "none")


@op("conv2d_bias")
def conv2d_bias(w):
    x_shape, w_shape, _, rest = _shape(w)
    x, weights, bias = w.image("x", *x_shape), w.image("w", *w_shape), w.normal("bias", w.p("k"))
    act = w.p("act", "none")
    after = {"none": lambda y: y, "relu": torch.relu_}[act]
    for suffix, (x, weights) in w.layouts(x, weights):
        w.function("conv2d, act" + suffix, lambda x, weights, bias: after(F.conv2d(x, weights, bias, *rest)), (x, weights, bias))
    _prepacked(w, x, weights, bias, rest, act)


def _backward(w, wanted, outputs):
    x_shape, w_shape, y_shape, (stride, pad, dil, groups) = _shape(w)
    x = w.image("x", *x_shape) if "dw" in outputs else torch.empty(x_shape, dtype=w.t)
    weights = w.image("w", *w_shape) if "dx" in outputs else torch.empty(w_shape, dtype=w.t)
    dy = w.image("dy", *y_shape)
    for suffix, (dy, x, weights) in w.layouts(dy, x, weights):
        w.form("convolution_backward" + suffix,
               lambda dy=dy, x=x, weights=weights: aten.convolution_backward(
                   dy, x, weights, None, stride, pad, dil, False, [0, 0], groups, wanted), outputs)


@op("conv2d_backward_data")
def conv2d_backward_data(w):
    _backward(w, [True, False, False], "dx - -")


@op("conv2d_backward_filter")
def conv2d_backward_filter(w):
    _backward(w, [False, True, False], "- dw -")


@op("im2col")
def im2col(w):
    (n, c, h, width), (_, _, r, s), _, (stride, pad, dil, _) = _shape(w)
    x = w.image("x", n, c, h, width)
    w.form("unfold", lambda: F.unfold(x, (r, s), dil, pad, stride), "col")
