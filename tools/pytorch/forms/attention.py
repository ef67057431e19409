# SPDX-License-Identifier: Apache-2.0
from pytorch.forms import op
from pytorch.lazy import F, aten, torch
from pytorch.work import backward_of


def _heads(w):
    B, H, Tq, Tk, D = (w.p(name) for name in ("B", "H", "Tq", "Tk", "D"))
    shared = w.p("Hkv", 0) or H
    q, k, v = w.normal("q", B, H, Tq, D), w.normal("k", B, shared, Tk, D), w.normal("v", B, shared, Tk, D)
    causal, scale = bool(w.p("causal", 0)), w.p("scale", 0.0) or max(1, D) ** -0.5

    def function(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=shared != H)
    return q, k, v, causal, scale, function


@op("attention", backward="attention_backward")
def attention(w):
    q, k, v, causal, scale, function = _heads(w)
    w.function("scaled_dot_product_attention", function, (q, k, v))
    if k.shape == v.shape and k.shape[1] == q.shape[1]:
        w.form("_scaled_dot_product_flash_attention_for_cpu",
               lambda: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, scale=scale), "y lse")
    w.pair(function, (q, k, v), 3)


@op("attention_backward")
def attention_backward(w):
    q, k, v, causal, scale, function = _heads(w)
    dy, group = w.normal("dy", *q.shape), q.shape[1] // max(1, k.shape[1])
    y = w.given("y", function(q, k, v))
    scores = (q.float() @ k.float().repeat_interleave(group, 1).mT) * scale if w.checking else None
    if w.checking:
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
        w.given("lse", torch.logsumexp(scores, -1))
    if group == 1:
        out, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, scale=scale)
        w.form("_scaled_dot_product_flash_attention_for_cpu_backward",
               lambda: aten._scaled_dot_product_flash_attention_for_cpu_backward(dy, q, k, v, out, lse, 0.0, causal, scale=scale),
               "dq dk dv")
    else:
        leaves = [t.detach().requires_grad_() for t in (q, k, v)]
        with torch.enable_grad():
            made = function(*leaves)
        w.form("autograd", lambda: torch.autograd.grad(made, leaves, dy, retain_graph=True), "dq dk dv", gradients=True)
