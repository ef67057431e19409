# SPDX-License-Identifier: Apache-2.0
from pytorch.forms import op
from pytorch.lazy import torch


def _steps(w, make, state, forms):
    """make(parameters, lr, **form): an optimiser of torch.optim; state: its tensors by Duet's names, (PyTorch's name, low). With
    `mixed` it updates master parameters in f32, and p is their copy in dtype; with `max_norm` gradients are clipped first."""
    n, mixed, max_norm = w.p("n"), bool(w.p("mixed", 0)), w.p("max_norm", 0.0)
    wide = torch.float32 if mixed else w.t
    lr = 0.01 if w.checking else 1e-6  # timed again and again
    w.constant("lr", lr)
    g = w.normal("g", n, dtype=torch.float32 if mixed and w.dtype == "f16" else None)
    p = w.normal("p", n)
    if mixed:
        w.constant("bad", 0, torch.int32)
    norm = w.constant("norm", 2.1 * max_norm if w.checking else max_norm) if max_norm else None  # timed again and again
    weights = (w.normal("master", n, dtype=wide) if mixed else p).requires_grad_()
    kept = {theirs: w.uniform(ours, low, 1, n, dtype=wide) for ours, (theirs, low) in state.items()}
    step = w.constant("step", 10, torch.int32) if "m" in state else None
    for form in forms:
        optimiser = make([weights], lr, **form)
        weights.grad = g.to(wide, copy=max_norm > 0)  # clipped in place
        optimiser.state[weights] = kept | ({} if "momentum_buffer" in kept else {"step": torch.tensor(10.0)})

        def call(step_=optimiser.step):
            if mixed:
                weights.grad.copy_(g)
            if max_norm:
                torch.nn.utils.clip_grads_with_norm_([weights], max_norm, norm[0])
            step_()
            if mixed:
                p.copy_(weights.detach())
            return [p.detach()] + ([weights.detach()] if mixed else []) + list(kept.values()) + ([step + 1] if step is not None else [])
        names = ["p"] + (["master"] if mixed else []) + list(state) + (["step"] if step is not None else [])
        w.form(next(iter(form)), call, " ".join(names), whole=False)


FUSED, FOREACH = {"fused": True}, {"foreach": True}


@op("sgd")
def sgd(w):
    momentum, decay, nesterov = w.p("momentum", 0.9), w.p("weight_decay", 0.0), bool(w.p("nesterov", 0))
    _steps(w, lambda p, lr, **form: torch.optim.SGD(p, lr, momentum=momentum, weight_decay=decay, nesterov=nesterov, **form),
           {"v": ("momentum_buffer", -1)}, (FUSED, FOREACH))


@op("rmsprop")
def rmsprop(w):
    alpha, eps = w.p("alpha", 0.99), w.p("eps", 1e-8)
    _steps(w, lambda p, lr, **form: torch.optim.RMSprop(p, lr, alpha=alpha, eps=eps, **form), {"v": ("square_avg", 0)}, (FOREACH,))


@op("adam", "adamw")
def adam(w, name):
    make = torch.optim.Adam if name == "adam" else torch.optim.AdamW
    betas, eps, decay = (w.p("beta1", 0.9), w.p("beta2", 0.999)), w.p("eps", 1e-8), w.p("weight_decay", 0.0)
    _steps(w, lambda p, lr, **form: make(p, lr, betas=betas, eps=eps, weight_decay=decay, **form),
           {"m": ("exp_avg", -1), "v": ("exp_avg_sq", 0)}, (FUSED, FOREACH))


@op("clip_grad_norm")
def clip_grad_norm(w):
    max_norm = w.p("max_norm", 1.0)
    norm = w.constant("norm", 2.1 * max_norm if w.checking else max_norm)  # timed again and again
    weights = torch.zeros(w.p("n"), dtype=w.t)
    g = w.normal("g", w.p("n"))

    def call():
        weights.grad = g
        torch.nn.utils.clip_grads_with_norm_([weights], max_norm, norm[0])
        return g
    w.form("clip_grads_with_norm_", call, "g")
