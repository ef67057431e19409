# SPDX-License-Identifier: Apache-2.0
from pytorch.forms import op
from pytorch.lazy import F, aten, torch
from pytorch.work import backward_of


def _channels(w):
    """x, gamma in f32 as the statistics (PyTorch mixes in no other way), and whether relu and a residual follow."""
    shape = w.p("n"), w.p("c"), w.p("h"), w.p("w")
    x, gamma = w.image("x", *shape), w.uniform("gamma", 0.5, 1.5, shape[1]).float()
    return x, gamma, w.p("act", "none") == "relu", bool(w.p("residual", 0))


def _after(relu):
    def function(y, added):
        if added is not None:
            y = y.add_(added)
        return torch.relu_(y) if relu else y
    return function


@op("batchnorm")
def batchnorm(w):
    x, gamma, relu, residual = _channels(w)
    c, eps, momentum, after = len(gamma), w.p("eps", 1e-5), w.p("momentum", 0.1), _after(relu)
    beta = w.normal("beta", c).float()
    mean, var = w.normal("running_mean", c, dtype=torch.float32), w.uniform("running_var", 0.5, 2, c, dtype=torch.float32)
    added = w.image("residual", *x.shape) if residual else None
    for suffix, images in w.layouts(*([x, added] if residual else [x])):
        def call(x=images[0], added=images[-1] if residual else None):
            y, save_mean, save_rstd = aten.native_batch_norm(x, gamma, beta, mean, var, True, momentum, eps)
            return after(y, added), save_mean, save_rstd, mean, var
        w.form("native_batch_norm" + suffix, call, "y mean rstd running_mean running_var")


@op("batchnorm_inference")
def batchnorm_inference(w):
    x, gamma, relu, residual = _channels(w)
    c, eps, after = len(gamma), w.p("eps", 1e-5), _after(relu)
    beta, mean = w.normal("beta", c).float(), w.normal("mean", c, dtype=torch.float32)
    var = w.uniform("var", 0.5, 2, c, dtype=torch.float32)
    added = w.image("residual", *x.shape) if residual else None
    for suffix, images in w.layouts(*([x, added] if residual else [x])):
        w.function("batch_norm" + suffix,
                   lambda x, gamma, beta, mean, var, added: after(F.batch_norm(x, mean, var, gamma, beta, False, 0.0, eps), added),
                   (images[0], gamma, beta, mean, var, images[-1] if residual else None))


@op("batchnorm_backward")
def batchnorm_backward(w):
    x, gamma, relu, residual = _channels(w)
    c = len(gamma)
    mean, rstd = w.uniform("mean", -0.5, 0.5, c, dtype=torch.float32), w.uniform("rstd", 0.5, 2, c, dtype=torch.float32)
    dy, y = w.image("dy", *x.shape), w.image("y", *x.shape) if relu else None
    unused = torch.empty(c), torch.empty(c)  # running statistics, which training does not read
    for suffix, images in w.layouts(*([x, dy, y] if relu else [x, dy])):
        def call(x=images[0], dy=images[1], y=images[-1]):
            g = aten.threshold_backward(dy, y, 0) if relu else dy
            return *aten.native_batch_norm_backward(g, x, gamma, *unused, mean, rstd, True, 1e-5, [True] * 3), g
        w.form("native_batch_norm_backward" + suffix, call, "dx dgamma dbeta dresidual" if residual else "dx dgamma dbeta -")


@op("layernorm")
def layernorm(w):
    rows, cols, eps = w.p("rows"), w.p("cols"), w.p("eps", 1e-5)
    x, gamma, beta = w.normal("x", rows, cols), w.uniform("gamma", 0.5, 1.5, cols), w.normal("beta", cols)
    w.function("native_layer_norm", lambda x, gamma, beta: aten.native_layer_norm(x, [cols], gamma, beta, eps), (x, gamma, beta),
               "y mean rstd")


def _rows(w, center):
    x = w.normal("x", w.p("rows"), w.p("cols"))
    gamma, wide = w.uniform("gamma", 0.5, 1.5, w.p("cols")), x.float()
    mean = wide.mean(1, keepdim=True) if center else torch.zeros(len(x), 1)
    rstd = torch.rsqrt((wide - mean).square().mean(1, keepdim=True) + 1e-5)
    return x, gamma, mean, rstd


