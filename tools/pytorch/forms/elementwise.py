# SPDX-License-Identifier: Apache-2.0
from pytorch.forms import op
from pytorch.lazy import F, aten, torch
from pytorch.work import NoForm, backward_of


@op("add")
def add(w):
    a, b = w.normal("a", w.p("n")), w.normal("b", w.p("n"))
    c = torch.empty_like(a)
    if w.p("act", "none") == "relu":
        w.form("add out=, relu_", lambda: torch.relu_(torch.add(a, b, out=c)), "c")
        w.function("add, relu", lambda a, b: torch.relu(a + b), (a, b), "c")
    else:
        w.form("add out=", lambda: torch.add(a, b, out=c), "c")


@op("axpy")
def axpy(w):
    x, y, alpha = w.normal("x", w.p("n")), w.inout(w.normal("y", w.p("n"))), w.p("alpha", 1.0)
    w.form("add_", lambda: y.add_(x, alpha=alpha))


@op("bias")
def bias(w):
    x, b = w.normal("x", w.p("outer"), w.p("c"), w.p("inner", 1)), w.normal("bias", w.p("c"))
    relu, column = w.p("act", "none") == "relu", b[:, None]
    y = torch.empty_like(x)
    if relu:
        w.form("add out=, relu_", lambda: torch.relu_(torch.add(x, column, out=y)))
        w.function("add, relu", lambda x, column: torch.relu(x + column), (x, column))
    else:
        w.form("add out=", lambda: torch.add(x, column, out=y))


@op("bias_backward")
def bias_backward(w):
    dy = w.normal("dy", w.p("outer"), w.p("c"), w.p("inner", 1))
    dbias = torch.empty(w.p("c"), dtype=w.t)
    if w.p("act", "none") == "relu":
        y = torch.relu(torch.randn(dy.shape)).to(w.t)
        w.given("y", y)
        dx = torch.empty_like(dy)

        def call():
            aten.threshold_backward.grad_input(dy, y, 0, grad_input=dx)
            return torch.sum(dx, (0, 2), out=dbias), dx
        w.form("threshold_backward out=, sum out=", call, "dbias dx")
    else:
        w.form("sum out=", lambda: torch.sum(dy, (0, 2), out=dbias), "dbias")


@op("relu", backward="relu_backward")
def relu(w):
    x = w.normal("x", w.p("n"))
    y = torch.empty_like(x)
    w.form("clamp_min out=", lambda: torch.clamp_min(x, 0, out=y))
    w.form("relu", lambda: torch.relu(x))
    w.pair(torch.relu, (x,), 1)


@op("relu_backward")
def relu_backward(w):
    x, dy = w.normal("x", w.p("n")), w.normal("dy", w.p("n"))
    dx = torch.empty_like(x)
    w.form("threshold_backward out=", lambda: aten.threshold_backward.grad_input(dy, x, 0, grad_input=dx), "dx")


@op("sigmoid", "tanh")
def sigmoid(w, name):
    x, function = w.normal("x", w.p("n")), getattr(torch, name)
    y = torch.empty_like(x)
    w.form(name + " out=", lambda: function(x, out=y))


@op("sigmoid_backward", "tanh_backward")
def sigmoid_backward(w, name):
    forward, backward = getattr(torch, name.split("_")[0]), getattr(aten, name).grad_input
    y, dy = w.given("y", forward(torch.randn(w.p("n"))).to(w.t)), w.normal("dy", w.p("n"))
    dx = torch.empty_like(y)
    w.form(name + " out=", lambda: backward(dy, y, grad_input=dx), "dx")


def _approximate(w):
    return {"tanh": "tanh", "erf": "none"}[w.p("form", "tanh")]


@op("gelu")
def gelu(w):
    x, form = w.normal("x", w.p("n")), _approximate(w)
    y = torch.empty_like(x)
    w.form("gelu out=", lambda: aten.gelu.out(x, approximate=form, out=y))
    w.function("gelu", lambda x: F.gelu(x, approximate=form), (x,))


@op("gelu_backward")
def gelu_backward(w):
    x, dy, form = w.normal("x", w.p("n")), w.normal("dy", w.p("n")), _approximate(w)
    dx = torch.empty_like(x)
    w.form("gelu_backward out=", lambda: aten.gelu_backward.grad_input(dy, x, approximate=form, grad_input=dx), "dx")


def _swiglu(gate, up):
    return F.silu(gate) * up


@op("swiglu", backward="swiglu_backward")
def swiglu(w):
    gate, up = w.normal("gate", w.p("n")), w.normal("up", w.p("n"))
    y = torch.empty_like(gate)
    w.form("silu out=, mul_", lambda: aten.silu.out(gate, out=y).mul_(up))
    w.function("silu, mul", _swiglu, (gate, up))
    w.pair(_swiglu, (gate, up), 2)


def _swiglu_backward(gate, up, dy):
    return aten.silu_backward(dy * up, gate), dy * F.silu(gate)


