# SPDX-License-Identifier: Apache-2.0
from pytorch.forms import op
from pytorch.lazy import F, aten, torch
from pytorch.work import NoForm


def _window(w):
    """The shapes of x and y, and window, stride, pad, dilation."""
    size = w.p("h"), w.p("w")
    window = [w.p("r"), w.p("s")]
    stride, pad, dil = ([w.p(f"{name}_{axis}", default) for axis in "hw"] for name, default in (("stride", 1), ("pad", 0), ("dil", 1)))
    if any(2 * p > k for p, k in zip(pad, window)):
        raise NoForm("PyTorch pads by half a window at most")
    out = [(size[i] + 2 * pad[i] - dil[i] * (window[i] - 1) - 1) // stride[i] + 1 for i in range(2)]
    images = w.p("n"), w.p("c")
    return (*images, *size), (*images, *out), (window, stride, pad), dil


@op("max_pool2d")
def max_pool2d(w):
    x_shape, _, window, dil = _window(w)
    indexed, x = bool(w.p("indexed", 1)), w.image("x", *x_shape)
    for suffix, (x,) in w.layouts(x):
        w.function("max_pool2d" + suffix, lambda x: F.max_pool2d(x, *window, dil, False, indexed), (x,), "y index" if indexed else "y")


@op("max_pool2d_backward")
def max_pool2d_backward(w):
    x_shape, y_shape, window, dil = _window(w)
    drawn = torch.randn(x_shape)
    _, index = F.max_pool2d(drawn, *window, dil, False, True)  # as a forward pass gives it
    w.given("index", (index.permute(0, 2, 3, 1) if w.nhwc else index).to(torch.int32).contiguous())
    dy = w.image("dy", *y_shape)
    for suffix, (dy, x, index) in w.layouts(dy, drawn.to(w.t), index):
        w.form("max_pool2d_with_indices_backward" + suffix,
               lambda dy=dy, x=x, index=index: aten.max_pool2d_with_indices_backward(dy, x, *window, dil, False, index), "dx")


@op("max_pool2d_training")
def max_pool2d_training(w):
    """The forward pass and autograd's backward pass behind it."""
    x_shape, y_shape, window, dil = _window(w)
    n, c, h, width = x_shape
    r, s = window[0]
    if r * s > 256:
        raise NoForm("in a window over 256 pixels elements of x are equal, of which PyTorch may take another")
    rows, columns = torch.arange(h)[:, None] // dil[0] % r, torch.arange(width)[None, :] // dil[1] % s
    distinct = torch.randint(256 // (r * s), (n, c, h, width)) * (r * s) + rows * s + columns - 128  # in each window
    x, dy = distinct.to(w.t), w.image("dy", *y_shape)
    w.given("x", (x.permute(0, 2, 3, 1) if w.nhwc else x).contiguous())
    for suffix, (x, dy) in w.layouts(x, dy):
        leaf = x.detach().requires_grad_()

        def pool(x):
            return F.max_pool2d(x, *window, dil)

        def both(pool, leaf=leaf, dy=dy):
            def call():
                y = pool(leaf)
                return [y.detach(), *torch.autograd.grad(y, leaf, dy)]
            return call
        w.form("autograd" + suffix, both(pool), "y dx", gradients=True)
        w.compiled("autograd" + suffix, pool, both, "y dx")


def _undilated(dil):
    if dil != [1, 1]:
        raise NoForm("avg_pool2d of PyTorch has no dilation")


@op("avg_pool2d")
def avg_pool2d(w):
    x_shape, _, window, dil = _window(w)
    _undilated(dil)
    count_pad, x = bool(w.p("count_pad", 0)), w.image("x", *x_shape)
    for suffix, (x,) in w.layouts(x):
        w.function("avg_pool2d" + suffix, lambda x: F.avg_pool2d(x, *window, False, count_pad), (x,))


@op("avg_pool2d_backward")
def avg_pool2d_backward(w):
    x_shape, y_shape, window, dil = _window(w)
    _undilated(dil)
    count_pad, dy = bool(w.p("count_pad", 0)), w.image("dy", *y_shape)
    for suffix, (dy, x) in w.layouts(dy, torch.empty(x_shape, dtype=w.t)):
        w.form("avg_pool2d_backward" + suffix,
               lambda dy=dy, x=x: aten.avg_pool2d_backward(dy, x, *window, False, count_pad, None), "dx")


@op("global_avg_pool")
def global_avg_pool(w):
    x = w.image("x", w.p("n"), w.p("c"), w.p("h"), w.p("w"))
    for suffix, (x,) in w.layouts(x):
        w.function("mean" + suffix, lambda x: x.mean((2, 3)), (x,))
        w.function("adaptive_avg_pool2d" + suffix, lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), (x,))


@op("global_avg_pool_backward")
def global_avg_pool_backward(w):
    n, c, h, width = w.p("n"), w.p("c"), w.p("h"), w.p("w")
    w.p("layout", "nchw")
    dy = w.normal("dy", n, c)
    for suffix, (image, x) in w.layouts(dy[:, :, None, None], torch.empty(n, c, h, width, dtype=w.t)):
        w.form("_adaptive_avg_pool2d_backward" + suffix, lambda dy=image, x=x: aten._adaptive_avg_pool2d_backward(dy, x), "dx")
        dx, share = torch.empty_like(x), 1 / max(1, h * width)
        w.form("mul out=" + suffix, lambda dy=image, dx=dx: torch.mul(dy.expand_as(dx), share, out=dx), "dx")
