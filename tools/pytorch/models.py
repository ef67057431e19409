# SPDX-License-Identifier: Apache-2.0
"""The training steps of models/*.cpp as a PyTorch user writes them: timed by compare_pytorch, and the golden files' source.

Module names are those of Duet's tensors. declare() lists parameters in the order in which Duet declares them, with how it
draws them: golden files depend on both.
"""
import functools
import math
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


def uniform(low, high):
    return ("uniform", low, high)


def normal(mean, deviation):
    return ("normal", mean, deviation)


def constant(value):
    return ("constant", value, 0)


def below(n):
    return ("below", n, 0)


def within(terms):
    return uniform(-1 / math.sqrt(terms), 1 / math.sqrt(terms))


class Declarations:
    """A model's tensors other than its inputs, in Duet's order: (kind, name, tensors stored one after the other, fill)."""

    def __init__(self):
        self.list = []

    def parameter(self, name, tensors, fill):
        self.list.append(("parameter", name, tensors if isinstance(tensors, list) else [tensors], fill))

    def state(self, name, tensor, fill):
        self.list.append(("state", name, [tensor], fill))

    def frozen(self, name, tensor, fill):  # a weight that is not trained
        self.list.append(("frozen", name, [tensor], fill))

    def other(self):  # a tensor that only Duet has, such as the offset of a dropout
        self.list.append(("other", None, [], None))

    def linear(self, name, m):
        self.parameter(name + ".weight", m.weight, within(m.in_features))
        self.parameter(name + ".bias", m.bias, within(m.in_features))

    def conv(self, name, m):
        terms = m.in_channels * m.kernel_size[0] * m.kernel_size[1]
        self.parameter(name + ".weight", m.weight, within(terms))
        self.parameter(name + ".bias", m.bias, within(terms))

    def norm(self, name, m):
        self.parameter(name + ".weight", m.weight, constant(1))
        self.parameter(name + ".bias", m.bias, constant(0))


class Model(nn.Module):
    defaults, learning_rate, adam = {}, 0.0, True
    gradients = True  # whether Duet has the gradients of parameters as tensors
    images = False  # whether a channels-last layout may help

    def __init__(self, **attributes):
        super().__init__()
        unknown = set(attributes) - set(self.defaults)
        if unknown:
            raise ValueError(f"{type(self).__name__} has no attribute {', '.join(sorted(unknown))}")
        self.a = SimpleNamespace(**(self.defaults | attributes))
        self.build(self.a)

    def inputs(self):
        """(name, whole numbers or not, shape, fill): the arguments of forward(), then the label."""
        raise NotImplementedError

    def loss(self, logits, label):
        return F.cross_entropy(logits, label.reshape(-1))

    def optimiser(self, learning_rate, **form):
        return torch.optim.Adam(self.parameters(), learning_rate, **form)

    def before_update(self):
        pass

    def through(self, block, *inputs):
        """A block, whose activations the backward pass computes again where the attribute `recompute` asks for it."""
        if self.a.recompute and torch.is_grad_enabled():
            return checkpoint(block, *inputs, use_reentrant=False)
        return block(*inputs)

    def fold(self):
        """Of an inference: what the attribute `folded` asks for."""

    def step(self, optimiser, inputs, forward=None):
        optimiser.zero_grad(set_to_none=True)
        logits = (self if forward is None else forward)(*inputs[:-1])  # a compiled module has no truth value
        loss = self.loss(logits, inputs[-1])
        loss.backward()
        self.before_update()
        optimiser.step()
        return logits, loss


class Toy(Model):
    defaults, learning_rate = {"batch": 32}, 1e-3

    def build(self, a):
        self.fc1, self.relu, self.fc2 = nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 1)

    def inputs(self):
        return [("x", False, (self.a.batch, 10), uniform(-1, 1)), ("label", False, (self.a.batch, 1), below(2))]

    def declare(self, d):
        d.linear("fc1", self.fc1), d.linear("fc2", self.fc2)

    def forward(self, x):
        return self.fc2(self.relu(self.fc1(x)))

    def loss(self, logits, label):
        return F.binary_cross_entropy_with_logits(logits, label)


