#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_all's GPU half on the CUDA device in software (bench_all_softgpu). DUET_BIN: the folder of the programs.

Every row must end as it should, and the rows behind a failing one must run: a run without faults, a kernel that does
not end, and an allocation of the device that fails, at points that are spread over the run. A run file must not be
written.
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
    """Exit status, rows as {name: (status, reason)}, and everything that was printed."""
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


def rows_of_a_run():
    status, rows, text = run(*CASES)
    check(status == 0, f"a run without faults ends with {status}: {text[-3000:]}")
    ran = [name for name, (state, _) in rows.items() if state == "ok"]
    check(len(ran) >= 6 and any(name.startswith("step/mlp/gpu.graph") for name in ran) and
          any(name.startswith("step/mlp/gpu/") for name in ran), f"only {ran} of {rows}")
    for name, (state, reason) in rows.items():
        check(state in ("ok", "skipped") and (state == "ok" or reason), f"{name}: {state}: {reason}")
    return set(rows), ran


def main():
    refuses_a_run_file()
    known, ran = rows_of_a_run()

    # A kernel that does not end loses the device, for its own row only. A budget of instructions makes endless kernels
    # of those of the optimiser.
    status, rows, text = run(*CASES, DUET_SOFTGPU_BUDGET="3000")
    failed = {name: reason for name, (state, reason) in rows.items() if state == "failed"}
    check(status == 1, f"with a kernel that does not end: status {status}: {text[-3000:]}")
    check(sorted(failed) == sorted(name for name in ran if name.startswith("step/")), f"failed: {sorted(failed)}")
    check(set(rows) == known, f"rows are missing: {sorted(known - set(rows))}, or new: {sorted(set(rows) - known)}")
    for name, reason in failed.items():
        check("launch failure" in reason and "the kernel does not end" in reason, f"{name}: {reason}")

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
    print(f"{len(ran)} rows; {len(failed)} failed with a kernel that does not end; {hits} allocations that failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
