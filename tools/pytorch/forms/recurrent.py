# SPDX-License-Identifier: Apache-2.0
import math

from pytorch.forms import op
from pytorch.lazy import torch
from pytorch.work import backward_of

# dynamo traces none of PyTorch's recurrent layers: their passes with gradients have no compiled form.
GATES = {"rnn_tanh": 1, "gru": 3, "lstm": 4}


def _swapped(v, cell, H):
    """(G H, ...) of a direction, with the gates z and r of gru exchanged: from Duet's order to PyTorch's, or back."""
    return torch.cat([v[H:2 * H], v[:H], v[2 * H:]]) if cell == "gru" else v


def _layers(w, cell, L=1, dropout=0.0):
    """L layers, with dropout between them, as a function of x, h0, (c0,) and the weights, and those arguments. Duet's gru has its gates
    in the order z r n, PyTorch's r z n."""
    T, B, I, H, G = w.p("T"), w.p("B"), w.p("I"), w.p("H"), GATES[cell]
    D = 2 if w.p("bidirectional", 0) else 1
    reach = 1 / max(1, H) ** 0.5
    x = w.normal("x", T, B, I)
    weights, r = (w.uniform(name, -reach, reach, rows * G * H, terms) for name, rows, terms in (("w", D, I), ("r", L * D, H)))
    bias = w.uniform("bias", -reach, reach, *((L * D, 2, G * H) if cell == "gru" else (L * D * G * H,)))
    state = [w.normal(name, L * D, B, H) for name in (("h0", "c0") if cell == "lstm" else ("h0",))]
    above = w.uniform("w_above", -reach, reach, L - 1, D * G * H, D * H) if L > 1 else []

    flat = []
    for number in range(L * D):  # a direction of a layer
        layer, d = divmod(number, D)
        rows, part = (slice(at * G * H, (at + 1) * G * H) for at in (d, number))
        both = [bias[number, 0], bias[number, 1]] if cell == "gru" else [bias[part], torch.zeros(G * H, dtype=w.t)]
        of_input = weights[rows] if layer == 0 else above[layer - 1, rows]
        flat += [_swapped(v, cell, H).contiguous() for v in [of_input, r[part]] + both]
    run = getattr(torch._VF, cell)
    padded = _lengths(w, B, T) if w.p("padded", 0) else None

    def function(x, *rest):
        state, flat = rest[:len(rest) - 4 * L * D], rest[len(rest) - 4 * L * D:]
        if padded is not None:
            return _packed(run, padded, x, state, flat, T, L, D, dropout)
        return run(x, list(state) if cell == "lstm" else state[0], list(flat), True, L, dropout, torch.is_grad_enabled(), D == 2, False)
    return function, (x, *state, *flat)


def _lengths(w, B, T):
    """The lengths that Duet draws: evenly from T to 1, not in this order."""
    stride = max(1, B * 5 // 8)
    while math.gcd(stride, B) > 1:
        stride += 1
    ranks = [(b * stride + B // 2) % B for b in range(B)]
    return w.given("lengths", torch.tensor([max(1, T - (T - 1) * rank // max(1, B - 1)) for rank in ranks], dtype=torch.int32))


def _packed(run, lengths, x, state, flat, T, L, D, dropout):
    """As torch.nn.LSTM has it: the batch sorted and packed, computed, padded again."""
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths.clamp(1, T), enforce_sorted=False)
    state = [v.index_select(1, packed.sorted_indices) for v in state]
    y, *last = run(packed.data, packed.batch_sizes, state if len(state) == 2 else state[0], list(flat), True, L, dropout,
                   torch.is_grad_enabled(), D == 2)
    result = torch.nn.utils.rnn.PackedSequence(y, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
    y, _ = torch.nn.utils.rnn.pad_packed_sequence(result, total_length=T)
    return (y, *(v.index_select(1, packed.unsorted_indices) for v in last))


@op("rnn_tanh", "gru", "lstm", backward="{}_backward")
def recurrent(w, cell):
    function, args = _layers(w, cell)
    w.p("last_only", 0)
    outputs = "y hT cT" if cell == "lstm" else "y hT"
    if w.p("inference", 0):
        w.form(cell + ", inference", lambda: function(*args), outputs)
    else:  # the pass of training keeps what its backward pass needs; PyTorch is then slower
        training = [v.detach().requires_grad_() for v in args]
        w.form(cell, lambda: [v.detach() for v in function(*training)], outputs, gradients=True)
    w.pair(function, args, len(args))


@op("rnn_tanh_training", "gru_training", "lstm_training")
def recurrent_training(w, name):
    """The forward pass and autograd's backward pass behind it."""
    cell = name.removesuffix("_training")
    dropout, L, D = w.p("dropout", 0.0), w.p("layers", 1), 2 if w.p("bidirectional", 0) else 1
    w.p("seed", 0)
    w.random = dropout > 0 and L > 1
    function, args = _layers(w, cell, L, dropout)
    leaves = [v.detach().requires_grad_() for v in args]
    made = function(*args)
    states = ["h", "c"] if cell == "lstm" else ["h"]
    seeds = [w.normal(given, *v.shape) for given, v in zip(["dy"] + [f"d{s}T" for s in states], made)]

    def both():
        result = function(*leaves)
        gradients = torch.autograd.grad(result, leaves, seeds)
        of_inputs, of_weights = gradients[:1 + len(states)], gradients[1 + len(states):]
        return [*(v.detach() for v in result), *of_inputs, *(in_place(of_weights) if w.checking else of_weights)]

    def in_place(flat):  # as Duet has the gradients of the weights
        dw, dr, of_w, of_r = ([_swapped(v, cell, w.p("H")) for v in flat[i::4]] for i in range(4))
        dbias = torch.stack([torch.stack(pair) for pair in zip(of_w, of_r)]) if cell == "gru" else torch.cat(of_w)
        above = [torch.stack([torch.cat(dw[l * D:(l + 1) * D]) for l in range(1, L)])] if L > 1 else []
        return torch.cat(dw[:D]), torch.cat(dr), dbias, *above
    outputs = ["y"] + [s + "T" for s in states] + ["dx"] + [f"d{s}0" for s in states]
    of_weights = ["dw", "dr", "dbias"] + ["dw_above"] * (L > 1) if w.checking else ["-"] * (len(leaves) - 1 - len(states))
    w.form("autograd", both, " ".join(outputs + of_weights), gradients=True)


@op("rnn_tanh_backward", "gru_backward", "lstm_backward")
def recurrent_backward(w, name):
    cell = name.removesuffix("_backward")
    function, args = _layers(w, cell)
    last = bool(w.p("last_only", 0))
    w.pair(function, args, len(args))
    w.random = True  # reserve, which Duet reads, has a form of its own in PyTorch
    states = ["dhT", "dcT"] if cell == "lstm" else ["dhT"]
    if last:
        w.pair(lambda *args: function(*args)[1:], args, len(args))
    backward_of(w, "", states if last else ["dy"] + states)
