# SPDX-License-Identifier: Apache-2.0
from pytorch.forms import op
from pytorch.lazy import torch
from pytorch.work import NoForm


@op("copy")
def copy(w):
    x = w.normal("x", w.p("n"))
    y = torch.empty_like(x)
    w.form("copy_", lambda: y.copy_(x))


@op("fill")
def fill(w):
    y, value = torch.empty(w.p("n"), dtype=w.t), w.p("value", 0.0)
    w.form("fill_", lambda: y.fill_(value))


@op("strided_copy")
def strided_copy(w):
    n, stride, offset = w.p("n"), w.p("stride", 1), w.p("offset", 0)
    x = w.normal("x", offset + (n - 1) * stride + 1 if n else offset)
    view, y = torch.as_strided(x, (n,), (stride,), offset), torch.empty(n, dtype=w.t)
    w.form("copy_ of as_strided", lambda: y.copy_(view))


@op("transpose")
def transpose(w):
    x = w.normal("x", w.p("batch"), w.p("rows"), w.p("cols"))
    view = x.transpose(1, 2)
    y = torch.empty(view.shape, dtype=w.t)
    w.form("copy_", lambda: y.copy_(view))


@op("permute")
def permute(w):
    B, T, H, D, split = w.p("B"), w.p("T"), w.p("H"), w.p("D"), w.p("split", 1)
    if w.p("inverse", 0):  # (split, B, H, T, D) to (B, T, split, H, D)
        x, order = w.normal("x", *([split] if split > 1 else []), B, H, T, D), (1, 3, 0, 2, 4) if split > 1 else (0, 2, 1, 3)
    else:  # (B, T, split, H, D) to (split, B, H, T, D)
        x, order = w.normal("x", B, T, *([split] if split > 1 else []), H, D), (2, 0, 3, 1, 4) if split > 1 else (0, 2, 1, 3)
    view = x.permute(order)
    y = torch.empty(view.shape, dtype=w.t)
    w.form("copy_", lambda: y.copy_(view))


@op("gather")
def gather(w):
    x = w.normal("x", w.p("rows"), w.p("cols"))
    index = w.whole("index", 0, w.p("rows"), w.p("n"))
    y = torch.empty(len(index), x.shape[1], dtype=w.t)
    w.form("index_select out=", lambda: torch.index_select(x, 0, index, out=y))
    w.form("embedding", lambda: torch.embedding(x, index))


@op("cache_append")
def cache_append(w):
    split, B, H, T, D, C = w.p("split", 1), w.p("B"), w.p("H"), w.p("T"), w.p("D"), w.p("C")
    if T > C:
        raise NoForm("more rows than the cache has places")
    x, cache = w.normal("x", split, B, H, T, D), w.normal("cache", split, B, H, C, D)
    position = w.whole("position", 0, C - T + 1, B)
    heads = torch.arange(split * B * H).view(split, B, H, 1) * C
    rows = (heads + position.view(1, B, 1, 1) + torch.arange(T)).flatten()

    def call():
        cache.view(-1, D).index_copy_(0, rows, x.view(-1, D))
        return cache
    w.form("index_copy_", call, "cache")
