#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How steady are shares of the roof beside a neighbour that streams through memory? By hand: it takes minutes.

beside_memory.py [--runs N] [--filter REGEX]
  Runs bench_all N times beside stress_memory, and after each of these runs once alone. For each row: how far its time
  and its share of the roof lie apart; at the end, how many shares are within 5 points of their row's median. Exit
  status 1 where a share of the runs beside stress_memory that is stated as one number is further off, or where a row
  is called suspect. Shares that a report shows as a range or as disturbed are counted as withheld. DUET_BIN: the
  folder of the programs.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

BIN = os.environ.get("DUET_BIN", "build/bin")
MAX_OFF = 0.05  # of the roof
MAX_SPREAD, MAX_DISTURBED_SPREAD = 0.1, 0.05  # results/rules.h: beyond it a report shows a range
MAX_SHARE = 1.03  # results::kSuspectFraction: beyond it a share is shown only where it accuses the row


def measure(path, filter_, beside):
    """{row: (seconds, share, whether it is suspect, whether the share is withheld)} of one run."""
    neighbour = subprocess.Popen([f"{BIN}/stress_memory", "3600"]) if beside else None
    try:
        command = [f"{BIN}/bench_all", "--scale", "quick", "--device", "cpu", "--filter", filter_, f"--json={path}"]
        ran = subprocess.run(command, stdout=subprocess.DEVNULL)
    finally:
        if neighbour:
            neighbour.kill()
            neighbour.wait()
    if ran.returncode != 0:
        sys.exit(f"beside_memory.py: {' '.join(command)}: exit status {ran.returncode}")
    rows = {}
    with open(path) as file:
        run = json.load(file)["duet"]
    for job in run["jobs"]:
        for s in job["series"]:
            if s["roof"]:
                roof = s["roof"]
                disturbed = "disturbed" in s["flags"]
                max_spread = MAX_DISTURBED_SPREAD if disturbed else MAX_SPREAD
                withheld = roof["hi"] - roof["lo"] > max_spread
                if roof["fraction"] > MAX_SHARE:
                    withheld |= disturbed or (roof["source"] == "adjacent" and not roof["quiet"])
                rows[job["name"]] = (s["summary"]["median_s"], roof["fraction"], "suspect" in s["flags"], withheld)
    print(f"{'beside' if beside else 'alone':6}: {len(rows)} rows, the run is {run['run']['trust']}", flush=True)
    return rows


def distances(shares, withheld):
    """Of the shares that are stated as one number: how far each is from the median of all."""
    middle = statistics.median(shares)
    return [abs(share - middle) for share, held_back in zip(shares, withheld) if not held_back]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--filter", default="^(add|copy|sum|gemm)/")
    args = parser.parse_args()
    beside, alone = [], []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(args.runs):
            beside.append(measure(f"{folder}/{i}.json", args.filter, True))
            alone.append(measure(f"{folder}/{i}_alone.json", args.filter, False))
    print(f"\n{'row':56} {'time beside / alone':>19}  {'slowest / fastest':>17}  shares beside: median, off, withheld; alone")
    unsteady = suspect = all_withheld = 0
    stated, stated_alone = [], []
    for name in beside[0]:
        times, shares, suspicions, withheld = zip(*[run[name] for run in beside if name in run])
        times_alone, shares_alone, _, withheld_alone = zip(*[run[name] for run in alone if name in run])
        middle = statistics.median(shares)
        off = max(distances(shares, withheld), default=0)
        stated += distances(shares, withheld)
        stated_alone += distances(shares_alone, withheld_alone)
        all_withheld += sum(withheld)
        unsteady += off > MAX_OFF
        suspect += sum(suspicions)
        ratio = statistics.median(times) / statistics.median(times_alone)
        spread = max(times + times_alone) / min(times + times_alone)
        print(f"{name:56} {ratio:19.2f}  {spread:17.2f}  {100 * middle:5.1f} % {100 * off:5.1f}{'!' if off > MAX_OFF else ' '}"
              f" {sum(withheld):2}"
              f"  {100 * statistics.median(shares_alone):5.1f} %{'  SUSPECT' if any(suspicions) else ''}")
    print(f"\n{len(beside[0])} rows in {args.runs} runs: {unsteady} with a share more than {100 * MAX_OFF:.0f} points off "
          f"its median, {suspect} suspect, {all_withheld} shares withheld")
    for label, all_of_them in (("beside", stated), ("alone", stated_alone)):
        near = sum(off <= MAX_OFF for off in all_of_them)
        print(f"{label:6}: {near} of {len(all_of_them)} shares stated as one number are within "
              f"{100 * MAX_OFF:.0f} points of their row's median")
    return 1 if unsteady or suspect else 0


if __name__ == "__main__":
    sys.exit(main())