class Mlp(Model):
    """parts: the hidden units split in one process, which needs one loss and one bias of the head for all parts."""
    defaults = {"batch": 32, "optimiser": "sgd", "dropout": 0.2, "parts": 1}

    def build(self, a):
        self.adam = a.optimiser == "adam"
        self.learning_rate = 1e-3 if self.adam else 0.05
        self.relu, self.dropout = nn.ReLU(), nn.Dropout(a.dropout)
        if a.parts == 1:
            self.fc1, self.fc2 = nn.Linear(784, 128), nn.Linear(128, 10)
            return
        units = 128 // a.parts
        self.columns = nn.ModuleList(nn.Linear(784, units) for _ in range(a.parts))
        self.rows = nn.ModuleList(nn.Linear(units, 10, bias=False) for _ in range(a.parts))
        self.bias = nn.Parameter(torch.zeros(10))

    def inputs(self):
        return [("x", False, (self.a.batch, 784), uniform(0, 1)), ("label", True, (self.a.batch,), below(10))]

    def declare(self, d):
        d.linear("fc1", self.fc1), d.linear("fc2", self.fc2)

    def forward(self, x):
        if self.a.parts == 1:
            return self.fc2(self.dropout(self.relu(self.fc1(x))))
        shares = [rows(self.relu(columns(x))) for columns, rows in zip(self.columns, self.rows)]
        return torch.stack(shares).sum(0) + self.bias

    def optimiser(self, learning_rate, **form):
        if self.adam:
            return super().optimiser(learning_rate, **form)
        return torch.optim.SGD(self.parameters(), learning_rate, momentum=0.9, **form)


class Cnn(Model):
    """Convolutions with relu, some pooled, then linear layers with relu between them. `layout` is Duet's; PyTorch's layouts are
    forms of their own."""
    images = True
    channels, side, convs, pooled, linears = 3, 32, (), (), ()
    dropped = 0  # before the last layer

    def build(self, a):
        self.relu, self.pool = nn.ReLU(), nn.MaxPool2d(2)
        if self.dropped:
            self.dropout = nn.Dropout(self.dropped)
        c = self.channels
        for i, (k, r) in enumerate(self.convs):
            self.add_module(f"conv{i + 1}", nn.Conv2d(c, k, r))
            c = k
        for i, (n, m) in enumerate(zip(self.linears, self.linears[1:])):
            self.add_module(f"fc{i + 1}", nn.Linear(n, m))

    def inputs(self):
        shape = (self.a.batch, self.channels, self.side, self.side)
        return [("x", False, shape, uniform(0, 1)), ("label", True, (self.a.batch,), below(10))]

    def layers(self, kind, count):
        return [(f"{kind}{i + 1}", getattr(self, f"{kind}{i + 1}")) for i in range(count)]

    def declare(self, d):
        for name, m in self.layers("conv", len(self.convs)):
            d.conv(name, m)
        for name, m in self.layers("fc", len(self.linears) - 1):
            if self.dropped and name == f"fc{len(self.linears) - 1}":
                d.other()
            d.linear(name, m)

    def forward(self, x):
        for (_, conv), pooled in zip(self.layers("conv", len(self.convs)), self.pooled):
            x = self.relu(conv(x))
            x = self.pool(x) if pooled else x
        x = x.flatten(1)
        fully = self.layers("fc", len(self.linears) - 1)
        for _, m in fully[:-1]:
            x = self.relu(m(x))
        return fully[-1][1](self.dropout(x) if self.dropped else x)


class LeNet(Cnn):
    defaults, learning_rate, adam = {"batch": 4, "layout": "nchw"}, 1e-3, False
    convs, pooled, linears = ((6, 5), (16, 5)), (True, True), (400, 120, 84, 10)

    def optimiser(self, learning_rate, **form):
        return torch.optim.SGD(self.parameters(), learning_rate, momentum=0.9, **form)


class MnistCnn(Cnn):
    defaults, learning_rate, channels, side = {"batch": 64, "layout": "nchw"}, 1e-3, 1, 28
    convs, pooled, linears = ((32, 3), (64, 3)), (True, True), (1600, 128, 10)


