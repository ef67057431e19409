#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_all's GPU half on the CUDA device in software (bench_all_softgpu). DUET_BIN: the folder of the programs.

Every row must end as it should, and the rows behind a failing one must run: a run without faults; a kernel that does
not end, that traps, or that follows a bad pointer; a process that crashes while it launches one; and an allocation of
the device that fails, each in turn. A run file must not be written.
"""
import os
import re
import subprocess
import sys
import tempfile

BIN = os.environ.get("DUET_BIN", "build/bin")
CASES = ["--case", "relu n:1000", "--case", "softmax rows:3 cols:31", "--case", "sum rows:5 cols:70 axis:1",
         "--case", "step/mlp batch:2"]
COMMAND = [BIN + "/bench_all_softgpu", "--device", "gpu", "--scale", "smoke", "--repetitions", "1", "--min-time",
           "0.0001", "--seed", "1"]
failures = []


def check(condition, message):
    if not condition:
        failures.append(message)
        print("FAILED:", message, flush=True)
    return condition


def run(*args, **environment):
    """Exit status, rows as {name: (status, reason)}, and everything that was printed: also series and checks."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(COMMAND + list(args), capture_output=True, text=True, timeout=280,
                              env={**os.environ, "TMPDIR": folder, **environment})
        check(os.listdir(folder) == [], f"left {os.listdir(folder)} behind")
    rows = {}
    for line in done.stdout.splitlines():
        found = re.match(r"row (\S+) (\S+) ?(.*)", line)
        if found:
            rows[found[1]] = (found[2], found[3])
    return done.returncode, rows, done.stdout + done.stderr


def refuses_a_run_file():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.json")
        for option in ("--json=" + path, "--json", "--benchmark_out=" + path, "--aa=3", "--noise=" + path):
            done = subprocess.run([COMMAND[0], option], capture_output=True, text=True, timeout=60)
            check(done.returncode == 2 and "it times nothing" in done.stderr and done.stderr.count("\n") == 1,
                  f"{option}: status {done.returncode}: {done.stderr}")
            check(os.listdir(folder) == [], f"{option} wrote {os.listdir(folder)}")


def says_why_an_op_has_no_overlap():
    status, rows, text = run("--case", "relu n:1000", "--scope", "overlapped")
    check(status == 77 and rows and all("overlapped is one of steps and inferences" in why for _, why in rows.values()),
          f"status {status}: {rows}")


def a_run_that_synchronises_is_flagged():
    # The kernel that blocks the queue waits in vain for the host, until it gives up by the clock.
    name = "study/transfer/cuda.runtime"
    status, rows, text = run("--case", "study/transfer n:1024")
    flags = [f for series, f in re.findall(r"^series (\S+) kernel \S+ ?(.*)$", text, re.M) if series.startswith(name)]
    check(status == 0 and flags and any("synchronises" in f for f in flags), f"status {status}: {rows}: {flags}")


def rows_of_a_run():
    status, rows, text = run(*CASES)
    check(status == 0, f"a run without faults ends with {status}: {text[-3000:]}")
    ran = [name for name, (state, _) in rows.items() if state == "ok"]
    check(len(ran) >= 6 and any(name.startswith("step/mlp/gpu.graph") for name in ran) and
          any(name.startswith("step/mlp/gpu/") for name in ran), f"only {ran} of {rows}")
    for name, (state, reason) in rows.items():
        check(state in ("ok", "skipped") and (state == "ok" or reason), f"{name}: {state}: {reason}")
    check("journal left" not in text, "the journal of a finished run was not removed")
    for name in ran:
        series = re.findall(rf"^series {re.escape(name)} (\S+) (\S+) ?(.*)$", text, re.M)
        scopes = {(scope, cache) for scope, cache, _ in series}
        # Copies to the device and back, and the device's own time behind the kernel that blocks the queue: where that
        # gives up, a sample is flagged as one that waits.
        for scope in ("kernel", "call", "end_to_end") + (("overlapped",) if name.startswith(("step/", "infer/")) else ()):
            check((scope, "warm") in scopes, f"{name}: no series {scope} among {series}")
        check(not any("synchronises" in flags for _, _, flags in series), f"{name}: {series}")
        compared = re.search(rf"^check {re.escape(name)} (\d+) (\S+)", text, re.M)
        check(compared and int(compared[1]) > 0, f"{name}: nothing was compared")
    return set(rows), ran


def fails_alone(planted, kernel, reason, known, ran):
    """The rows of softmax fail for this reason, and all others run."""
    status, rows, text = run(*CASES, DUET_BENCH_PLANT=f"{planted}:{kernel}")
    failed = {name: why for name, (state, why) in rows.items() if state == "failed"}
    check(status == 1, f"{planted}: status {status}: {text[-3000:]}")
    check(sorted(failed) == sorted(name for name in ran if name.startswith("softmax/cuda.") and "cudnn" not in name),
          f"{planted}: failed are {failed}")
    check(set(rows) == known, f"{planted}: rows are missing: {sorted(known - set(rows))}")
    check(all(rows[name][0] == "ok" for name in ran if name in rows and name not in failed), f"{planted}: {rows}")
    for name, why in failed.items():
        check(re.search(reason, why), f"{planted}, {name}: {why}")
    return len(failed)


def main():
    refuses_a_run_file()
    says_why_an_op_has_no_overlap()
    a_run_that_synchronises_is_flagged()
    known, ran = rows_of_a_run()

    # A kernel that does not end loses the device, for its own row only. A budget of instructions makes endless kernels
    # of those of the optimiser.
    status, rows, text = run(*CASES, DUET_SOFTGPU_BUDGET="12000")
    failed = {name: reason for name, (state, reason) in rows.items() if state == "failed"}
    check(status == 1, f"with a kernel that does not end: status {status}: {text[-3000:]}")
    check(sorted(failed) == sorted(name for name in ran if name.startswith("step/")), f"failed: {sorted(failed)}")
    check(set(rows) == known, f"rows are missing: {sorted(known - set(rows))}, or new: {sorted(set(rows) - known)}")
    for name, reason in failed.items():
        check("launch failure" in reason and "the kernel does not end" in reason, f"{name}: {reason}")

    sticky = [fails_alone("trap", "softmax", "a trap|trap", known, ran),
              fails_alone("address", "softmax", "illegal memory access.*no device memory", known, ran),
              fails_alone("crash", "softmax", "SIGABRT|signal 6|[Aa]bort", known, ran)]

    # Memory of the device runs out at each allocation in turn, of every process of a run.
    max_points, point, hits = 60, 0, 0
    while point < max_points:
        point += 1
        status, rows, text = run(*CASES[:4], DUET_SOFTGPU_FAIL_ALLOCATION=str(point))
        bad = {name: reason for name, (state, reason) in rows.items() if state != "ok"}
        if status == 0 and not bad:
            break
        hits += 1
        check(status in (1, 77), f"allocation {point} fails: status {status}: {text[-3000:]}")
        check(len(bad) <= 1 or point == 1, f"allocation {point} fails, and so do {bad}")
        for name, reason in bad.items():
            check(re.search("memory|no room for", reason), f"allocation {point} fails, {name}: {reason}")
    check(5 <= hits < max_points, f"{hits} allocations failed a row")
    print(f"{len(ran)} rows; {len(failed)} failed with a kernel that does not end, {sticky} by a trap, a bad address "
          f"and a crash; {hits} allocations that failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
