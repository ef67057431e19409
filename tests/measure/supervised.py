#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What does it cost that bench_all measures in a worker process under a supervisor? By hand: it takes minutes.

supervised.py [--pairs N] [--filter REGEX]
  Runs bench_all N times as it is and N times with --in-process, in turns, each pair in the other order. Prints the
  ratio of both for the time of the run, its CPU time and the times of its rows: the median over the pairs, and the
  range of those of the same way of running divided by each other, which is noise. DUET_BIN: the folder of the programs.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

BIN = os.environ.get("DUET_BIN", "build/bin")


def measure(path, filter_, in_process):
    """(wall seconds, CPU seconds, {row: seconds}) of one run."""
    before = os.times()
    command = [f"{BIN}/bench_all", "--scale", "quick", "--device", "cpu", "--filter", filter_, f"--json={path}"]
    ran = subprocess.run(command + ["--in-process"] * in_process, stdout=subprocess.DEVNULL)
    after = os.times()
    if ran.returncode != 0:
        sys.exit(f"supervised.py: {' '.join(command)}: exit status {ran.returncode}")
    with open(path) as file:
        jobs = json.load(file)["duet"]["jobs"]
    rows = {j["name"]: s["summary"]["median_s"] for j in jobs for s in j["series"]}
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return after.elapsed - before.elapsed, cpu, rows


def geometric_mean(values):
    return math.exp(statistics.mean(math.log(v) for v in values))


def ratio_of_rows(a, b):
    return geometric_mean([a[name] / b[name] for name in a if name in b])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--filter", default="^(relu|softmax|gemm|layernorm|sgd)/")
    args = parser.parse_args()
    runs = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        for i in range(args.pairs):
            for in_process in (False, True) if i % 2 == 0 else (True, False):
                runs[in_process].append(measure(f"{folder}/run.json", args.filter, in_process))
            supervised, alone = runs[False][-1], runs[True][-1]
            print(f"pair {i + 1}: supervised {supervised[0]:.2f} s, {supervised[1]:.2f} s of CPU; in process "
                  f"{alone[0]:.2f} s, {alone[1]:.2f} s of CPU; rows {ratio_of_rows(supervised[2], alone[2]):.4f}",
                  flush=True)
    print(f"\n{'supervised / in process':24} {'median':>8} {'noise':>18}")
    of = {"time of the run": lambda a, b: a[0] / b[0], "CPU time": lambda a, b: a[1] / b[1],
          "times of rows": lambda a, b: ratio_of_rows(a[2], b[2])}
    for what, ratio in of.items():
        pairs = [ratio(a, b) for a, b in zip(runs[False], runs[True])]
        same = [ratio(a, b) for way in runs.values() for a, b in zip(way, way[1:])]
        print(f"{what:24} {statistics.median(pairs):8.4f} {min(same):8.4f} .. {max(same):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
