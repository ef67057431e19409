# SPDX-License-Identifier: Apache-2.0
"""Runs the cases in PyTorch, every form of each, and keeps the fastest. Needs torch."""
import contextlib
import gc
import sys

import torch

from pytorch import clock, forms, peak, work
from pytorch.run_file import BACKWARD, PACKED

COMPILE_S = 300  # limit for torch.compile


def first_line(error):
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:100]}"


def build(op, params, dtype, checking=False):
    """The Work of a case, its forms made. Throws NoForm where PyTorch has none."""
    forward = op.removesuffix(BACKWARD).removesuffix(PACKED)
    if forward not in forms.FORMS:
        raise work.NoForm(forms.ABSENT.get(forward, "no form written"))
    made = work.Work(params, dtype, checking)
    with torch.no_grad():
        forms.FORMS[forward](made)
        if op.endswith(BACKWARD):
            work.forward_and_backward(made)
    if made.unread():
        raise work.NoForm(f"the form does not know the attribute {', '.join(made.unread())}")
    return made


def gradients(form):
    return contextlib.nullcontext() if form.gradients else torch.no_grad()


def is_compiled(form):
    return form.name.startswith("compile")


def cannot_be_compiled(error):
    """Whether PyTorch says that it compiles no such form; anything else is a failure."""
    return type(error).__name__ in ("Unsupported", "TorchRuntimeError") or "must be a graph constant" in str(error)


def started(form, late):
    """The function that does the form's work once. A compiled form is compiled by its first call."""
    if is_compiled(form):
        torch._dynamo.reset()  # else a second case of the same code is compiled for any shape, and the ninth not at all
    return form.call() if late else form.call


def timed(form, late, min_time_s, before=None):
    with gradients(form):
        with clock.limit(COMPILE_S if is_compiled(form) else 0):
            call = started(form, late)
            if is_compiled(form):
                call()
        return clock.measure(call, min_time_s, before)


def one_case(case, min_time_s, compiled, rank):
    """A row: the fastest form by `rank` (a member of what clock.measure gives) and its seconds, or the reason why there is none."""
    row, best, reason = {"case": case["name"]}, None, ""
    try:
        made = build(case["op"], case["params"], case["dtype"])
        if case["op"].endswith(PACKED) and not any(form.packs for form in made.forms):
            raise work.NoForm("no form packs weights before the clock; Duet without packing has a row")
        for form in made.forms + made.late:
            if is_compiled(form) and not compiled or form.packs and not case["may_pack"]:
                continue
            try:
                got = timed(form, form in made.late, min_time_s, made.bring_back if made.changed else None)
            except Exception as error:  # one form may be missing in this version while another is there
                reason = f"{form.name}: {first_line(error)}"
                continue
            if best is None or got[rank] < best[rank]:
                best = dict(got, form=form.name)
    except work.NoForm as error:
        reason = str(error)
    except Exception as error:  # out of memory, or a value not known here: a row with its reason
        reason = first_line(error)
    if best is None:
        return dict(row, reason=reason)
    row = dict(row, torch=best["form"], torch_s=best["seconds"], torch_min_s=best["min_s"], samples=best["samples"],
               clean=best["clean"], torch_disturbed=best["disturbed"])
    return with_peak(row, case) if case.get("peak_memory_bytes") else row


def with_peak(row, case):
    """A step's memory beside its time."""
    held, reason = peak.of_case(case, row["torch"])
    return dict(row, torch_peak_bytes=held) if held else dict(row, peak_reason=reason)


def all_cases(cases, min_time_s, compiled, rank="seconds"):
    rows = []
    for i, case in enumerate(cases):
        print(f"[{i + 1}/{len(cases)}] {case['name']}", file=sys.stderr, flush=True)
        rows.append(one_case(case, min_time_s, compiled, rank))
        gc.collect()  # the next case may need the memory
    return rows