@op("swiglu_backward")
def swiglu_backward(w):
    gate, up, dy = (w.normal(name, w.p("n")) for name in ("gate", "up", "dy"))
    dgate, dup = torch.empty_like(gate), torch.empty_like(gate)

    def in_place():
        torch.mul(dy, up, out=dup)
        aten.silu_backward.grad_input(dup, gate, grad_input=dgate)
        return dgate, aten.silu.out(gate, out=dup).mul_(dy)
    w.form("silu_backward out=, silu out=, mul out=", in_place, "dgate dup")
    w.function("silu_backward, silu, mul", _swiglu_backward, (gate, up, dy), "dgate dup")


def _rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


@op("rope", "rope_backward")
def rope(w, name):
    backward = name == "rope_backward"
    B, T, H, D, base = w.p("B"), w.p("T"), w.p("H"), w.p("D"), w.p("base", 10000.0)
    x = w.normal("dy" if backward else "x", B, T, H, D)
    token = torch.arange(T, dtype=torch.float64)
    if w.p("positioned", False):
        token = w.whole("position", 0, 8192, B)[:, None] + token
    angle = token[..., None] * base ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
    cos, sin = (v.to(w.t)[..., None, :] for v in (angle.cos(), (-angle if backward else angle).sin()))  # as models keep them
    w.function("tables of cos and sin", _rotate, (x, cos, sin), "dx" if backward else "y")


@op("dropout")
def dropout(w):
    x, share = w.normal("x", w.p("n")), w.p("p", 0.5)
    w.p("seed", 0)
    w.random = True
    w.form("native_dropout", lambda: torch.native_dropout(x, share, True), "y mask")
    w.form("dropout", lambda: F.dropout(x, share, True))


@op("dropout_backward")
def dropout_backward(w):
    dy, share = w.normal("dy", w.p("n")), w.p("p", 0.5)
    kept = torch.rand(w.p("n")) >= share
    w.given("mask", kept.to(torch.uint8))
    scale = 1 / (1 - share) if share < 1 else 0.0
    w.form("native_dropout_backward", lambda: aten.native_dropout_backward(dy, kept, scale), "dx")


