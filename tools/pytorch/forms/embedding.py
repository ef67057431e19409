# SPDX-License-Identifier: Apache-2.0
from pytorch.forms import op
from pytorch.lazy import F, aten, torch


@op("embedding")
def embedding(w):
    B, T, V, C = w.p("B"), w.p("T"), w.p("V"), w.p("C")
    token, table = w.whole("token", 0, V, B, T), w.normal("table", V, C)
    if w.p("position", 1):
        place = w.normal("position", T, C)
        w.form("embedding, add_", lambda: F.embedding(token, table).add_(place))
        w.function("embedding, add", lambda token, table, place: F.embedding(token, table) + place, (token, table, place))
    else:
        w.function("embedding", F.embedding, (token, table))


@op("embedding_backward")
def embedding_backward(w):
    B, T, V, C = w.p("B"), w.p("T"), w.p("V"), w.p("C")
    token, dy = w.whole("token", 0, V, B, T), w.normal("dy", B, T, C)
    long, position = token.long(), bool(w.p("position", 1))
    outputs = "dtable dposition" if position else "dtable -"
    if w.p("accumulate", 0):
        dtable, flat, rows = w.normal("dtable", V, C), long.flatten(), dy.view(-1, C)
        w.form("index_add_", lambda: (dtable.index_add_(0, flat, rows), torch.sum(dy, 0) if position else None), outputs)
    else:
        w.form("embedding_dense_backward",
               lambda: (aten.embedding_dense_backward(dy, long, V, -1, False), torch.sum(dy, 0) if position else None), outputs)
