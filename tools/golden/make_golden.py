#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/<name>.json: three training steps of each model by PyTorch, in double, from the inputs and parameters
that a tape of the same seed draws. tests/models/golden_step_test.cpp compares Duet's steps with it.

Each tensor is stored as its norm, its largest entry, its dot product with cos(0), cos(1), ..., which sees where an entry stands,
and some entries. "samples" has the indices of these entries, which a parameter shares with its gradient and with the
optimiser's state of it. "given" is the start, "expected" the state after step 1
and after step 3 of the same inputs.

Needs torch and numpy (the environment of tools/compare_pytorch has both); without them it says so and exits with 77. Run it
again when a model's layers, names or order of declarations change; the diff of the files is then part of the review.
"""
import argparse
import datetime
import json
import os
import sys
import zlib

sys.dont_write_bytecode = True  # writes no __pycache__ into the repository
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
try:
    import numpy as np
    import torch
    from torch import nn
except (ImportError, OSError) as error:
    print(f"make_golden: no usable torch and numpy here ({str(error).splitlines()[0]}); "
          "~/.cache/duet/pytorch/bin/python has them once tools/compare_pytorch --install has run")
    sys.exit(77)
import philox  # noqa: E402
from pytorch.models import MODELS, Declarations  # noqa: E402

# Sizes that differ from those of the test cases: small, and no two dimensions equal where possible. Attributes are set in
# this order, and the model must be valid after each.
SIZES = {
    "bilstm": {"batch": 5, "T": 11},
    "cifar_cnn_distilled": {"batch": 1, "compress": "distilled"},
    "cifar_cnn_pruned": {"batch": 2, "compress": "pruned"},
    "cifar_cnn_quantised": {"batch": 2, "compress": "quantised"},
    "cifar_cnn": {"batch": 5},
    "gpt2": {"batch": 3, "tokens": 13, "layers": 3, "heads": 4, "width": 44, "vocabulary": 67, "context": 17},
    "image_cnn": {"batch": 5, "side": 26, "width": 3},
    "image_cnn_binary": {"batch": 5, "side": 22, "classes": 1, "width": 3},
    "lenet": {"batch": 5},
    "llama": {"batch": 3, "tokens": 13, "layers": 3, "heads": 6, "kv_heads": 2, "width": 36, "inner": 44, "vocabulary": 67},
    "lstm_scorer": {"batch": 5, "T": 11, "features": 7, "units": 13},
    "mlp": {"batch": 19},
    "mlp_adam": {"batch": 17, "optimiser": "adam"},
    "mnist_cnn": {"batch": 5},
    "recommender": {"batch": 57, "users": 19, "items": 13, "factors": 7},
    "resnet50": {"batch": 16, "side": 32, "classes": 13, "width": 4},
    "toy": {"batch": 21},
    "transformer": {"batch": 3, "tokens": 11, "layers": 2, "heads": 2, "width": 36, "inner": 56, "vocabulary": 67},
    "transformer_small": {"batch": 3, "tokens": 11, "layers": 2, "heads": 2, "width": 36, "inner": 56, "vocabulary": 67},
}
# Names that are not a model's: a model with other attributes.
MODEL_OF = {"cifar_cnn_distilled": "cifar_cnn", "cifar_cnn_pruned": "cifar_cnn", "cifar_cnn_quantised": "cifar_cnn",
            "image_cnn_binary": "image_cnn", "mlp_adam": "mlp"}
# Language models, whose steps here write the gradient of the logits over them: a file has none.
OVERWRITES_LOGITS = {"gpt2", "llama", "transformer", "transformer_small"}
STEPS = (1, 3)  # the steps after which tensors are stored; the last one with the optimiser's state
SAMPLES = 24    # stored entries of a tensor
DIGITS = 12     # of a stored number: rounding it must not use up the bound of the tests, 1e-9
UNIT = 2.0**-24
TIE = 64 * UNIT       # slope of relu, choice of max pooling: a gap this small may be decided by rounding
CALM, SEEDS = 50, 40  # a seed is accepted below CALM u of f32 error; else the best of SEEDS


class GivenDropout(nn.Module):
    """Dropout with Duet's mask of each step: every call is one."""

    def __init__(self, p, seed, counter):
        super().__init__()
        self.p, self.seed, self.counter, self.step = p, seed, counter, 0

    def forward(self, x):
        mask = philox.dropout_mask(x.numel(), self.p, self.seed, self.counter, self.step)
        self.step += 1
        return x * torch.from_numpy(mask).reshape(x.shape) / (1 - self.p)