@op("cast")
def cast(w):
    x = w.normal("x", w.p("n"))
    y = torch.empty(w.p("n"), dtype={"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[w.p("to", "f32")])
    w.form("copy_", lambda: y.copy_(x))


@op("unscale")
def unscale(w):
    g = w.normal("g", w.p("n"))
    scale = w.constant("scale", 1024.0)
    inverse, bad = 1 / scale, torch.zeros(1)
    y = torch.empty(w.p("n"))

    def call():
        y.copy_(g)  # the case keeps g, which the function would overwrite: a second call would divide it again
        torch._amp_foreach_non_finite_check_and_unscale_([y], bad, inverse)
        return y, bad
    w.form("copy_, _amp_foreach_non_finite_check_and_unscale_", call, "y bad")
    w.form("mul out=, aminmax", lambda: (torch.mul(g, inverse, out=y), torch.isfinite(torch.stack(torch.aminmax(y))).all().logical_not()),
           "y bad")
    w.function("mul, isfinite", lambda g, inverse: (g * inverse, torch.isfinite(g).all().logical_not()), (g, inverse), "y bad")


@op("scale_update")
def scale_update(w):
    bad, scale, good = w.constant("bad", 0, torch.int32), w.constant("scale", 65536.0), w.constant("good", 7, torch.int32)
    found, interval = bad.float(), w.p("interval", 2000)

    def call():
        torch._amp_update_scale_(scale, good, found, 2.0, 0.5, interval)
        return scale, good
    w.form("_amp_update_scale_", call, "scale good")


def _levels(w):
    x = w.normal("x", w.p("outer"), w.p("c"), w.p("inner"))
    scale, lo, hi = w.uniform("scale", 0.01, 0.05, x.shape[1], dtype=torch.float32), w.p("lo", -128), w.p("hi", 127)
    return x, scale, w.whole("zero", max(lo, -5), min(hi, 5) + 1, x.shape[1]), lo, hi


@op("quantise")
def quantise(w):
    x, scale, zero, lo, hi = _levels(w)
    column, shift = scale[:, None], zero[:, None]
    if (lo, hi) == (-128, 127) and w.t == torch.float32:
        as_long = zero.long()
        w.form("quantize_per_channel", lambda: torch.quantize_per_channel(x, scale, as_long, 1, torch.qint8), "q")
        if len(scale) == 1:
            one, level = float(scale), int(zero)
            w.form("quantize_per_tensor", lambda: torch.quantize_per_tensor(x, one, level, torch.qint8), "q")
    w.function("div, round, add, clamp",
               lambda x, column, shift: torch.clamp(torch.round(x / column) + shift, lo, hi).to(torch.int8), (x, column, shift), "q")


@op("dequantise")
def dequantise(w):
    c = w.p("c")
    q = w.whole("q", -128, 128, w.p("outer"), c, w.p("inner"), dtype=torch.int8)
    scale, zero = w.uniform("scale", 0.01, 0.05, c, dtype=torch.float32), w.whole("zero", -5, 6, c)
    column, shift, t = scale[:, None], zero[:, None], w.t
    if t == torch.float32:
        quantised = torch._make_per_channel_quantized_tensor(q, scale, zero.long(), 1)
        w.form("dequantize", lambda: quantised.dequantize(), "x")
    w.function("sub, mul", lambda q, column, shift: ((q - shift) * column).to(t), (q, column, shift), "x")


@op("fake_quantise")
def fake_quantise(w):
    x, scale, zero, lo, hi = _levels(w)
    w.form("fake_quantize_per_channel_affine", lambda: torch.fake_quantize_per_channel_affine(x, scale, zero, 1, lo, hi))


@op("fake_quantise_backward")
def fake_quantise_backward(w):
    x, scale, zero, lo, hi = _levels(w)
    dy = w.normal("dy", *x.shape)
    _, kept = aten.fake_quantize_per_channel_affine_cachemask(x, scale, zero, 1, lo, hi)  # the forward pass keeps it
    w.form("fake_quantize_per_channel_affine_cachemask_backward",
           lambda: aten.fake_quantize_per_channel_affine_cachemask_backward(dy, kept), "dx")


def _prune_2_4(weights):
    groups = weights.view(-1, 4)
    mask = torch.zeros_like(groups, dtype=torch.uint8).scatter_(1, groups.abs().topk(2, 1).indices, 1)
    return (groups * mask).view(-1), mask.view(-1)


def _prune_magnitude(weights, kept):
    mask = torch.zeros_like(weights, dtype=torch.uint8).index_fill_(0, weights.abs().topk(kept, sorted=False).indices, 1)
    return weights * mask, mask


@op("prune")
def prune(w):
    n = w.p("n")
    weights, scheme, sparsity = w.normal("w", n), w.p("scheme", "2:4"), w.p("sparsity", 0.5)
    if scheme == "magnitude":
        kept = n - min(n, int(n * sparsity * (1 + 2 ** -50)))  # 0.29 of 100 weights are 29, as in Duet
        w.function("topk, index_fill", lambda weights: _prune_magnitude(weights, kept), (weights,), "y mask")
    elif n % 4:
        raise NoForm("a last group of fewer than 4 weights")
    else:
        w.function("topk, scatter", _prune_2_4, (weights,), "y mask")


def _augment(x, image, rows, cols, mean, std, t):
    crop = x[image, rows, cols].permute(0, 3, 1, 2)
    return ((crop / 255 - mean) / std).to(t)


@op("augment")
def augment(w):
    n, h, width, ho, wo = (w.p(name) for name in ("n", "h", "w", "ho", "wo"))
    c = w.p("c", 3)
    if ho > h or wo > width:
        raise NoForm("a crop beyond the image")
    x = w.whole("x", 0, 256, n, h, width, c, dtype=torch.uint8)
    top, left, flip = w.whole("top", 0, h - ho + 1, n), w.whole("left", 0, width - wo + 1, n), w.whole("flip", 0, 2, n)
    mean, std = w.uniform("mean", 0.3, 0.6, c, dtype=torch.float32), w.uniform("std", 0.2, 0.3, c, dtype=torch.float32)
    t = w.t

    def indexed(x, top, left, flip, mean, std):
        across = torch.arange(wo, device=x.device)
        cols = left[:, None] + torch.where(flip[:, None] != 0, wo - 1 - across, across)
        rows = top[:, None] + torch.arange(ho)
        image = torch.arange(n)[:, None, None]
        return _augment(x, image, rows[:, :, None], cols[:, None, :], mean[:, None, None], std[:, None, None], t)
    w.function("index", indexed, (x, top, left, flip, mean, std))
    shift, factor = (mean * 255)[:, None, None], (1 / (std * 255))[:, None, None]
    tops, lefts, flips = top.tolist(), left.tolist(), flip.tolist()
    y = torch.empty(n, c, ho, wo, dtype=t)

    def each():
        for i in range(n):
            crop = x[i, tops[i]:tops[i] + ho, lefts[i]:lefts[i] + wo]
            y[i].copy_((crop.flip(1) if flips[i] else crop).permute(2, 0, 1))
        return y.sub_(shift).mul_(factor)
    w.form("image by image", each)


@op("affine")
def affine(w):
    shape = [w.p(name) for name in ("n", "c", "h", "w")]
    x, t = w.normal("x", *shape), w.t
    theta = w.uniform("theta", -0.2, 0.2, shape[0], 2, 3, dtype=torch.float32).add_(torch.eye(2, 3))

    def sample(x, theta):
        return F.grid_sample(x, F.affine_grid(theta.to(t), shape, False), "bilinear", "zeros", False)
    w.function("affine_grid, grid_sample", sample, (x, theta))
