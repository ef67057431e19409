# SPDX-License-Identifier: Apache-2.0
"""One case in PyTorch: its inputs under the names of Duet's tensors, and the forms in which PyTorch offers the work. The
functions of pytorch/forms/ fill it; measure.py times each form, check.py compares what it returns with Duet's reference."""
from pytorch.lazy import torch


class NoForm(Exception):
    """PyTorch has no form of this case: the reason."""


class Form:
    """`call` does the work once and returns the tensors that `outputs` names ("y lse"; "-": a result that Duet lacks)."""

    def __init__(self, name, call, outputs, gradients):
        self.name, self.call, self.outputs, self.gradients = name, call, outputs.split(), gradients


class Work:
    """p("n") is an attribute of the case; p("axis", 1) one with Duet's default."""

    def __init__(self, params, dtype, checking=False):
        self.params, self.dtype, self.checking = params, dtype, checking
        self.t = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i8": torch.int8,
                  "f8e4m3": torch.float8_e4m3fn}[dtype]
        self.read, self.inputs, self.forms, self.late, self.differentiable = {"math"}, {}, [], [], None
        self.nhwc = params.get("layout") == "nhwc"
        self.random = False  # PyTorch draws other random numbers: the values cannot be compared

    def p(self, name, default=None):
        self.read.add(name)
        return self.params[name] if default is None else self.params.get(name, default)

    def unread(self):
        """Attributes that the form does not know: the work would be another."""
        return sorted(set(self.params) - self.read)

    # --- inputs: drawn, and kept under their names

    def given(self, name, tensor):
        self.inputs[name] = tensor
        return tensor

    def normal(self, name, *shape, dtype=None):
        return self.given(name, torch.randn(*shape).to(dtype or self.t))

    def uniform(self, name, low, high, *shape, dtype=None):
        return self.given(name, torch.empty(*shape).uniform_(low, high).to(dtype or self.t))

    def whole(self, name, low, high, *shape, dtype=None):
        return self.given(name, torch.randint(low, high, shape, dtype=dtype or torch.int32))

    def constant(self, name, value, dtype=None):
        return self.given(name, torch.tensor([value], dtype=dtype or torch.float32))

    def image(self, name, n, c, h, w):
        """Axes as PyTorch counts them (n, c, h, w); in memory as the case's layout says."""
        self.read.add("layout")
        if not self.nhwc:
            return self.normal(name, n, c, h, w)
        return self.normal(name, n, h, w, c).permute(0, 3, 1, 2)

    def layouts(self, *tensors):
        """(suffix of the form's name, the tensors) in both memory formats: PyTorch may have the one that it likes."""
        last = torch.channels_last
        return [("", [v.contiguous() for v in tensors]),
                (" channels_last", [v.contiguous(memory_format=last) for v in tensors])]

    # --- forms

    def form(self, name, call, outputs="y", gradients=False):
        self.forms.append(Form(name, call, outputs, gradients))

    def function(self, name, function, args, outputs="y", gradients=False):
        """A form without side effects, which torch.compile takes as well."""
        self.form(name, lambda: function(*args), outputs, gradients)

        def compiled():
            made = torch.compile(function)
            return lambda: made(*args)
        self.late.append(Form("compile " + name, compiled, outputs, gradients))

    def pair(self, function, args, inputs):
        """The forward pass `function(*args)` for autograd: its first output's gradients by the first `inputs` of args."""
        self.differentiable = function, args, inputs


def backward_of(work, outputs, names):
    """autograd's backward pass alone: the forward pass ran before, its graph is kept. `names`: of the gradients of its results; None:
    the gradient is 1."""
    function, args, count = work.differentiable
    args = [v.detach().requires_grad_() if i < count else v for i, v in enumerate(args)]
    with torch.enable_grad():
        result = function(*args)
    made = [result] if torch.is_tensor(result) else list(result)
    made = made[:len(names)]
    seeds = [work.normal(name, *y.shape, dtype=y.dtype) if name else torch.ones_like(y) for name, y in zip(names, made)]
    work.form("autograd", lambda: torch.autograd.grad(made, args[:count], seeds, retain_graph=True), outputs, gradients=True)


def forward_and_backward(work):
    """Replaces the forms of a forward pass by the pass with its backward, as autograd runs both."""
    function, args, count = work.differentiable
    args = [v.detach().requires_grad_() if i < count else v for i, v in enumerate(args)]

    def first(function):
        result = function(*args)
        return result[0] if isinstance(result, (tuple, list)) else result
    with torch.enable_grad():
        like = first(function)
    seed = torch.ones_like(like) if like.dim() == 0 else torch.randn_like(like)

    def both(function):
        return lambda: torch.autograd.grad(first(function), args[:count], seed)
    work.forms = [Form("autograd", both(function), "", True)]
    work.late = [Form("compile", lambda: both(torch.compile(function)), "", True)]
