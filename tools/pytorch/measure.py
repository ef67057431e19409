# SPDX-License-Identifier: Apache-2.0
"""Runs the cases in PyTorch, every form of each, and keeps the fastest."""
import contextlib
import gc
import sys

import torch

from pytorch import clock, forms, peak

COMPILE_S = 300  # limit for torch.compile


def one_case(case, min_time_s, compiled):
    row = {"case": case.name(), "op": case.op, "dtype": case.dtype, "duet": case.implementation, "duet_s": case.seconds,
           "duet_disturbed": case.disturbed}
    if case.op not in forms.FORMS:
        return dict(row, reason="no counterpart written")
    gradients = contextlib.nullcontext() if case.op in forms.WITH_GRADIENTS else torch.no_grad()
    best, reason = None, ""
    try:
        with gradients:
            for form, call in forms.FORMS[case.op](case.params, forms.TYPES[case.dtype]).items():
                if form == "compile" and not compiled:
                    continue
                try:
                    with clock.limit(COMPILE_S if form == "compile" else 0):
                        if form in forms.LATE:
                            call = call()
                        if form == "compile":
                            call()  # the compilation
                    timed = clock.measure(call, min_time_s)
                except Exception as error:  # one form may be missing in this version while another is there
                    reason = f"{form}: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:100]}"
                    continue
                if best is None or timed["seconds"] < best["seconds"]:
                    best = dict(timed, form=form)
    except Exception as error:  # out of memory, or an attribute not known here: a row with its reason
        reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:100]}"
    if best is None:
        return dict(row, reason=reason)
    row = dict(row, torch=best["form"], torch_s=best["seconds"], torch_min_s=best["min_s"], samples=best["samples"],
               clean=best["clean"], torch_disturbed=best["disturbed"], ratio=best["seconds"] / case.seconds)
    return with_peaks(row, case) if case.peak_memory_bytes else row


def with_peaks(row, case):
    """A step's memory beside its time."""
    held, reason = peak.of_case(case, row["torch"])
    row = dict(row, duet_peak_bytes=case.peak_memory_bytes)
    return dict(row, torch_peak_bytes=held, peak_ratio=held / case.peak_memory_bytes) if held else dict(row, peak_reason=reason)


def all_cases(cases, threads, min_time_s, compiled):
    rows = []
    for i, case in enumerate(cases):
        print(f"[{i + 1}/{len(cases)}] {case.name()}", file=sys.stderr, flush=True)
        rows.append(dict(one_case(case, min_time_s, compiled), threads=threads))
        gc.collect()  # the next case may need the memory
    return rows
