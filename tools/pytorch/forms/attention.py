# SPDX-License-Identifier: Apache-2.0
from pytorch.forms import op
from pytorch.lazy import F, aten, torch
from pytorch.work import backward_of


def _heads(w):
    B, H, Tq, Tk, D = (w.p(name) for name in ("B", "H", "Tq", "Tk", "D"))
    shared = w.p("Hkv", 0) or H
    q, k, v = w.normal("q", B, H, Tq, D), w.normal("k", B, shared, Tk, D), w.normal("v", B, shared, Tk, D)
    causal, scale = bool(w.p("causal", 0)), w.p("scale", 0.0) or max(1, D) ** -0.5
    mask = _mask(w, B, Tq, Tk)

    def function(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal and mask is None, scale=scale,
                                              enable_gqa=shared != H)
    return q, k, v, causal, scale, mask, function


def _mask(w, B, Tq, Tk):
    """Which keys a query sees, where a window or lengths say it; None where `causal` says all."""
    window, padded = w.p("window", 0), w.p("padded", 0)
    if not window and not padded:
        return None
    query, key = torch.arange(Tq).view(Tq, 1), torch.arange(Tk).view(1, Tk)
    mask = torch.ones(Tq, Tk, dtype=torch.bool)
    if w.p("causal", 0):
        mask = mask & (key <= query)
    if window:
        mask = mask & (query - key < window)
    if padded:
        lengths = w.given("lengths", torch.tensor([Tk - (Tk // 2) * b // B for b in range(B)], dtype=torch.int32))
        mask = mask & (key.view(1, 1, 1, Tk) < lengths.clamp(1, Tk).view(B, 1, 1, 1))
    return mask


@op("attention", backward="attention_backward")
def attention(w):
    q, k, v, causal, scale, mask, function = _heads(w)
    w.function("scaled_dot_product_attention", function, (q, k, v))
    if mask is None and k.shape == v.shape and k.shape[1] == q.shape[1]:
        w.form("_scaled_dot_product_flash_attention_for_cpu",
               lambda: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, scale=scale), "y lse")
    w.pair(function, (q, k, v), 3)


def _packed(w):
    B, T, H, D = (w.p(name) for name in ("B", "T", "H", "D"))
    causal, scale = bool(w.p("causal", 0)), w.p("scale", 0.0) or max(1, D) ** -0.5
    return w.uniform("qkv", -2, 2, B, T, 3, H, D), causal, scale


def _heads_of(qkv):
    return (qkv[:, :, part].transpose(1, 2) for part in range(3))


@op("attention_packed", backward="attention_packed_backward")
def attention_packed(w):
    qkv, causal, scale = _packed(w)

    def function(qkv):
        return F.scaled_dot_product_attention(*_heads_of(qkv), is_causal=causal, scale=scale).transpose(1, 2)

    def flash():
        y, lse = aten._scaled_dot_product_flash_attention_for_cpu(*_heads_of(qkv), 0.0, causal, scale=scale)
        return y.transpose(1, 2), lse
    w.function("scaled_dot_product_attention of views", function, (qkv,))
    w.form("_scaled_dot_product_flash_attention_for_cpu of views", flash, "y lse")
    w.pair(function, (qkv,), 1)


@op("attention_packed_backward")
def attention_packed_backward(w):
    qkv, causal, scale = _packed(w)
    q, k, v = _heads_of(qkv)
    out, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, scale=scale)
    dy = w.normal("dy", *out.transpose(1, 2).shape)
    w.given("y", out.transpose(1, 2))
    w.given("lse", lse)

    def flash():
        gradients = aten._scaled_dot_product_flash_attention_for_cpu_backward(
            dy.transpose(1, 2), q, k, v, out, lse, 0.0, causal, scale=scale)
        return (torch.stack([g.transpose(1, 2) for g in gradients], 2),)
    w.form("_scaled_dot_product_flash_attention_for_cpu_backward, stack", flash, "dqkv")


@op("attention_backward")
def attention_backward(w):
    q, k, v, causal, scale, mask, function = _heads(w)
    dy, group = w.normal("dy", *q.shape), q.shape[1] // max(1, k.shape[1])
    y = w.given("y", function(q, k, v))
    scores = (q.float() @ k.float().repeat_interleave(group, 1).mT) * scale if w.checking else None
    if w.checking:
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        elif causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
        w.given("lse", torch.logsumexp(scores, -1))
    if group == 1 and mask is None:
        out, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, scale=scale)
        w.form("_scaled_dot_product_flash_attention_for_cpu_backward",
               lambda: aten._scaled_dot_product_flash_attention_for_cpu_backward(dy, q, k, v, out, lse, 0.0, causal, scale=scale),
               "dq dk dv")
    else:
        w.pair(function, (q, k, v), 3)
        backward_of(w, "dq dk dv", [dy])
