# SPDX-License-Identifier: Apache-2.0
"""Memory of a training step in PyTorch: a process of its own runs nothing but the step and prints, as JSON, the largest growth
of its resident set in bytes over what remains after the same step with one sample (code, threads, caches)."""
import ctypes
import gc
import json
import os
import subprocess
import sys

FORMS = ("eager", "eager channels_last")  # memory that a compiler needs is not part of a step
STEPS = 3                                 # the optimiser allocates its state in the first
TIMEOUT_S = 300


def of_case(case, form):
    """(bytes, "") of a request of turn.py in a form of forms/steps.py, or (None, reason)."""
    asked = json.dumps({"op": case["op"], "dtype": case["dtype"], "params": case["params"], "form": form if form in FORMS else FORMS[0]})
    folder = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    # Plain malloc: an allocator that keeps freed memory for speed would count it.
    env = {k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"}
    try:
        done = subprocess.run([sys.executable, "-B", "-m", "pytorch.peak", asked], cwd=folder, env=env, capture_output=True,
                              text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return None, f"not done after {TIMEOUT_S} s"
    try:
        return int(json.loads(done.stdout)["bytes"]), ""
    except (ValueError, KeyError, TypeError):
        return None, (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1][:100]


def resident_bytes(member):
    """VmRSS: now. VmHWM: the maximum since the mark was last reset."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(member + ":"))


def run(asked, params):
    from pytorch import measure
    made = measure.build(asked["op"], params, asked["dtype"])
    form = next(form for form in made.forms + made.late if form.name == asked["form"])
    step = form.call() if form in made.late else form.call
    for _ in range(STEPS):
        step()


def main():
    asked = json.loads(sys.argv[1])
    import torch
    torch.set_flush_denormal(True)
    run(asked, asked["params"] | {"batch": 1})
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = resident_bytes("VmRSS")
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # resets the mark to what is resident now
    except OSError as error:
        sys.exit(f"the mark of the resident set cannot be set: {error.strerror}")
    run(asked, asked["params"])
    print(json.dumps({"bytes": max(0, resident_bytes("VmHWM") - before)}))


if __name__ == "__main__":
    main()
