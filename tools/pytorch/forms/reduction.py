# SPDX-License-Identifier: Apache-2.0
from pytorch.forms import op
from pytorch.lazy import F, torch
from pytorch.work import backward_of


@op("sum")
def sum_(w):
    x, axis = w.normal("x", w.p("rows"), w.p("cols")), w.p("axis", 1)
    y = torch.empty(x.shape[1 - axis], dtype=w.t)
    w.form("sum out=", lambda: torch.sum(x, axis, out=y))
    w.form("sum", lambda: torch.sum(x, axis))


@op("max")
def max_(w):
    x, axis = w.normal("x", w.p("rows"), w.p("cols")), w.p("axis", 1)
    y = torch.empty(x.shape[1 - axis], dtype=w.t)
    w.form("amax out=", lambda: torch.amax(x, axis, out=y))


@op("argmax")
def argmax(w):
    x, axis = w.normal("x", w.p("rows"), w.p("cols")), w.p("axis", 1)
    w.function("argmax", lambda x: torch.argmax(x, axis), (x,), "index")
    w.function("max", lambda x: torch.max(x, axis), (x,), "- index")


@op("top_k")
def top_k(w):
    x, k = w.normal("x", w.p("rows"), w.p("cols")), w.p("k", 5)
    w.form("topk", lambda: torch.topk(x, k, 1), "value index")


@op("accuracy")
def accuracy(w):
    rows, cols, k = w.p("rows"), w.p("cols"), w.p("k", 1)
    x, label = w.normal("x", rows, cols), w.whole("label", 0, cols, rows)
    long = label.long()
    if k == 1:
        w.function("argmax, eq, sum", lambda x, label: (x.argmax(1) == label).sum(), (x, long), "correct")
    w.function("topk, eq, sum", lambda x, label: (x.topk(k, 1).indices == label[:, None]).sum(), (x, long), "correct")


@op("norm2")
def norm2(w):
    x = w.normal("x", w.p("n"))
    y = torch.empty((), dtype=torch.float32)
    w.form("vector_norm out=", lambda: torch.linalg.vector_norm(x, dtype=torch.float32, out=y))


def _l2_normalise(eps):
    def function(x):
        scale = torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp_min(eps)
        return x / scale, scale
    return function


@op("l2_normalise", backward="l2_normalise_backward")
def l2_normalise(w):
    x, eps = w.normal("x", w.p("rows"), w.p("cols")), w.p("eps", 1e-12)
    w.function("normalize", lambda x: F.normalize(x, dim=1, eps=eps), (x,))
    w.pair(lambda x: F.normalize(x, dim=1, eps=eps), (x,), 1)


@op("l2_normalise_backward")
def l2_normalise_backward(w):
    x, eps = torch.randn(w.p("rows"), w.p("cols")).to(w.t), w.p("eps", 1e-12)
    y, scale = _l2_normalise(eps)(x.float())
    w.given("y", y.to(w.t))
    w.given("scale", (1 / scale).squeeze(1))
    w.pair(lambda x: F.normalize(x, dim=1, eps=eps), (x,), 1)
    backward_of(w, "dx", ["dy"])


@op("all_reduce")
def all_reduce(w):
    """As a form in one process: torch.distributed needs a process for each replica."""
    x, mean = w.normal("x", w.p("replicas"), w.p("n")), w.p("op", "sum") == "mean"
    total, y, reduce = torch.empty(x.shape[1], dtype=w.t), torch.empty_like(x), torch.mean if mean else torch.sum

    def call():
        reduce(x, 0, out=total)
        return y.copy_(total.expand_as(y))
    w.form("sum out=, copy_", call)