def watch_ties(model, gaps):
    """Collects the smallest gaps, relative to the largest value: of relu's arguments to 0, and between the two largest values of
    a pooling window."""
    def relu(_, arguments):
        x = arguments[0].detach().abs()
        gaps.append((x.min() / x.max()).item())

    def pool(m, arguments):
        x = arguments[0].detach()
        k, stride, pad = (v if isinstance(v, tuple) else (v, v) for v in (m.kernel_size, m.stride, m.padding))
        padded = nn.functional.pad(x, (pad[1], pad[1], pad[0], pad[0]), value=-1)
        windows = padded.unfold(2, k[0], stride[0]).unfold(3, k[1], stride[1]).flatten(4)
        two = windows.topk(2, -1).values
        alive = two[..., 0] > 0  # after relu a whole window may be 0
        gaps.append(((two[..., 0] - two[..., 1].clamp(min=0))[alive].min() / x.max()).item())
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = False
            module.register_forward_pre_hook(relu)
        elif isinstance(module, nn.MaxPool2d):
            module.register_forward_pre_hook(pool)


def sampled(name, chosen_by):
    """Indices of the entries to store of a tensor, chosen by a tensor of its shape, such as its gradient: the largest entry; the
    largest of other rows that are not zero, in random order; the first, the last, and others until there are enough."""
    flat = chosen_by.reshape(-1)
    if flat.size <= SAMPLES:
        return np.arange(flat.size)
    random = np.random.default_rng(zlib.crc32(name.encode()))
    rows = np.abs(chosen_by.reshape(chosen_by.shape[0], -1))
    best = rows.argmax(1) + np.arange(rows.shape[0]) * rows.shape[1]
    wanted = [int(np.abs(flat).argmax()), *random.permutation(best[rows.max(1) > 0])[:SAMPLES * 3 // 4].tolist(), 0, flat.size - 1,
              *random.permutation(flat.size).tolist()]
    return np.array(sorted(list(dict.fromkeys(wanted))[:SAMPLES]))


def summary(values, index):
    flat = values.reshape(-1)
    short = lambda v: float(f"{v:.{DIGITS}g}")
    return {"shape": list(values.shape), "norm": short(np.sqrt((flat**2).sum())), "dot": short(flat @ np.cos(np.arange(flat.size))),
            "max": short(np.abs(flat).max()), "value": [short(v) for v in flat[index]]}


def joined(tensors):
    return np.concatenate([t.detach().numpy() for t in tensors])


def keep_gradients(model):
    """A dictionary that every step fills, by id(parameter), with the gradients before they are clipped, which is what Duet's steps
    keep: its optimiser clips them while it reads them."""
    kept, before_update = {}, model.before_update

    def keep():
        kept.update({id(p): p.grad.clone() for p in model.parameters() if p.grad is not None})
        before_update()
    model.before_update = keep
    return kept


def state_after(declared, gradients, optimiser, logits, loss, with_optimiser):
    """The tensors after a step by Duet's names: those of a parameter w are w, w.gradient, and w.m and w.v or w.velocity."""
    after = {"loss": loss.detach().numpy().reshape(1)}
    if logits is not None:
        after["logits"] = logits.detach().numpy()
    for kind, tensor, parts, _ in declared.list:
        if kind == "parameter":
            if gradients:  # none where an op updates the parameter itself
                after[tensor + ".gradient"] = joined([gradients[id(p)] for p in parts])
            for ours, theirs in (("m", "exp_avg"), ("v", "exp_avg_sq"), ("velocity", "momentum_buffer")):
                if with_optimiser and theirs in optimiser.state[parts[0]]:
                    after[f"{tensor}.{ours}"] = joined([optimiser.state[p][theirs] for p in parts])
        if kind != "other":
            after[tensor] = joined(parts)
    return {tensor: values.copy() for tensor, values in after.items()}


def run_steps(name, seed, dtype, last=1):
    """The inputs and initial parameters, the results after steps 1 and `last`, and the smallest gap to a tie in step 1."""
    model = MODELS[MODEL_OF.get(name, name)](**SIZES[name]).to(dtype)
    given, inputs, declared = {}, [], Declarations()
    model.declare(declared)
    for number, (tensor, whole, shape, rule) in enumerate(model.inputs()):
        given[tensor] = philox.fill(shape, rule, philox.tape_key(seed, number))
        inputs.append(torch.from_numpy(given[tensor]).to(torch.int64 if whole else dtype))
    number = len(inputs)
    for kind, tensor, parts, rule in declared.list:
        if kind in ("parameter", "frozen"):
            shape = (sum(p.shape[0] for p in parts), *parts[0].shape[1:])
            values = philox.fill(shape, rule, philox.tape_key(seed, number))
            if kind == "parameter":
                given[tensor] = values
            with torch.no_grad():
                for p, drawn in zip(parts, torch.from_numpy(values).split([p.shape[0] for p in parts])):
                    p.copy_(drawn)
        number += 2 if kind == "parameter" else 1  # a parameter's gradient has a number of its own
    known = {id(p) for _, _, parts, _ in declared.list for p in parts}
    assert all(id(p) in known for p in model.parameters() if p.requires_grad), f"{name}: a parameter is not declared"
    dropped = [m for m in model.modules() if isinstance(getattr(m, "dropout", None), nn.Dropout) and m.dropout.p > 0]
    for counter, module in enumerate(dropped):  # in the order in which Duet's model declares them
        module.dropout = GivenDropout(module.dropout.p, seed, counter)
    gaps = []
    watch_ties(model, gaps)
    gradients = keep_gradients(model)

    optimiser = model.optimiser(float(np.float32(model.learning_rate)), foreach=False)
    results = {}
    for step in range(1, last + 1):
        logits, loss = model.step(optimiser, inputs)
        if step in (1, last):
            kept = None if name in OVERWRITES_LOGITS else logits
            results[step] = state_after(declared, gradients, optimiser, kept, loss, step > 1)
        if step == 1:
            gap = min(gaps, default=1.0)
    return given, results, gap


def rounding(name, seed, expected):
    """The error of f32 in this step: the largest difference of PyTorch's step in f32 from that in double, in units of u times
    the tensor's largest element. Parameters are left out: Adam turns a gradient of pure rounding into an update of any size."""
    _, results, _ = run_steps(name, seed, torch.float32)
    single = results[1]
    return max(np.abs(single[k] - expected[k]).max() / (UNIT * np.abs(expected[k]).max())
               for k in expected if k in ("loss", "logits") or k.endswith(".gradient"))


def choose(name):
    """The first seed without ties. In a deep network rounding decides somewhere with most seeds: there, the best of several."""
    best = None
    for seed in range(5, 1000):
        _, results, gap = run_steps(name, seed, torch.float64)
        if gap > TIE:
            ratio = rounding(name, seed, results[1])
            if best is None or ratio < best[0]:
                best = (ratio, seed, gap)
            if ratio < CALM or seed >= 5 + SEEDS:
                return best
        elif best and seed >= 5 + SEEDS:
            return best


def json_of(tensors):
    return ",\n".join(f"  {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in tensors.items())


def write(name, folder):
    ratio, seed, gap = choose(name)
    given, results, _ = run_steps(name, seed, torch.float64, STEPS[-1])
    first = results[STEPS[0]]
    index = {tensor: sampled(tensor, first.get(tensor + ".gradient", values)) for tensor, values in {**given, **first}.items()
             if not tensor.endswith(".gradient")}
    # The name of a parameter's state without its last word is the parameter's.
    index_of = lambda tensor: index[tensor if tensor in index else tensor.rpartition(".")[0]]
    document = {"model": MODEL_OF.get(name, name), "attributes": {k: str(v) for k, v in SIZES[name].items()}, "seed": seed,
                "made": {"by": f"tools/golden/make_golden.py {name}", "torch": torch.__version__, "arithmetic": "float64",
                         "date": datetime.date.today().isoformat(), "closest to a tie": float(f"{gap:.2g}")},
                "f32_off_by": float(f"{ratio:.3g}")}
    text = json.dumps(document, indent=1)[:-2]
    text += f',\n "samples": {{\n{json_of({k: v.tolist() for k, v in index.items()})}\n }}'
    text += f',\n "given": {{\n{json_of({k: summary(v, index_of(k)) for k, v in given.items()})}\n }},\n "expected": {{\n'
    text += ",\n".join(f' "{step}": {{\n{json_of({k: summary(v, index_of(k)) for k, v in after.items()})}\n }}'
                       for step, after in results.items()) + "\n }"
    path = os.path.join(folder, name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n}\n")
    print(f"{name}: seed {seed}, {len(first)} tensors, {os.path.getsize(path)} bytes, loss {first['loss'][0]:.6f}, "
          f"f32 off by {ratio:.3g} u", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="make_golden", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="or a name of SIZES; default: all")
    parser.add_argument("--to", default=os.path.join(HERE, "..", "..", "tests", "golden"), metavar="DIR")
    args = parser.parse_args()
    unknown = [m for m in args.models if m not in SIZES]
    if unknown or not os.path.isdir(args.to):
        parser.exit(2, f"make_golden: {'no folder ' + args.to if not unknown else 'no model ' + unknown[0]}; "
                       f"names are {', '.join(SIZES)}\n")
    torch.set_num_threads(1)
    for name in args.models or SIZES:
        write(name, args.to)


if __name__ == "__main__":
    main()
