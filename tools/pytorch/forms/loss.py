# SPDX-License-Identifier: Apache-2.0
from pytorch.forms import op
from pytorch.lazy import F, aten, torch
from pytorch.work import backward_of


def _classes(w):
    rows, cols = w.p("rows"), w.p("cols")
    x, label = w.normal("x", rows, cols), w.whole("label", 0, cols, rows)
    return x, label.long()


@op("cross_entropy", backward="cross_entropy_backward")
def cross_entropy(w):
    x, label = _classes(w)
    smooth = w.p("smooth", 0.0)

    def loss(x):
        return F.cross_entropy(x, label, label_smoothing=smooth)
    w.function("cross_entropy", loss, (x,), "loss")
    w.pair(loss, (x,), 1)


@op("cross_entropy_backward")
def cross_entropy_backward(w):
    x, label = _classes(w)
    smooth, scaled, t = w.p("smooth", 0.0), bool(w.p("scaled", 0)), w.t
    logs = torch.log_softmax(x, 1)  # the forward pass keeps it
    w.given("lse", torch.logsumexp(x.float(), 1))
    seed = torch.ones((), dtype=t) * (w.constant("scale", 1024.0)[0] if scaled else 1)
    if smooth == 0:
        total = torch.tensor(float(len(x)), dtype=t)

        def call():
            d = aten.nll_loss_backward(seed, logs, label, None, 1, -100, total)
            return aten._log_softmax_backward_data(d, logs, 1, t)
        w.form("nll_loss_backward, log_softmax_backward", call, "dx")
    w.pair(lambda x: F.cross_entropy(x, label, label_smoothing=smooth) * seed, (x,), 1)
    backward_of(w, "dx", [None])


@op("cross_entropy_fused")
def cross_entropy_fused(w):
    """PyTorch has no such op: forward and backward by autograd, in eager mode and with the forward pass compiled."""
    x, label = _classes(w)
    smooth, scaled, t = w.p("smooth", 0.0), bool(w.p("scaled", 0)), w.t
    seed = torch.ones((), dtype=t) * (w.constant("scale", 1024.0)[0] if scaled else 1)
    x = x.detach().requires_grad_()

    def loss(x):
        return F.cross_entropy(x, label, label_smoothing=smooth)

    def step(loss):
        with torch.enable_grad():
            value = loss(x)
        return value.detach(), torch.autograd.grad(value, x, seed)[0]
    w.form("cross_entropy, autograd", lambda: step(loss), "loss dx", gradients=True)
    w.compiled("cross_entropy, autograd", loss, lambda made: lambda: step(made), "loss dx")


@op("bce_logits")
def bce_logits(w):
    x, t = w.normal("x", w.p("n")), w.uniform("t", 0, 1, w.p("n"))
    w.function("binary_cross_entropy_with_logits", F.binary_cross_entropy_with_logits, (x, t), "loss")


@op("bce_logits_backward")
def bce_logits_backward(w):
    n, scale = w.p("n"), w.p("scale", 1.0) * (w.constant("loss_scale", 1024.0)[0] if w.p("scaled", 0) else 1)
    x, t = w.normal("x", n), w.uniform("t", 0, 1, n)
    dx, factor = torch.empty_like(x), scale / max(1, n)
    w.form("sigmoid out=, sub_, mul_", lambda: torch.sigmoid(x, out=dx).sub_(t).mul_(factor), "dx")
    w.function("sigmoid, sub, mul", lambda x, t: (torch.sigmoid(x) - t) * factor, (x, t), "dx")


@op("mse")
def mse(w):
    x, t = w.normal("x", w.p("n")), w.normal("t", w.p("n"))
    w.function("mse_loss", F.mse_loss, (x, t), "loss")


@op("mse_backward")
def mse_backward(w):
    x, t = w.normal("x", w.p("n")), w.normal("t", w.p("n"))
    dx, seed = torch.empty_like(x), torch.tensor(w.p("scale", 1.0), dtype=w.t)
    w.form("mse_loss_backward out=", lambda: aten.mse_loss_backward.grad_input(seed, x, t, 1, grad_input=dx), "dx")


def _distill(w):
    x, label = _classes(w)
    teacher, T, alpha = w.normal("teacher", *x.shape), w.p("T", 4.0), w.p("alpha", 0.9)

    def loss(x, teacher, label):
        soft = F.kl_div(F.log_softmax(x / T, 1), F.log_softmax(teacher / T, 1), reduction="batchmean", log_target=True)
        return alpha * T * T * soft + (1 - alpha) * F.cross_entropy(x, label)
    return loss, (x, teacher, label)


@op("distill", backward="distill_backward")
def distill(w):
    loss, args = _distill(w)
    w.function("kl_div, cross_entropy", loss, args, "loss")
    w.pair(loss, args, 1)


@op("distill_backward")
def distill_backward(w):
    loss, args = _distill(w)
    scale = w.constant("scale", 1024.0)[0] if w.p("scaled", 0) else 1
    w.pair(lambda *args: loss(*args) * scale, args, 1)
    backward_of(w, "dx", [None])