@op("layernorm_backward")
def layernorm_backward(w):
    x, gamma, mean, rstd = _rows(w, True)
    w.given("mean", mean.squeeze(1))
    w.given("rstd", rstd.squeeze(1))
    dy, shape, beta = w.normal("dy", *x.shape), [x.shape[1]], torch.zeros_like(gamma)
    mean, rstd = mean.to(w.t), rstd.to(w.t)  # as PyTorch's forward pass leaves them
    w.form("native_layer_norm_backward",
           lambda: aten.native_layer_norm_backward(dy, x, shape, mean, rstd, gamma, beta, [True] * 3), "dx dgamma dbeta")


@op("rmsnorm", backward="rmsnorm_backward")
def rmsnorm(w):
    rows, cols, eps = w.p("rows"), w.p("cols"), w.p("eps", 1e-5)
    x, gamma = w.normal("x", rows, cols), w.uniform("gamma", 0.5, 1.5, cols)
    w.function("rms_norm", lambda x, gamma: F.rms_norm(x, (cols,), gamma, eps), (x, gamma))
    w.function("_fused_rms_norm", lambda x, gamma: aten._fused_rms_norm(x, [cols], gamma, eps), (x, gamma), "y rstd")
    w.pair(lambda x, gamma: F.rms_norm(x, (cols,), gamma, eps), (x, gamma), 2)


@op("rmsnorm_backward")
def rmsnorm_backward(w):
    x, gamma, _, rstd = _rows(w, False)
    w.given("rstd", rstd.squeeze(1))
    w.pair(lambda x, gamma: F.rms_norm(x, (x.shape[1],), gamma, 1e-5), (x, gamma), 2)
    backward_of(w, "dx dgamma", ["dy"])


def _residual(w):
    rows, cols = w.p("rows"), w.p("cols")
    return w.normal("x", rows, cols), w.normal("residual", rows, cols), w.uniform("gamma", 0.5, 1.5, cols)


@op("add_layernorm")
def add_layernorm(w):
    cols, eps = w.p("cols"), w.p("eps", 1e-5)
    x, residual, gamma = _residual(w)
    beta = w.normal("beta", cols)

    def function(x, residual, gamma, beta):
        s = x + residual
        return s, *aten.native_layer_norm(s, [cols], gamma, beta, eps)
    w.function("add, native_layer_norm", function, (x, residual, gamma, beta), "s y mean rstd")


@op("add_rmsnorm")
def add_rmsnorm(w):
    cols, eps = w.p("cols"), w.p("eps", 1e-5)

    def two(x, residual, gamma):
        s = x + residual
        return s, F.rms_norm(s, (cols,), gamma, eps)

    def fused(x, residual, gamma):
        s = x + residual
        return s, *aten._fused_rms_norm(s, [cols], gamma, eps)
    inputs = _residual(w)
    w.function("add, rms_norm", two, inputs, "s y -")
    w.function("add, _fused_rms_norm", fused, inputs, "s y rstd")


@op("softmax", backward="softmax_backward")
def softmax(w):
    x = w.normal("x", w.p("rows"), w.p("cols"))
    y = torch.empty_like(x)
    w.form("softmax out=", lambda: torch._softmax(x, -1, False, out=y))
    w.function("softmax", lambda x: torch.softmax(x, -1), (x,))
    w.pair(lambda x: torch.softmax(x, -1), (x,), 1)


@op("softmax_backward")
def softmax_backward(w):
    rows, cols, t = w.p("rows"), w.p("cols"), w.t
    y, dy = w.given("y", torch.softmax(torch.randn(rows, cols), -1).to(t)), w.normal("dy", rows, cols)
    dx = torch.empty_like(y)
    w.form("softmax_backward out=", lambda: aten._softmax_backward_data.out(dy, y, -1, t, grad_input=dx), "dx")
    w.function("softmax_backward", lambda dy, y: torch._softmax_backward_data(dy, y, -1, t), (dy, y), "dx")
