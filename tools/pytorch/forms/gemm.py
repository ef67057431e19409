# SPDX-License-Identifier: Apache-2.0
from pytorch.forms import ABSENT, op
from pytorch.lazy import F, aten, torch
from pytorch.work import NoForm

ABSENT["gemm_2_4"] = "PyTorch multiplies by 2:4 matrices on CUDA only"


def _factors(w):
    """a, b as PyTorch multiplies them, without an axis for a batch of one."""
    batch, m, n, k = w.p("batch", 1), w.p("m"), w.p("n"), w.p("k")

    def factor(name, rows, cols, transposed):
        shape = (batch, cols, rows) if transposed else (batch, rows, cols)
        v = w.whole(name, -128, 128, *shape, dtype=torch.int8) if w.t == torch.int8 else w.normal(name, *shape)
        v = v[0] if batch == 1 else v
        return v.mT if transposed else v
    a, b = factor("a", m, k, w.p("trans_a", 0)), factor("b", k, n, w.p("trans_b", 0))
    return a, b, (m, n) if batch == 1 else (batch, m, n)


def _prepacked(w, name, x, weights, bias, act, outputs):
    """oneDNN with weights (out, in) that are reordered outside the clock, as torch.compile does it for inference. On some CPUs much
    faster than MKL, which the plain forms use."""
    if w.t != torch.float32 or act == "gelu":
        return
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weights.contiguous(), len(x))
    except (AttributeError, RuntimeError):  # a build without oneDNN, or an empty tensor
        return
    w.form(name, lambda: torch.ops.mkldnn._linear_pointwise(x, packed, bias, act, [], ""), outputs, packs=True)


@op("gemm")
def gemm(w):
    a, b, shape = _factors(w)
    alpha, one = w.p("alpha", 1.0), len(shape) == 2
    if w.t == torch.int8:
        if not one or alpha != 1:
            raise NoForm("_int_mm takes neither a batch nor a factor")
        w.form("_int_mm", lambda: torch._int_mm(a, b), "c")
        return
    if w.t == torch.float8_e4m3fn:
        if not one:
            raise NoForm("_scaled_mm takes no batch")
        of_a, of_b = torch.tensor(float(alpha)), torch.tensor(1.0)
        w.form("_scaled_mm", lambda: torch._scaled_mm(a, b, scale_a=of_a, scale_b=of_b, out_dtype=torch.bfloat16), "c")
        return
    c = torch.zeros(shape, dtype=w.t)
    if alpha != 1:
        scaled = torch.addmm if one else torch.baddbmm
        w.form("addmm out=", lambda: scaled(c, a, b, beta=0, alpha=alpha, out=c), "c")
    else:
        product = torch.mm if one else torch.bmm
        w.form(f"{'mm' if one else 'bmm'} out=", lambda: product(a, b, out=c), "c")
        w.function("matmul", torch.matmul, (a, b), "c")
        if one:
            _prepacked(w, "mkldnn, b prepacked", a.contiguous(), b.mT, None, "none", "c")


@op("gemm_acc")
def gemm_acc(w):
    a, b, shape = _factors(w)
    alpha = w.p("alpha", 1.0)
    c = w.inout(w.normal("c", *((1,) + shape if len(shape) == 2 else shape)))
    one = c[0]
    if len(shape) == 2:
        w.form("addmm_", lambda: one.addmm_(a, b, alpha=alpha), "c")
    else:
        w.form("baddbmm_", lambda: c.baddbmm_(a, b, alpha=alpha), "c")


@op("gemv")
def gemv(w):
    m, n = w.p("m"), w.p("n")
    a = w.normal("a", n, m).t() if w.p("trans", 0) else w.normal("a", m, n)
    x, y = w.normal("x", a.shape[1]), torch.empty(a.shape[0], dtype=w.t)
    w.form("mv out=", lambda: torch.mv(a, x, out=y))


def _layer(act):
    after = {"none": lambda y: y, "relu": torch.relu, "gelu": lambda y: F.gelu(y, approximate="tanh")}[act]
    return lambda x, weights, bias: after(F.linear(x, weights, bias))


@op("linear", backward="linear_backward")
def linear(w):
    x, weights, bias = w.normal("x", w.p("n"), w.p("in")), w.normal("w", w.p("out"), w.p("in")), w.normal("bias", w.p("out"))
    y, act = torch.empty(w.p("n"), w.p("out"), dtype=w.t), w.p("act", "none")
    after = {"none": lambda y: y, "relu": torch.relu_, "gelu": lambda y: (F.gelu(y, approximate="tanh"), y)}[act]
    outputs, transposed = "y pre" if act == "gelu" else "y", weights.t()
    w.form("linear", lambda: after(F.linear(x, weights, bias)), outputs)
    w.form("addmm out=", lambda: after(torch.addmm(bias, x, transposed, out=y)), outputs)
    w.function("linear, act", _layer(act), (x, weights, bias))
    _prepacked(w, "mkldnn, w prepacked", x, weights, bias, act, outputs)
    w.pair(_layer(act), (x, weights, bias), 3)


