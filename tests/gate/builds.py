#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""duet gate with real builds: bench_all against itself is fine, and duet_slow_bench (slow_bench.cpp), whose relu takes a
quarter longer, is told with that row alone. Where the machine is so busy that the gate leaves the slowed row undecided,
the test is skipped: it must not fail by the times of others. DUET_BIN: the folder of the programs."""
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


def gate(head, options, wanted):
    """{row: [verdict, ratio]}"""
    with tempfile.TemporaryDirectory() as folder:
        result = f"{folder}/gate.json"
        done = subprocess.run([f"{BIN}/duet", "gate", "--base", BENCH, "--head", head, *JOBS, "--budget", "10min", "--noise",
                               f"{folder}/none.json", "--json", result, "--all", *options], text=True, capture_output=True)
        rows = []
        if os.path.exists(result):
            with open(result) as file:
                rows = json.load(file)["rows"]
        if done.returncode == 0 and wanted == 1 and any(r["verdict"] == "AMBIGUOUS" and "relu" in r["job"] for r in rows):
            print(f"skipped: too busy a machine to decide\n{done.stdout}")
            sys.exit(77)
        if done.returncode != wanted:
            sys.exit(f"FAILED: {head} {' '.join(options)}: status {done.returncode}, not {wanted}\n{done.stdout}{done.stderr}")
    print(f"{os.path.basename(head)} {' '.join(options)}: status {wanted}", flush=True)
    return {r["job"]: [r["verdict"], r["ratio"]] for r in rows}


def check_slowed(rows, verdict, least, most):
    for job, (found, ratio) in rows.items():
        if found not in ([verdict] if job.startswith("relu/") else ["SAME", "AMBIGUOUS"]):
            sys.exit(f"FAILED: {job} is {found}: {rows}")
        if job.startswith("relu/") and not least < ratio["value"] < most:
            sys.exit(f"FAILED: {job} takes {ratio}, not {least} to {most}")


same = gate(BENCH, SHORT, 0)
if len(same) != 2 or any(verdict == "SLOWER" for verdict, _ in same.values()):
    sys.exit(f"FAILED: the same program: {same}")
check_slowed(gate(SLOW, SHORT, 1), "SLOWER", 1.1, 1.5)
if shutil.which("valgrind"):  # counts: exact, so that tanh, which both builds have, has equal ones
    counts = gate(SLOW, ["--metric", "instructions"], 1)
    check_slowed(counts, "SLOWER", 1.01, float("inf"))
    if any(ratio["value"] != 1 for job, (_, ratio) in counts.items() if job.startswith("tanh/")):
        sys.exit(f"FAILED: instructions of an unchanged job differ: {counts}")
else:
    print("skipped: counts of instructions (no valgrind)")
print("passed")