class CifarCnn(Cnn):
    defaults, learning_rate = {"batch": 64, "width": 32, "layout": "nchw", "compress": "none"}, 1e-3
    pooled = (True, True, False)

    def build(self, a):
        w = a.width
        self.convs, self.linears = ((w, 3), (2 * w, 3), (2 * w, 3)), (32 * w, 2 * w, 10)
        super().build(a)
        if a.compress == "distilled":
            self.teacher = CifarTeacher(batch=a.batch, width=2 * a.width)
            for p in self.teacher.parameters():
                p.requires_grad_(False)

    def declare(self, d):
        for name, m in (*self.layers("conv", 3), *self.layers("fc", 2)):
            terms = m.weight[0].numel()
            d.parameter(name + ".weight", m.weight, within(terms))
            if self.a.compress == "quantised":  # scales and zero points
                d.other(), d.other()
            d.parameter(name + ".bias", m.bias, within(terms))
        if self.a.compress == "distilled":
            self.teacher.declare_frozen(d)

    def compressed(self, m):
        """A layer's weight as the products take it; its gradient passes straight through the rounding."""
        w = m.weight
        if self.a.compress == "quantised":
            scale = torch.tensor(1 / math.sqrt(w[0].numel()) / 127, dtype=torch.float32).to(w.dtype)
            level = torch.round(w.detach() / scale)
            inside = (level.abs() <= 127).to(w.dtype)
            rounded = (level.clamp(-127, 127) * scale).to(torch.float32).to(w.dtype)
            return w * inside + (rounded - w * inside).detach()
        if self.a.compress == "pruned":
            groups = w.detach().abs().reshape(-1)
            groups = F.pad(groups, (0, -groups.numel() % 4), value=-1.0).reshape(-1, 4)
            mask = torch.zeros_like(groups).scatter_(1, groups.topk(2, 1).indices, 1.0)
            return w * mask.reshape(-1)[:w.numel()].reshape(w.shape)
        return w

    def forward(self, x):
        if self.a.compress in ("none", "distilled"):
            self.images_given = x
            return super().forward(x)
        for (_, m), pooled in zip(self.layers("conv", 3), self.pooled):
            x = self.relu(F.conv2d(x, self.compressed(m), m.bias))
            x = self.pool(x) if pooled else x
        x = self.relu(F.linear(x.flatten(1), self.compressed(self.fc1), self.fc1.bias))
        return F.linear(x, self.compressed(self.fc2), self.fc2.bias)

    def loss(self, logits, label):
        if self.a.compress != "distilled":
            return super().loss(logits, label)
        with torch.no_grad():
            wanted = self.teacher(self.images_given)
        soft = F.kl_div(F.log_softmax(logits / 4, 1), F.log_softmax(wanted / 4, 1), reduction="batchmean", log_target=True)
        return 0.9 * 16 * soft + 0.1 * F.cross_entropy(logits, label)

    def optimiser(self, learning_rate, **form):
        return torch.optim.Adam([p for p in self.parameters() if p.requires_grad], learning_rate, **form)


class CifarTeacher(CifarCnn):
    """Frozen."""

    def declare_frozen(self, d):
        for name, m in (*self.layers("conv", 3), *self.layers("fc", 2)):
            terms = m.weight[0].numel()
            d.frozen(f"teacher.{name}.weight", m.weight, within(terms)), d.frozen(f"teacher.{name}.bias", m.bias, within(terms))


class ImageCnn(Cnn):
    """`augment` is Duet's phase of its step; PyTorch's is grid_sample."""
    defaults = {"batch": 32, "side": 224, "classes": 10, "width": 32, "layout": "nchw", "augment": False}
    learning_rate = 1e-3

    def build(self, a):
        binary, w, self.side = a.classes == 1, a.width, a.side
        self.convs, self.pooled = ((w, 3), (2 * w, 3), (4 * w, 3)), (True, True, not binary)
        side = a.side
        for pooled in self.pooled:
            side = (side - 2) // 2 if pooled else side - 2
        self.linears = (4 * w * side * side, (16 if binary else 8) * w, a.classes)
        self.dropped = 0 if binary else 0.5
        super().build(a)

    def inputs(self):
        a = self.a
        label = ("label", False, (a.batch, 1), below(2)) if a.classes == 1 else ("label", True, (a.batch,), below(a.classes))
        return [("x", False, (a.batch, 3, a.side, a.side), uniform(0, 1)), label]

    def forward(self, x):
        if self.a.augment:
            n, r = x.shape[0], 0.2
            theta = torch.zeros(n, 2, 3, dtype=x.dtype)
            theta[:, 0, 0] = (1 + torch.empty(n).uniform_(-r, r)) * (torch.randint(0, 2, (n,)) * 2 - 1)
            theta[:, 1, 1] = 1 + torch.empty(n).uniform_(-r, r)
            theta[:, 0, 1] = torch.empty(n).uniform_(-r, r)
            x = F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False)
        return super().forward(x)

    def loss(self, logits, label):
        return F.binary_cross_entropy_with_logits(logits, label) if self.a.classes == 1 else super().loss(logits, label)


