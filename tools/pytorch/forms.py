# SPDX-License-Identifier: Apache-2.0
"""The forms in which PyTorch offers each op: name -> call. All do the work that the case names, on random data.
"compile" and "eager channels_last" are built only when they are timed: their entry returns the call."""
import torch
import torch.nn.functional as F

from pytorch.models import MODELS

aten = torch.ops.aten
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def random(*shape, dtype):
    return torch.randn(*shape).to(dtype)


def copy(p, t):
    x = random(p["n"], dtype=t)
    y = torch.empty_like(x)
    return {"copy_": lambda: y.copy_(x)}


def add(p, t):
    a, b = random(p["n"], dtype=t), random(p["n"], dtype=t)
    c = torch.empty_like(a)
    return {"add out=": lambda: torch.add(a, b, out=c)}


def relu(p, t):
    x = random(p["n"], dtype=t)
    y = torch.empty_like(x)
    return {"clamp_min out=": lambda: torch.clamp_min(x, 0, out=y), "relu": lambda: torch.relu(x)}


def relu_backward(p, t):
    x, dy = random(p["n"], dtype=t), random(p["n"], dtype=t)
    dx = torch.empty_like(x)
    return {"threshold_backward out=": lambda: aten.threshold_backward.grad_input(dy, x, 0, grad_input=dx)}


def sum(p, t):
    x, axis = random(p["rows"], p["cols"], dtype=t), p.get("axis", 1)
    y = torch.sum(x, axis)
    return {"sum out=": lambda: torch.sum(x, axis, out=y), "sum": lambda: torch.sum(x, axis)}


def transpose(p, t):
    x = random(p["batch"], p["rows"], p["cols"], dtype=t)
    y = torch.empty(p["batch"], p["cols"], p["rows"], dtype=t)
    return {"copy_": lambda: y.copy_(x.transpose(1, 2))}


def softmax(p, t):
    x = random(p["rows"], p["cols"], dtype=t)
    y = torch.empty_like(x)
    return {"softmax out=": lambda: torch._softmax(x, -1, False, out=y), "softmax": lambda: torch.softmax(x, -1)}


def softmax_backward(p, t):
    y, dy = torch.softmax(random(p["rows"], p["cols"], dtype=t), -1), random(p["rows"], p["cols"], dtype=t)
    dx = torch.empty_like(y)
    return {"softmax_backward out=": lambda: aten._softmax_backward_data.out(dy, y, -1, t, grad_input=dx),
            "softmax_backward": lambda: torch._softmax_backward_data(dy, y, -1, t)}


def gemm(p, t):
    batch, m, n, k, alpha = p.get("batch", 1), p["m"], p["n"], p["k"], p.get("alpha", 1)
    lead = () if batch == 1 else (batch,)
    a = random(*lead, k, m, dtype=t).mT if p.get("trans_a") else random(*lead, m, k, dtype=t)
    b = random(*lead, n, k, dtype=t).mT if p.get("trans_b") else random(*lead, k, n, dtype=t)
    c = torch.empty(*lead, m, n, dtype=t)
    if alpha != 1:
        scaled = torch.addmm if batch == 1 else torch.baddbmm
        return {"addmm out=": lambda: scaled(c, a, b, beta=0, alpha=alpha, out=c)}
    product = torch.mm if batch == 1 else torch.bmm
    return {f"{product.__name__} out=": lambda: product(a, b, out=c)}


def linear(p, t):
    x, w, bias = random(p["n"], p["in"], dtype=t), random(p["out"], p["in"], dtype=t), random(p["out"], dtype=t)
    y, act = torch.empty(p["n"], p["out"], dtype=t), p.get("act", "none")
    after = {"none": lambda y: y, "relu": torch.relu_, "gelu": lambda y: F.gelu(y, approximate="tanh")}[act]
    return {"linear": lambda: after(F.linear(x, w, bias)), "addmm out=": lambda: after(torch.addmm(bias, x, w.t(), out=y))}


def linear_backward(p, t):
    x, w, y = random(p["n"], p["in"], dtype=t), random(p["out"], p["in"], dtype=t), random(p["n"], p["out"], dtype=t)
    dy, act = random(p["n"], p["out"], dtype=t), p.get("act", "none")
    dx, dw, dbias, dz = torch.empty_like(x), torch.empty_like(w), torch.empty(p["out"], dtype=t), torch.empty_like(dy)

    def call():
        d = dy
        if act == "relu":
            d = aten.threshold_backward.grad_input(dy, y, 0, grad_input=dz)
        elif act == "gelu":
            d = aten.gelu_backward(dy, y, approximate="tanh")
        torch.mm(d, w, out=dx)
        torch.mm(d.t(), x, out=dw)
        torch.sum(d, 0, out=dbias)
    return {"mm out=, sum out=": call}


