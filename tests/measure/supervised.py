#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What does it cost that bench_all measures in a worker process under a supervisor? By hand: it takes minutes.

supervised.py [--starts N] [--pairs N] [--filter REGEX] [--quick-s SECONDS]
  A supervisor costs the start of a second process, and what it does itself while a worker measures. Both are far below
  the noise of whole runs, so they are measured by themselves: the start as the difference of N pairs of a run of one
  short row, with --in-process and without; the work of the supervisor by the processor time that the kernel accounts
  to it. Both together are compared with a quick run of so many seconds.
  Then it runs bench_all N times as it is and N times with --in-process, in turns, each pair in the other order. It
  prints the ratio of both for the time of the run, its CPU time and the times of its rows: the median over the pairs,
  and the range of those of the same way of running divided by each other, which is noise.
  DUET_BIN: the folder of the programs.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN = os.environ.get("DUET_BIN", "build/bin")


def run(arguments, in_process):
    """(wall seconds, CPU seconds, share of a core of the first process once it runs) of one run. Its first second is
    left out: that is its start, which starts() measures."""
    command = [f"{BIN}/bench_all", *arguments] + ["--in-process"] * in_process
    start = time.monotonic()
    ran = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    own = []  # (seconds, CPU seconds of the first process)
    while True:
        try:
            used = int(Path(f"/proc/{ran.pid}/schedstat").read_text().split()[0]) * 1e-9
        except (OSError, IndexError):
            used = 0
        if used and time.monotonic() - start > 1:
            own.append((time.monotonic(), used))
        pid, status, usage = os.wait4(ran.pid, os.WNOHANG)
        if pid:
            break
        time.sleep(0.01)
    ran.returncode = os.waitstatus_to_exitcode(status)
    if ran.returncode != 0:
        sys.exit(f"supervised.py: {' '.join(command)}: exit status {ran.returncode}")
    share = (own[-1][1] - own[0][1]) / (own[-1][0] - own[0][0]) if len(own) > 1 else 0
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, share


def measure(path, filter_, in_process):
    """(wall seconds, CPU seconds, {row: seconds}, share of a core of the supervisor) of one run."""
    wall, cpu, share = run(["--scale", "quick", "--device", "cpu", "--filter", filter_, f"--json={path}"], in_process)
    jobs = json.loads(Path(path).read_text())["duet"]["jobs"]
    rows = {j["name"]: s["summary"]["median_s"] for j in jobs for s in j["series"]}
    return wall, cpu, rows, share


def starts(path, pairs):
    """Medians of what a supervisor adds to a run of one short row: (wall seconds, CPU seconds)."""
    one = ["--case", "relu n:64", "--impl", "cpu.tuned", "--times-only", "--scale", "smoke", f"--json={path}"]
    added = []
    for i in range(pairs):
        of = {}
        for in_process in (False, True) if i % 2 == 0 else (True, False):
            of[in_process] = run(one, in_process)
        added.append([of[False][k] - of[True][k] for k in (0, 1)])
    return [statistics.median(a[k] for a in added) for k in (0, 1)]


def geometric_mean(values):
    return math.exp(statistics.mean(math.log(v) for v in values))


def ratio_of_rows(a, b):
    return geometric_mean([a[name] / b[name] for name in a if name in b])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=40, help="pairs of runs of one short row (default 40)")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--quick-s", type=float, default=150, help="of a quick run (default 150)")
    parser.add_argument("--filter", default="^(relu|softmax|gemm|layernorm|sgd)/")
    args = parser.parse_args()
    if args.pairs == 1 or args.pairs < 0 or args.starts < 1:
        parser.error("--pairs is 0 (none), or 2 and more, since noise is between pairs; --starts is at least 1")
    runs = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        wall, cpu = starts(f"{folder}/run.json", args.starts)
        print(f"start: {1e3 * wall:.1f} ms, {1e3 * cpu:.1f} ms of CPU more than in process (median of {args.starts} "
              "pairs)", flush=True)
        for i in range(args.pairs):
            for in_process in (False, True) if i % 2 == 0 else (True, False):
                runs[in_process].append(measure(f"{folder}/run.json", args.filter, in_process))
            supervised, alone = runs[False][-1], runs[True][-1]
            print(f"pair {i + 1}: supervised {supervised[0]:.2f} s, {supervised[1]:.2f} s of CPU; in process "
                  f"{alone[0]:.2f} s, {alone[1]:.2f} s of CPU; rows {ratio_of_rows(supervised[2], alone[2]):.4f}",
                  flush=True)
    if not args.pairs:
        return 0
    share = statistics.median(share for *_, share in runs[False])
    cost = share + wall / args.quick_s
    print(f"\nsupervisor: {1e3 * share:.2f} ms of CPU a second; with its start {100 * cost:.3f} % of {args.quick_s:g} s")
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