class BiLstm(Model):
    defaults, learning_rate = {"batch": 512, "T": 256}, 1e-3

    def build(self, a):
        self.embedding = nn.Embedding(10000, 16)
        self.lstm = nn.LSTM(16, 32, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(64, 1)
        for second in (self.lstm.bias_hh_l0, self.lstm.bias_hh_l0_reverse):  # one bias, not two
            second.requires_grad_(False).zero_()

    def inputs(self):
        return [("x", True, (self.a.batch, self.a.T), below(10000)), ("label", False, (self.a.batch, 1), below(2))]

    def declare(self, d):
        m = self.lstm
        d.parameter("embedding.weight", self.embedding.weight, normal(0, 1))
        d.parameter("lstm.weight", [m.weight_ih_l0, m.weight_ih_l0_reverse], within(32))
        d.parameter("lstm.recurrent", [m.weight_hh_l0, m.weight_hh_l0_reverse], within(32))
        d.parameter("lstm.bias", [m.bias_ih_l0, m.bias_ih_l0_reverse], within(32))
        d.linear("fc", self.fc)

    def forward(self, token):
        _, (last, _) = self.lstm(self.embedding(token))
        return self.fc(torch.cat([last[0], last[1]], 1))

    def loss(self, logits, label):
        return F.binary_cross_entropy_with_logits(logits, label)

    def optimiser(self, learning_rate, **form):
        return torch.optim.Adam([p for p in self.parameters() if p.requires_grad], learning_rate, **form)


class LstmScorer(Model):
    defaults, learning_rate = {"batch": 64, "T": 60, "features": 32, "units": 128}, 1e-3

    def build(self, a):
        self.lstm = nn.LSTM(a.features, a.units, num_layers=2, batch_first=True)
        self.fc = nn.Linear(a.units, 1)
        for second in (self.lstm.bias_hh_l0, self.lstm.bias_hh_l1):  # one bias, not two
            second.requires_grad_(False).zero_()

    def inputs(self):
        a = self.a
        return [("x", False, (a.batch, a.T, a.features), uniform(-1, 1)), ("label", False, (a.batch, 1), below(2))]

    def declare(self, d):
        d.other()  # the state before the first step
        m, reach = self.lstm, within(self.a.units)
        for name, w, r, bias in (("lstm1", m.weight_ih_l0, m.weight_hh_l0, m.bias_ih_l0),
                                 ("lstm2", m.weight_ih_l1, m.weight_hh_l1, m.bias_ih_l1)):
            d.parameter(name + ".weight", w, reach), d.parameter(name + ".recurrent", r, reach), d.parameter(name + ".bias", bias, reach)
        d.linear("fc", self.fc)

    def forward(self, x):
        _, (last, _) = self.lstm(x)
        return self.fc(last[1])

    def loss(self, logits, label):
        return F.binary_cross_entropy_with_logits(logits, label)

    def optimiser(self, learning_rate, **form):
        return torch.optim.Adam([p for p in self.parameters() if p.requires_grad], learning_rate, **form)


class ConvNorm(nn.Module):
    def __init__(self, c, k, r, stride=1):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(c, k, r, stride, r // 2, bias=False), nn.BatchNorm2d(k)

    def declare(self, d, name):
        k, _, r, s = self.conv.weight.shape
        reach = math.sqrt(6 / (k * r * s))
        d.parameter(name + ".weight", self.conv.weight, uniform(-reach, reach))
        d.parameter(name + ".gamma", self.norm.weight, constant(1))
        d.parameter(name + ".beta", self.norm.bias, constant(0))
        d.state(name + ".running_mean", self.norm.running_mean, constant(0))
        d.state(name + ".running_var", self.norm.running_var, constant(1))

    def forward(self, x):
        return self.norm(self.conv(x))


class Bottleneck(nn.Module):
    def __init__(self, c, width, stride):
        super().__init__()
        self.relu = nn.ReLU(inplace=True)
        self.downsample = ConvNorm(c, 4 * width, 1, stride) if c != 4 * width or stride != 1 else None
        self.conv1, self.conv2 = ConvNorm(c, width, 1), ConvNorm(width, width, 3, stride)
        self.conv3 = ConvNorm(width, 4 * width, 1)

    def declare(self, d, name):
        for part in ("downsample", "conv1", "conv2", "conv3"):
            if getattr(self, part) is not None:
                getattr(self, part).declare(d, f"{name}.{part}")

    def forward(self, x):
        y = self.conv3(self.relu(self.conv2(self.relu(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet50(Model):
    defaults = {"batch": 32, "side": 224, "classes": 1000, "width": 64, "layout": "nchw", "head_only": False,
                "recompute": False, "folded": False}
    learning_rate, adam, images = 1e-4, False, True

    def build(self, a):
        self.conv1, self.relu, self.pool = ConvNorm(3, a.width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        c, self.blocks = a.width, nn.ModuleDict()
        for stage, count in enumerate((3, 4, 6, 3)):
            for i in range(count):
                self.blocks[f"layer{stage + 1}_{i}"] = Bottleneck(c, a.width << stage, 2 if stage and not i else 1)
                c = 4 * (a.width << stage)
        self.average, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(c, a.classes)
        if a.head_only:
            self.requires_grad_(False)
            self.fc.requires_grad_(True)
            self.eval()  # running statistics

    def fold(self):
        for m in self.modules():
            if self.a.folded and isinstance(m, ConvNorm):
                m.conv, m.norm = torch.nn.utils.fuse_conv_bn_eval(m.conv, m.norm), nn.Identity()

    def inputs(self):
        a = self.a
        return [("x", False, (a.batch, 3, a.side, a.side), uniform(-2, 2)), ("label", True, (a.batch,), below(a.classes))]

    def declare(self, d):
        self.conv1.declare(d, "conv1")
        for name, block in self.blocks.items():
            block.declare(d, name.replace("_", "."))
        d.linear("fc", self.fc)

    def forward(self, x):
        h = self.pool(self.relu(self.conv1(x)))
        for block in self.blocks.values():
            h = self.through(block, h)
        return self.fc(self.average(h).flatten(1))

    def optimiser(self, learning_rate, **form):
        trained = [p for p in self.parameters() if p.requires_grad]
        return torch.optim.SGD(trained, learning_rate, momentum=0.9, weight_decay=1e-4, **form)


class KvCache(nn.Module):
    """Keys and values of the tokens so far, and the attention of new ones: of a prompt to itself, of one token to all."""

    def __init__(self, a, heads, size):
        super().__init__()
        self.decode = a.phase == "decode"
        self.begin = a.context - 1 if self.decode else 0
        for name in ("keys", "values"):
            self.register_buffer(name, torch.rand(a.batch, heads, a.context, size) * 2 - 1)

    def forward(self, q, k, v, **grouped):
        end = self.begin + k.shape[2]
        self.keys[:, :, self.begin:end], self.values[:, :, self.begin:end] = k, v
        if self.decode:
            k, v = self.keys[:, :, :end], self.values[:, :, :end]
        return F.scaled_dot_product_attention(q, k, v, is_causal=not self.decode, **grouped)


def cache_of(a, heads):
    return None if a.phase == "whole" else KvCache(a, heads, a.width // a.heads)


class Attention(nn.Module):
    def __init__(self, width, heads, causal=False, cross=False, cache=None):
        super().__init__()
        self.heads, self.causal, self.cross, self.cache = heads, causal, cross, cache
        self.out = nn.Linear(width, width)
        if cross:
            self.q, self.kv = nn.Linear(width, width), nn.Linear(width, 2 * width)
        else:
            self.qkv = nn.Linear(width, 3 * width)

    def declare(self, d, name):
        for part in ("out", "q", "kv") if self.cross else ("out", "qkv"):
            d.linear(f"{name}.{part}", getattr(self, part))

    def split(self, rows, parts):
        """(B, T, parts C) to parts times (B, H, T, C / H)."""
        B, T, C = rows.shape
        return rows.view(B, T, parts, self.heads, C // parts // self.heads).permute(2, 0, 3, 1, 4).unbind(0)

    def forward(self, x, memory=None):
        if self.cross:
            (q,), (k, v) = self.split(self.q(x), 1), self.split(self.kv(memory), 2)
        else:
            q, k, v = self.split(self.qkv(x), 3)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal) if self.cache is None else self.cache(q, k, v)
        return self.out(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width, inner, activation):
        super().__init__()
        self.fc1, self.activation, self.fc2 = nn.Linear(width, inner), activation, nn.Linear(inner, width)

    def declare(self, d, name):
        d.linear(name + ".fc1", self.fc1), d.linear(name + ".fc2", self.fc2)

    def forward(self, x):
        return self.fc2(self.activation(self.fc1(x)))


class Gpt2Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(a.width), nn.LayerNorm(a.width)
        self.attention = Attention(a.width, a.heads, causal=True, cache=cache_of(a, a.heads))
        self.mlp = FeedForward(a.width, 4 * a.width, nn.GELU(approximate="tanh"))

    def declare(self, d, name):
        d.norm(name + ".norm1", self.norm1), d.norm(name + ".norm2", self.norm2)
        self.attention.declare(d, name + ".attention"), self.mlp.declare(d, name + ".mlp")

    def forward(self, x):
        h = x + self.attention(self.norm1(x))
        return h + self.mlp(self.norm2(h))


class Gpt2(Model):
    defaults = {"batch": 1, "tokens": 256, "layers": 12, "width": 768, "heads": 12, "vocabulary": 50257, "context": 1024,
                "padding": 1, "recompute": False, "phase": "whole"}
    learning_rate = 6e-4 / 100

    def build(self, a):
        rows = -(-a.vocabulary // a.padding) * a.padding  # as nanoGPT pads; Duet masks the further columns as well
        self.wte = nn.Parameter(torch.randn(rows, a.width) * 0.02)
        self.wpe = nn.Parameter(torch.randn(a.context, a.width) * 0.02)
        self.h = nn.ModuleList(Gpt2Block(a) for _ in range(a.layers))
        self.norm = nn.LayerNorm(a.width)

    def inputs(self):
        shape, fill = (self.a.batch, self.a.tokens), below(self.a.vocabulary)
        return [("x", True, shape, fill), ("label", True, shape, fill)]

    def declare(self, d):
        d.parameter("wte", self.wte, normal(0, 0.02)), d.parameter("wpe", self.wpe, normal(0, 0.02))
        d.norm("norm", self.norm)
        for i, block in enumerate(self.h):
            block.declare(d, f"h.{i}")

    def forward(self, token):
        begin = self.a.context - 1 if self.a.phase == "decode" else 0
        x = F.embedding(token, self.wte) + self.wpe[begin:begin + self.a.tokens]
        for block in self.h:
            x = self.through(block, x)
        if self.a.phase == "prefill":  # the last token of each sequence
            x = x[:, -1:]
        return F.linear(self.norm(x), self.wte).flatten(0, 1)

    def before_update(self):
        nn.utils.clip_grad_norm_(self.parameters(), 1.0)

    def optimiser(self, learning_rate, **form):
        return torch.optim.AdamW(self.parameters(), learning_rate, betas=(0.9, 0.95), weight_decay=0.1, **form)


class Residual(nn.Module):
    """norm(x + dropout(f(x)))"""

    def __init__(self, a, f):
        super().__init__()
        self.f, self.dropout, self.norm = f, nn.Dropout(a.dropout), nn.LayerNorm(a.width)

    def declare(self, d, name):
        self.f.declare(d, name)
        if self.dropout.p > 0:
            d.other()
        d.norm(name + ".norm", self.norm)

    def forward(self, x, *memory):
        return self.norm(x + self.dropout(self.f(x, *memory)))


class TransformerLayer(nn.Module):
    def __init__(self, a, decoder):
        super().__init__()
        self.self_ = Residual(a, Attention(a.width, a.heads, causal=decoder))
        self.cross = Residual(a, Attention(a.width, a.heads, cross=True)) if decoder else None
        self.mlp = Residual(a, FeedForward(a.width, a.inner, nn.ReLU()))

    def declare(self, d, name):
        self.self_.declare(d, name + ".self")
        if self.cross is not None:
            self.cross.declare(d, name + ".cross")
        self.mlp.declare(d, name + ".mlp")

    def forward(self, x, memory=None):
        h = self.self_(x)
        return self.mlp(h if self.cross is None else self.cross(h, memory))


class Dropped(nn.Module):  # a dropout that golden files can replace
    def __init__(self, p):
        super().__init__()
        self.dropout = nn.Dropout(p)

    def forward(self, x):
        return self.dropout(x)


class TransformerSmall(Model):
    defaults = {"batch": 16, "tokens": 64, "layers": 3, "width": 256, "heads": 4, "inner": 1024, "vocabulary": 8000, "dropout": 0.1,
                "smooth": 0.0, "recompute": False}
    learning_rate, learnt = 1e-5, True

    def build(self, a):
        self.embedding = nn.Parameter(torch.randn(a.vocabulary, a.width) * (0.02 if self.learnt else 1))
        if self.learnt:
            self.source_position = nn.Parameter(torch.randn(a.tokens, a.width) * 0.02)
            self.target_position = nn.Parameter(torch.randn(a.tokens, a.width) * 0.02)
        else:
            i = torch.arange(a.width, dtype=torch.float64)
            angle = torch.arange(a.tokens, dtype=torch.float64)[:, None] * 10000.0 ** (-(i // 2 * 2) / a.width)
            sinusoid = torch.where(i % 2 == 0, angle.sin(), angle.cos()).to(torch.float32)
            self.register_buffer("source_position", sinusoid), self.register_buffer("target_position", sinusoid)
            self.source_dropped, self.target_dropped = Dropped(a.dropout), Dropped(a.dropout)
        self.encoder = nn.ModuleList(TransformerLayer(a, False) for _ in range(a.layers))
        self.decoder = nn.ModuleList(TransformerLayer(a, True) for _ in range(a.layers))

    def inputs(self):
        shape, fill = (self.a.batch, self.a.tokens), below(self.a.vocabulary)
        return [(name, True, shape, fill) for name in ("x", "target", "label")]

    def declare(self, d):
        d.parameter("embedding", self.embedding, normal(0, 0.02 if self.learnt else 1))
        if self.learnt:
            d.parameter("encoder.position", self.source_position, normal(0, 0.02))
            d.parameter("decoder.position", self.target_position, normal(0, 0.02))
        else:
            d.other()  # the sinusoids
            for _ in range(2 if self.a.dropout > 0 else 0):
                d.other()
        for name, layers in (("encoder", self.encoder), ("decoder", self.decoder)):
            for i, layer in enumerate(layers):
                layer.declare(d, f"{name}.{i}")

    def forward(self, source, target):
        memory = F.embedding(source, self.embedding) + self.source_position
        memory = memory if self.learnt else self.source_dropped(memory)
        for layer in self.encoder:
            memory = self.through(layer, memory)
        h = F.embedding(target, self.embedding) + self.target_position
        h = h if self.learnt else self.target_dropped(h)
        for layer in self.decoder:
            h = self.through(layer, h, memory)
        logits = F.linear(h, self.embedding).flatten(0, 1)
        return logits if self.learnt else logits * float(torch.tensor(1 / math.sqrt(self.a.width), dtype=torch.float32))

    def loss(self, logits, label):
        return F.cross_entropy(logits, label.reshape(-1), label_smoothing=self.a.smooth)

    def optimiser(self, learning_rate, **form):
        return torch.optim.Adam(self.parameters(), learning_rate, betas=(0.9, 0.98), eps=1e-9, **form)


class Transformer(TransformerSmall):
    """The base model. The table holds sqrt(width) times the paper's shared weights."""
    defaults = {"batch": 64, "tokens": 64, "layers": 6, "width": 512, "heads": 8, "inner": 2048, "vocabulary": 37000, "dropout": 0.1,
                "smooth": 0.1, "recompute": False}
    learning_rate, learnt = 1e-4, False


class LlamaBlock(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads, self.kv, self.size = a.heads, a.kv_heads, a.width // a.heads
        self.norm1, self.norm2 = nn.RMSNorm(a.width, eps=1e-5), nn.RMSNorm(a.width, eps=1e-5)
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.q, self.k, self.v = linear(a.width, a.width), linear(a.width, self.kv * self.size), linear(a.width, self.kv * self.size)
        self.out = linear(a.width, a.width)
        self.gate, self.up, self.down = linear(a.width, a.inner), linear(a.width, a.inner), linear(a.inner, a.width)
        self.cache = cache_of(a, a.kv_heads)

    def declare(self, d, name):
        weight = lambda part, m: d.parameter(f"{name}.{part}.weight", m.weight, normal(0, 0.02))
        d.parameter(name + ".norm1.weight", self.norm1.weight, constant(1))
        d.parameter(name + ".norm2.weight", self.norm2.weight, constant(1))
        for part in ("q", "k", "v", "out"):
            weight("attention." + part, getattr(self, part))
        for part in ("gate", "up", "down"):
            weight("mlp." + part, getattr(self, part))

    def split(self, x, heads, turn=None):
        x = x.unflatten(-1, (heads, self.size)).transpose(1, 2)
        if turn is None:
            return x
        (cos, sin), (first, second) = turn, x.chunk(2, -1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    def forward(self, x, turn):
        h = self.norm1(x)
        q, k, v = self.split(self.q(h), self.heads, turn), self.split(self.k(h), self.kv, turn), self.split(self.v(h), self.kv)
        attend = functools.partial(F.scaled_dot_product_attention, is_causal=True) if self.cache is None else self.cache
        y = attend(q, k, v, enable_gqa=True)
        h = x + self.out(y.transpose(1, 2).flatten(2))
        g = self.norm2(h)
        return h + self.down(F.silu(self.gate(g)) * self.up(g))


class Llama(Model):
    defaults = {"batch": 1, "tokens": 256, "layers": 2, "width": 2048, "heads": 32, "kv_heads": 4, "inner": 5632, "vocabulary": 32000,
                "context": 2048, "recompute": False, "phase": "whole"}
    learning_rate = 4e-4 / 100

    def build(self, a):
        self.embedding = nn.Parameter(torch.randn(a.vocabulary, a.width) * 0.02)
        self.norm, self.head = nn.RMSNorm(a.width, eps=1e-5), nn.Linear(a.width, a.vocabulary, bias=False)
        self.h = nn.ModuleList(LlamaBlock(a) for _ in range(a.layers))
        size = a.width // a.heads
        begin = a.context - 1 if a.phase == "decode" else 0
        self.angle = torch.arange(begin, begin + a.tokens, dtype=torch.float64)[:, None] * \
            10000.0 ** (-2.0 * torch.arange(size // 2, dtype=torch.float64) / size)

    def inputs(self):
        shape, fill = (self.a.batch, self.a.tokens), below(self.a.vocabulary)
        return [("x", True, shape, fill), ("label", True, shape, fill)]

    def declare(self, d):
        d.parameter("embedding", self.embedding, normal(0, 0.02))
        d.parameter("norm.weight", self.norm.weight, constant(1))
        d.parameter("head.weight", self.head.weight, normal(0, 0.02))
        for i, block in enumerate(self.h):
            block.declare(d, f"h.{i}")

    def forward(self, token):
        x = F.embedding(token, self.embedding)
        turn = self.angle.cos().to(x.dtype), self.angle.sin().to(x.dtype)
        for block in self.h:
            x = self.through(block, x, turn)
        if self.a.phase == "prefill":  # the last token of each sequence
            x = x[:, -1:]
        return self.head(self.norm(x)).flatten(0, 1)

    def before_update(self):
        nn.utils.clip_grad_norm_(self.parameters(), 1.0)

    def optimiser(self, learning_rate, **form):
        return torch.optim.AdamW(self.parameters(), learning_rate, betas=(0.9, 0.95), weight_decay=0.1, **form)


class Recommender(Model):
    """Factors with biases. The loss of a step is the mean square error; the gradient is that of the sum of the squares, each with
    its decay, halved. With `top` an inference finds the items that users would rate highest."""
    defaults = {"batch": 1 << 16, "users": 6040, "items": 3952, "factors": 64, "top": 0}
    learning_rate, adam, gradients = 0.005, False, False

    def build(self, a):
        self.p, self.q = nn.Parameter(torch.randn(a.users, a.factors) * 0.1), nn.Parameter(torch.randn(a.items, a.factors) * 0.1)
        self.bu, self.bi = nn.Parameter(torch.zeros(a.users)), nn.Parameter(torch.zeros(a.items))

    def inputs(self):
        a = self.a
        if a.top:
            return [("x", True, (a.batch,), below(a.users)), ("label", False, (a.batch,), uniform(0.5, 5))]
        return [("x", True, (a.batch,), below(a.users)), ("item", True, (a.batch,), below(a.items)),
                ("label", False, (a.batch,), uniform(0.5, 5))]

    def declare(self, d):
        d.parameter("user.factors", self.p, normal(0, 0.1)), d.parameter("item.factors", self.q, normal(0, 0.1))
        d.parameter("user.bias", self.bu, constant(0)), d.parameter("item.bias", self.bi, constant(0))

    def forward(self, user, item=None):
        if self.a.top:
            rating, items = torch.addmm(self.bi, F.embedding(user, self.p), self.q.T).topk(self.a.top)
            return rating + self.bu[user, None], items
        p, q, bu, bi = F.embedding(user, self.p), F.embedding(item, self.q), self.bu[user], self.bi[item]
        decay = 0.02 * ((p * p).sum() + (q * q).sum() + (bu * bu).sum() + (bi * bi).sum())
        return 3.5 + bu + bi + (p * q).sum(1), decay

    def step(self, optimiser, inputs, forward=None):
        optimiser.zero_grad(set_to_none=True)
        guess, decay = (self if forward is None else forward)(*inputs[:-1])
        error = inputs[-1] - guess
        ((error * error).sum() + decay).div(2).backward()
        optimiser.step()
        return None, (error * error).mean()

    def optimiser(self, learning_rate, **form):
        return torch.optim.SGD(self.parameters(), learning_rate, **form)


MODELS = {"bilstm": BiLstm, "cifar_cnn": CifarCnn, "gpt2": Gpt2, "image_cnn": ImageCnn, "lenet": LeNet, "llama": Llama,
          "lstm_scorer": LstmScorer, "mlp": Mlp, "mnist_cnn": MnistCnn, "recommender": Recommender, "resnet50": ResNet50, "toy": Toy,
          "transformer": Transformer, "transformer_small": TransformerSmall}