def conv2d(p, t):
    groups = p.get("groups", 1)
    x = random(p["n"], p["c"], p["h"], p["w"], dtype=t)
    w = random(p["k"], p["c"] // groups, p["r"], p["s"], dtype=t)
    rest = (None, (p.get("stride_h", 1), p.get("stride_w", 1)), (p.get("pad_h", 0), p.get("pad_w", 0)),
            (p.get("dil_h", 1), p.get("dil_w", 1)), groups)
    last = [v.contiguous(memory_format=torch.channels_last) for v in (x, w)]
    return {"conv2d": lambda: F.conv2d(x, w, *rest), "conv2d channels_last": lambda: F.conv2d(*last, *rest)}


def _classes(p, t):
    return random(p["rows"], p["cols"], dtype=t), torch.randint(0, p["cols"], (p["rows"],))


def cross_entropy(p, t):
    x, label = _classes(p, t)
    smooth = p.get("smooth", 0.0)
    return {"cross_entropy": lambda: F.cross_entropy(x, label, label_smoothing=smooth)}


def cross_entropy_backward(p, t):
    x, label = _classes(p, t)
    x.requires_grad_()
    loss = F.cross_entropy(x, label, label_smoothing=p.get("smooth", 0.0))
    return {"autograd": lambda: torch.autograd.grad(loss, x, retain_graph=True)}


def dropout(p, t):
    x, share = random(p["n"], dtype=t), p.get("p", 0.5)
    return {"native_dropout": lambda: torch.native_dropout(x, share, True), "dropout": lambda: F.dropout(x, share, True)}


def dropout_backward(p, t):
    dy, share = random(p["n"], dtype=t), p.get("p", 0.5)
    mask = torch.rand(p["n"]) >= share
    scale = 1 / (1 - share) if share < 1 else 0.0
    return {"native_dropout_backward": lambda: aten.native_dropout_backward(dy, mask, scale)}


def sgd(p, t):
    forms = {}
    for form in ({"fused": True}, {"foreach": True}):
        weights = random(p["n"], dtype=t).requires_grad_()
        weights.grad = random(p["n"], dtype=t)
        step = torch.optim.SGD([weights], 0.01, momentum=p.get("momentum", 0.9), weight_decay=p.get("weight_decay", 0),
                               nesterov=bool(p.get("nesterov", False)), **form).step
        forms["SGD " + next(iter(form))] = step
    return forms


def training_step(name):
    """Gradients set to None, forward, loss, backward, optimiser. With Duet's learning rate for timing, parameters hardly
    change."""
    def forms(p, t):
        p = dict(p)
        mixed = p.pop("mixed", False)  # parameters in f32, products in t
        model = MODELS[name](**p).to(torch.float32 if mixed else t)
        inputs = []
        for _, whole, shape, (kind, a, b) in model.inputs():
            drawn = torch.randint(0, a, shape) if kind == "below" else torch.empty(shape).uniform_(a, b)
            inputs.append(drawn if whole else drawn.to(torch.float32 if mixed else t))
        optimiser = model.optimiser(1e-8 if model.adam else 1e-6, fused=True)

        def stepper(forward=None, inputs=inputs):
            def step():
                with torch.autocast("cpu", t, enabled=mixed):
                    model.step(optimiser, inputs, forward)
            return step

        def last():
            model.to(memory_format=torch.channels_last)
            return stepper(inputs=[inputs[0].contiguous(memory_format=torch.channels_last)] + inputs[1:])
        made = {"eager": stepper(), "compile": lambda: stepper(torch.compile(model))}
        return made | {"eager channels_last": last} if model.images else made
    return forms


def _pair(loss_of, inputs):
    """Forward and backward in one: as autograd computes gradients."""
    for v in inputs:
        v.requires_grad_()
    seed = torch.randn_like(loss_of(*inputs)) if loss_of(*inputs).dim() else None
    return lambda f: lambda: torch.autograd.grad(f(*inputs), inputs, seed)


def cross_entropy_pair(p, t):
    x, label = _classes(p, t)

    def loss(x):
        return F.cross_entropy(x, label, label_smoothing=p.get("smooth", 0.0))
    pair = _pair(loss, [x])
    return {"autograd": pair(loss), "compile": lambda: pair(torch.compile(loss))}


def softmax_pair(p, t):
    pair = _pair(lambda x: torch.softmax(x, -1), [random(p["rows"], p["cols"], dtype=t)])
    return {"autograd": pair(lambda x: torch.softmax(x, -1))}


def relu_pair(p, t):
    return {"autograd": _pair(torch.relu, [random(p["n"], dtype=t)])(torch.relu)}


def linear_pair(p, t):
    act = {"none": lambda y: y, "relu": torch.relu, "gelu": lambda y: F.gelu(y, approximate="tanh")}[p.get("act", "none")]
    inputs = [random(p["n"], p["in"], dtype=t), random(p["out"], p["in"], dtype=t), random(p["out"], dtype=t)]

    def layer(x, w, bias):
        return act(F.linear(x, w, bias))
    return {"autograd": _pair(layer, inputs)(layer)}


FORMS = {f.__name__: f for f in (copy, add, relu, relu_backward, sum, transpose, softmax, softmax_backward, gemm, linear,
                                 linear_backward, conv2d, cross_entropy, cross_entropy_backward, dropout, dropout_backward, sgd)}
FORMS |= {"step/" + name: training_step(name) for name in MODELS}
FORMS |= {"cross_entropy+backward": cross_entropy_pair, "softmax+backward": softmax_pair,
          "relu+backward": relu_pair, "linear+backward": linear_pair}
LATE = {"compile", "eager channels_last"}
WITH_GRADIENTS = {op for op in FORMS if op.startswith("step/") or op.endswith("+backward")} | {"cross_entropy_backward"}