@op("linear_backward")
def linear_backward(w):
    n, in_, out, act = w.p("n"), w.p("in"), w.p("out"), w.p("act", "none")
    x, weights = w.normal("x", n, in_), w.normal("w", out, in_)
    y = w.normal("pre" if act == "gelu" else "y", n, out)
    dy = w.normal("dy", n, out)
    dx, dw, dbias, dz = torch.empty_like(x), torch.empty_like(weights), torch.empty(out, dtype=w.t), torch.empty_like(dy)

    def call():
        d = dy
        if act == "relu":
            d = aten.threshold_backward.grad_input(dy, y, 0, grad_input=dz)
        elif act == "gelu":
            d = aten.gelu_backward.grad_input(dy, y, approximate="tanh", grad_input=dz)
        return torch.mm(d, weights, out=dx), torch.mm(d.t(), x, out=dw), torch.sum(d, 0, out=dbias)
    w.form("mm out=, sum out=", call, "dx dw dbias")


@op("gelu_linear_backward_data")
def gelu_linear_backward_data(w):
    n, in_, out = w.p("n"), w.p("in"), w.p("out")
    dy, weights, h = w.normal("dy", n, out), w.normal("w", out, in_), w.normal("h", n, in_)
    dh, dbias = torch.empty_like(h), torch.empty(in_, dtype=w.t)

    def call():
        torch.mm(dy, weights, out=dh)
        return aten.gelu_backward.grad_input(dh, h, approximate="tanh", grad_input=dh), torch.sum(dh, 0, out=dbias)
    w.form("mm out=, gelu_backward in place, sum out=", call, "dh dbias")

    def apart(dy, weights, h):
        g = aten.gelu_backward(dy @ weights, h, approximate="tanh")
        return g, g.sum(0)
    w.function("mm, gelu_backward, sum", apart, (dy, weights, h), "dh dbias")


def _linear_int8(x, weights, scale_x, scale_w, bias):
    return (torch._int_mm(x, weights).float() * (scale_x * scale_w) + bias).to(bias.dtype)


@op("linear_int8")
def linear_int8(w):
    n, in_, out = w.p("n"), w.p("in"), w.p("out")
    x, weights = (w.whole(name, -128, 128, *shape, dtype=torch.int8) for name, shape in (("x", (n, in_)), ("w", (out, in_))))
    scale_x, bias = w.constant("scale_x", 0.02), w.normal("bias", out)
    scale_w = w.uniform("scale_w", 0.01, 0.02, out, dtype=torch.float32)
    w.function("_int_mm, mul, add", _linear_int8, (x, weights.t(), scale_x, scale_w, bias))
    try:
        packed = torch.ops.onednn.qlinear_prepack(weights, [n, in_])
    except (AttributeError, RuntimeError):  # a build without oneDNN
        return
    t, zeros, wide = w.t, torch.zeros(out, dtype=torch.int32), bias.float()
    w.form("onednn.qlinear_pointwise",
           lambda: torch.ops.onednn.qlinear_pointwise(x, 0.02, 0, packed, scale_w, zeros, wide, 1.0, 0, t, "none", [], ""), packs=True)


@op("spmm")
def spmm(w):
    m, k, n, nnz = w.p("m"), w.p("k"), w.p("n"), w.p("nnz")
    w.p("checked", True)  # whether indices are checked: the product is the same
    if w.t != torch.float32:
        raise NoForm(f"PyTorch multiplies by CSR matrices of f32 and f64 on a CPU, not of {w.dtype}")
    each = torch.full((m,), nnz // m if m else 0)
    each[:nnz - int(each.sum())] += 1
    row = torch.zeros(m + 1, dtype=torch.int32)
    row[1:] = each.cumsum(0)
    cols = [torch.randperm(k)[:count].sort().values for count in each.tolist()]
    col = torch.cat(cols).to(torch.int32) if cols else torch.zeros(0, dtype=torch.int32)
    value, b = w.normal("value", nnz), None
    w.given("col", col)
    w.given("row", row)
    b = w.normal("b", k, n)
    a, c = torch.sparse_csr_tensor(row, col, value, (m, k), check_invariants=False), torch.empty(m, n, dtype=w.t)
    w.form("mm out= of CSR", lambda: torch.mm(a, b, out=c), "c")
    w.form("mm of CSR", lambda: a @ b, "c")


def _mf_step(user, item, rating, lr, p, q, bu, bi, mu, reg):
    """Gradients of the old values, summed where a user or an item repeats."""
    pu, qi, bu_old, bi_old = p[user], q[item], bu[user], bi[item]
    error = rating - mu - bu_old - bi_old - (pu * qi).sum(1)
    step = (lr * error)[:, None]
    p.index_add_(0, user, step * qi - lr * reg * pu)
    q.index_add_(0, item, step * pu - lr * reg * qi)
    bu.index_add_(0, user, lr * (error - reg * bu_old))
    bi.index_add_(0, item, lr * (error - reg * bi_old))
    return error.square().mean(), p, q, bu, bi


@op("mf_step")
def mf_step(w):
    n, users, items, f = w.p("n"), w.p("users"), w.p("items"), w.p("f")
    user, item = w.whole("user", 0, users, n), w.whole("item", 0, items, n)
    rating, lr = w.uniform("rating", 1, 5, n), w.constant("lr", 0.01 if w.checking else 1e-8)
    p, q = w.uniform("p", -0.1, 0.1, users, f), w.uniform("q", -0.1, 0.1, items, f)
    bu, bi = w.uniform("bu", -0.1, 0.1, users), w.uniform("bi", -0.1, 0.1, items)
    mu, reg = w.p("mu", 3.5), w.p("reg", 0.02)
    w.form("index, index_add_", lambda: _mf_step(user, item, rating, lr, p, q, bu, bi, mu, reg), "loss p q bu bi")
