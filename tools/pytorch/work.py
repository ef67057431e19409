# SPDX-License-Identifier: Apache-2.0
"""One case in PyTorch: its inputs under the names of Duet's tensors, and the forms in which PyTorch offers the work. The
functions of pytorch/forms/ fill it; measure.py times each form, check.py compares what it returns with Duet's reference."""
from pytorch.lazy import functorch_config, torch


class NoForm(Exception):
    """PyTorch has no form of this case: the reason."""


class Form:
    """`call` does the work once and returns the tensors that `outputs` names ("y lse"; "-": a result that Duet lacks). Of a late form
    `call` makes such a function, which costs something: a compilation, or another layout. `packs`: its weights were packed before."""

    def __init__(self, name, call, outputs, gradients, packs=False):
        self.name, self.call, self.outputs, self.gradients, self.packs = name, call, outputs.split(), gradients, packs


class Work:
    """p("n") is an attribute of the case; p("axis", 1) one with Duet's default."""

    def __init__(self, params, dtype, checking=False):
        self.params, self.dtype, self.checking = params, dtype, checking
        self.t = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i8": torch.int8,
                  "f8e4m3": torch.float8_e4m3fn}[dtype]
        self.read, self.inputs, self.forms, self.late, self.differentiable = {"math"}, {}, [], [], None
        self.nhwc = params.get("layout") == "nhwc"
        self.changed = []  # (a tensor that the work changes, a copy)
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

    def inout(self, tensor):
        """The work changes this tensor: it is brought back before each sample. bench_all does so with every tensor that an op changes;
        here those do that reach the size of a cache, since what is small stays in one either way."""
        self.changed.append((tensor, tensor.clone()))
        return tensor

    def bring_back(self):
        for tensor, kept in self.changed:
            tensor.copy_(kept)

    # --- forms. Compiled ones are whole graphs: where dynamo would run a part of one eagerly, there is no such form. Only an optimiser's
    # step may have eager parts.

    def form(self, name, call, outputs="y", gradients=False, whole=True, packs=False):
        """Eager, and compiled; but where `call` asks autograd for gradients, compiled() says which part is compiled."""
        self.forms.append(Form(name, call, outputs, gradients, packs))
        if not gradients:
            self.late.append(Form("compile " + name, lambda: torch.compile(call, fullgraph=whole), outputs, gradients, packs))

    def function(self, name, function, args, outputs="y"):
        """A form without side effects: compiled, it gets its tensors as arguments."""
        self.forms.append(Form(name, lambda: function(*args), outputs, False))

        def compiled():
            made = torch.compile(function, fullgraph=True)
            return lambda: made(*args)
        self.late.append(Form("compile " + name, compiled, outputs, False))

    def compiled(self, name, function, use, outputs):
        """A form with gradients whose `function` is compiled: use(the compiled function) makes the call."""
        self.late.append(Form("compile " + name, lambda: use(torch.compile(function, fullgraph=True)), outputs, True))

    def pair(self, function, args, inputs):
        """The forward pass `function(*args)` for autograd: its first output's gradients by the first `inputs` of args."""
        self.differentiable = function, args, inputs


def _leaves(args, count):
    return [v.detach().requires_grad_() if i < count else v for i, v in enumerate(args)]


def backward_of(work, outputs, names):
    """autograd's backward pass alone: the forward pass ran before, its graph is kept. `names`: of the gradients of its results, or
    the gradients themselves; None: the gradient is 1."""
    function, given, count = work.differentiable

    def made_of(function, args):
        with torch.enable_grad():
            result = function(*args)
        return ([result] if torch.is_tensor(result) else list(result))[:len(names)]

    def graph(function):
        args = _leaves(given, count)
        made = made_of(function, args)
        return lambda: torch.autograd.grad(made, args[:count], seeds, retain_graph=True)

    def kept(function):  # a compiled graph that is kept may not give its buffers away
        with functorch_config.patch(donated_buffer=False):
            return graph(function)
    like = made_of(function, given)
    seeds = [torch.ones_like(y) if name is None else work.normal(name, *y.shape, dtype=y.dtype) if isinstance(name, str) else name
             for name, y in zip(names, like)]
    work.form("autograd", graph(function), outputs, gradients=True)
    work.compiled("autograd", function, kept, outputs)


def forward_and_backward(work):
    """Replaces the forms of a forward pass by the pass with its backward, as autograd runs both."""
    function, args, count = work.differentiable
    args = _leaves(args, count)

    def first(function):
        result = function(*args)
        return result[0] if isinstance(result, (tuple, list)) else result
    with torch.enable_grad():
        like = first(function)
    seed = torch.ones_like(like) if like.dim() == 0 else torch.randn_like(like)

    def both(function):
        return lambda: torch.autograd.grad(first(function), args[:count], seed)
    work.forms = [Form("autograd", both(function), "", True)]
    work.late = []
    work.compiled("autograd", function, both, "")
