# SPDX-License-Identifier: Apache-2.0
"""Compares what each form returns with Duet's reference, on the small cases of the tests: does the form do the work that the case
names? The inputs are drawn here and given to `duet op --impl reference` as files. Needs torch."""
import json
import os
import subprocess
import sys
import tempfile

import numpy
import torch

from pytorch import clock, forms, measure, run_file, work

MAX_CASES = 3        # of an op
MAX_BYTES = 4e6      # of a case's tensors
MAX_ERROR, MAX_ERROR_BF16 = 2e-4, 5e-3  # of the largest absolute value of the tensor, in f32 and in bf16
DTYPES = ("f32", "i8", "f8e4m3")
ZERO_OPTIONS = ("indexed", "position", "offset")  # what may be 0 in a case that is not empty


def small_cases(duet, op):
    """Labels of test cases without empty dimensions, of unlike attributes first."""
    done = subprocess.run([duet, "list", "--json", "--scale", "test", "--filter", f"^{op}/"], capture_output=True, text=True)
    listed = next((o for o in json.loads(done.stdout) if o["op"] == op), {"cases": []}) if done.returncode == 0 else {"cases": []}
    kept, seen = [], set()
    for case in listed["cases"]:
        dtype, params = run_file.of_label(case["label"])
        empty = any(value == 0 for name, value in params.items() if name not in ZERO_OPTIONS)
        if dtype not in DTYPES or "=" in case["label"] or "math" in params or empty or case["bytes"] > MAX_BYTES:
            continue
        options = (len(params), *sorted(f"{name}:{value}" for name, value in params.items() if not isinstance(value, int)))
        kept.append((max((v for v in params.values() if isinstance(v, int)), default=9) < 4, options in seen, case["label"]))
        seen.add(options)
    return [label for *_, label in sorted(kept, key=lambda entry: entry[:2])]


def reference(duet, op, label, inputs, folder):
    """The outputs of the reference by name."""
    def call(*more):
        done = subprocess.run([duet, "op", op, "--case", label, *more], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip() or f"duet op ended with status {done.returncode}")
        return done.stdout
    tensors = json.loads(call("--describe"))["tensors"]
    given, outputs = [], []
    for tensor in tensors:
        name, path = tensor["name"], os.path.join(folder, tensor["name"])
        if tensor["role"] != "out" and name in inputs:
            numpy.save(path + ".npy", inputs[name].reshape(tensor["shape"]))
            given += ["--in", f"{name}={path}.npy"]
        if tensor["role"] != "in":
            outputs += ["--out", f"{name}={path}.out.npy"]
    call("--impl", "reference", *given, *outputs)
    return {t["name"]: numpy.load(os.path.join(folder, t["name"] + ".out.npy")) for t in tensors if t["role"] != "in"}


def values_of(tensor, nhwc):
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    tensor = tensor.detach()
    if nhwc and tensor.dim() == 4:
        tensor = tensor.permute(0, 2, 3, 1)
    return tensor.double().contiguous().numpy()


def compared(form, got, want, nhwc):
    """Largest error over the form's outputs, as a share of MAX_ERROR or MAX_ERROR_BF16 of the tensor's largest value, and where."""
    got = list(got) if isinstance(got, (tuple, list)) else [got]
    worst, where = 0.0, ""
    for name, tensor in zip(form.outputs, got):
        if name == "-" or tensor is None:
            continue
        expected, value = want[name].astype(numpy.float64), values_of(tensor, nhwc)
        if value.size != expected.size:
            return numpy.inf, f"{name}: {value.shape}, not {expected.shape}"
        value = value.reshape(expected.shape)
        scale = max(float(numpy.max(numpy.abs(expected), initial=0)), 1e-3)
        most = MAX_ERROR_BF16 if tensor.dtype == torch.bfloat16 else MAX_ERROR
        error = float(numpy.max(numpy.abs(value - expected), initial=0)) / (most * scale)
        if not error <= worst:
            worst, where = error, name
    return worst, where


def one_case(duet, op, label, compiled):
    """Rows of the forms; where `compiled` is set, of the compiled ones as well. Each is made anew, from the same random numbers: some
    work in place."""
    dtype, params = run_file.of_label(label)
    rows, index, want = [], 0, None
    while True:
        torch.manual_seed(1)
        made = measure.build(op, params, dtype, checking=True)
        forms_of_case = made.forms + (made.late if compiled else [])
        if index >= len(forms_of_case):
            return rows
        form = forms_of_case[index]
        inputs = {name: as_array(tensor) for name, tensor in made.inputs.items()}
        index += 1
        row = {"case": f"{op}/{label}", "form": form.name}
        try:
            with measure.gradients(form), clock.limit(measure.COMPILE_S if measure.is_compiled(form) else 0):
                got = measure.started(form, form in made.late)()
            if made.random:
                rows.append(dict(row, status="ran", reason="not compared: PyTorch draws other numbers, or keeps another reserve"))
                continue
            if want is None:
                with tempfile.TemporaryDirectory() as folder:
                    want = reference(duet, op, label, inputs, folder)
            error, where = compared(form, got, want, made.nhwc)
        except Exception as error:
            status = "no form" if measure.is_compiled(form) and measure.cannot_be_compiled(error) else "failed"
            rows.append(dict(row, status=status, reason=measure.first_line(error)))
            continue
        rows.append(dict(row, status="right" if error <= 1 else "wrong",
                         reason=f"error {error:.3g} of what is allowed{' in ' + where if where else ''}"))


def as_array(tensor):
    tensor = tensor.detach()
    return (tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16, torch.float8_e4m3fn) else tensor).contiguous().numpy().copy()


def one_op(duet, op, compiled):
    rows, done = [], 0
    for label in small_cases(duet, op):
        try:
            made = one_case(duet, op, label, compiled)
            done += 1
        except work.NoForm as error:
            made = [{"case": f"{op}/{label}", "status": "no form", "reason": str(error)}]
        except Exception as error:
            made = [{"case": f"{op}/{label}", "status": "failed", "reason": measure.first_line(error)}]
            done += 1
        rows += made
        if done == MAX_CASES:
            break
    return rows or [{"case": op, "status": "no case", "reason": "no small case without empty dimensions"}]


def all_ops(request):
    rows = []
    for op in request["ops"]:
        print(op, file=sys.stderr, flush=True)
        if op in forms.ABSENT:
            rows.append({"case": op, "status": "no form", "reason": forms.ABSENT[op]})
        elif op in forms.FORMS:
            rows += one_op(request["check"], op, request["compile"])
    return rows
