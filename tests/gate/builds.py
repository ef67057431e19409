#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""duet gate with real builds: bench_all against itself is fine, and duet_slow_bench (slow_bench.cpp), whose relu takes a
quarter longer, is told with that row alone. Where the machine is so busy that the gate leaves the slowed row undecided,
the test is skipped: it must not fail by the times of others. By its own rule a gate on times is wrong now and then, so a
wrong verdict on times must come three times in a row. Counts are exact. DUET_BIN: the folder of the programs."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

BIN = os.environ.get("DUET_BIN", "build/bin")
BENCH, SLOW = f"{BIN}/bench_all", f"{BIN}/duet_slow_bench"
JOBS = ["--filter", "cpu.tuned", "--device", "cpu"]
for op in ("relu", "tanh"):  # tens of microseconds each, so that two readings of the clock add little
    JOBS += ["--case", f"{op}/n:262144"]
SHORT = ["--min-time", "0.005", "--repetitions", "3"]


class Wrong(Exception):
    pass


def gate(head, options, wanted, jobs=JOBS):
    """{row: [verdict, ratio]}"""
    with tempfile.TemporaryDirectory() as folder:
        no_noise = f"{folder}/noise.json"
        with open(no_noise, "w") as file:
            json.dump({"duet_noise": 1, "machines": {}}, file)
        result = f"{folder}/gate.json"
        done = subprocess.run([f"{BIN}/duet", "gate", "--base", BENCH, "--head", head, *jobs, "--budget", "10min", "--noise",
                               no_noise, "--json", result, "--all", *options], text=True, capture_output=True)
        rows = []
        if os.path.exists(result):
            with open(result) as file:
                rows = json.load(file)["rows"]
        if done.returncode == 0 and wanted == 1 and any(r["verdict"] == "AMBIGUOUS" and "relu" in r["job"] for r in rows):
            print(f"skipped: too busy a machine to decide\n{done.stdout}")
            sys.exit(77)
        if done.returncode != wanted:
            raise Wrong(f"{head} {' '.join(options)}: status {done.returncode}, not {wanted}\n{done.stdout}{done.stderr}")
    print(f"{os.path.basename(head)} {' '.join(options)}: status {wanted}", flush=True)
    return {r["job"]: [r["verdict"], r["ratio"]] for r in rows}


def check_slowed(rows, verdict, least, most):
    for job, (found, ratio) in rows.items():
        if found not in ([verdict] if job.startswith("relu/") else ["SAME", "AMBIGUOUS"]):
            raise Wrong(f"{job} is {found}: {rows}")
        if job.startswith("relu/") and not least < ratio["value"] < most:
            raise Wrong(f"{job} takes {ratio}, not {least} to {most}")


def same_program():
    same = gate(BENCH, SHORT, 0)
    if len(same) != 2 or any(verdict == "SLOWER" for verdict, _ in same.values()):
        raise Wrong(f"the same program: {same}")


def slowed_program():
    check_slowed(gate(SLOW, SHORT, 1), "SLOWER", 1.1, 1.5)


def counted_programs():
    counts = gate(SLOW, ["--metric", "instructions"], 1)
    check_slowed(counts, "SLOWER", 1.01, float("inf"))  # tanh, which both builds have, has equal counts
    if any(ratio["value"] != 1 for job, (_, ratio) in counts.items() if job.startswith("tanh/")):
        raise Wrong(f"instructions of an unchanged job differ: {counts}")


def counted_kernels():
    """Some of the blocks run, and the second kernel reads what all of them write; the study's row has no kernel."""
    jobs = ["--device", "gpu", "--filter", "^(accuracy/cuda.naive/f32/rows:256/cols:1000/k:5|study/transfer/cuda.kernel/f32/n:4194304)$"]
    rows = gate(BENCH, ["--metric", "kernels"], 0, jobs)
    if not rows or any(verdict != "SAME" or ratio["value"] != 1 for verdict, ratio in rows.values()):
        raise Wrong(f"the same kernels: {rows}")


def attempt(check, attempts):
    for left in reversed(range(attempts)):
        try:
            return check()
        except Wrong as wrong:
            print(f"{'again' if left else 'FAILED'}: {wrong}", flush=True)
    sys.exit(1)


attempt(same_program, 3)
attempt(slowed_program, 3)
if shutil.which("valgrind"):
    attempt(counted_programs, 1)
else:
    print("skipped: counts of instructions (no valgrind)")
profile = subprocess.run([f"{BIN}/duet", "kernel-profile", "accuracy/cuda.naive/f32/rows:2/cols:4"], capture_output=True)
if profile.returncode == 77:
    print(f"skipped: counts of kernels ({profile.stderr.decode().strip()})")
else:
    attempt(counted_kernels, 1)
print("passed")
