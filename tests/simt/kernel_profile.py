#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the static profile of the tuned kernels with tests/simt/kernel_profile.json: a ratchet.

The test fails where a kernel requests more sectors of global memory or more wavefronts of shared memory than the file says,
until the file is changed on purpose:  kernel_profile.py --update  (DUET_BIN: the folder of the programs).
"""
import json
import os
import subprocess
import sys
from pathlib import Path

GOLDEN = Path(__file__).with_suffix(".json")
SLACK = 1.02  # another version of g++ may keep a load that this one drops
COUNTERS = [("global", "load", "sectors"), ("global", "store", "sectors"), ("global", "atomic", "sectors"),
            ("shared", "load", "wavefronts"), ("shared", "store", "wavefronts")]


def profile(job):
    done = subprocess.run([os.path.join(os.environ["DUET_BIN"], "duet"), "kernel-profile", job], capture_output=True, text=True)
    if done.returncode == 77:
        print("skipped:", done.stderr.strip())
        sys.exit(77)
    if done.returncode:
        sys.exit(f"{job}: {done.stderr}")
    full = json.loads(done.stdout)
    kernels = []
    for k in full["kernels"]:
        row = {"kernel": k["kernel"]}
        for space, op, unit in COUNTERS:
            if k[space][op]["requests"]:
                row[f"{space}_{op}_{unit}"] = [k[space][op][unit], k[space][op][unit + "_ideal"]]
        row["warp_efficiency"] = k["warp_efficiency"]
        kernels.append(row)
    return {"contract_bytes": full["contract_bytes"], "bytes_read": full["bytes_read"], "bytes_written": full["bytes_written"],
            "kernels": kernels}


golden = json.loads(GOLDEN.read_text())
if sys.argv[1:] == ["--update"]:
    rows = ",\n".join(f" {json.dumps(job)}:\n  {json.dumps(profile(job))}" for job in golden)
    GOLDEN.write_text("{\n" + rows + "\n}\n")
    sys.exit(0)
worse = []
for job, want in golden.items():
    got = profile(job)
    if [k["kernel"] for k in got["kernels"]] != [k["kernel"] for k in want["kernels"]]:
        worse.append(f"{job}: kernels {[k['kernel'] for k in got['kernels']]}")
        continue
    for name in ("bytes_read", "bytes_written"):
        if got[name] > want[name]:
            worse.append(f"{job}: {name} {got[name]}, was {want[name]}")
    for k, w in zip(got["kernels"], want["kernels"]):
        if k["warp_efficiency"] < w["warp_efficiency"] / SLACK:
            worse.append(f"{job}: {k['kernel']}: warp efficiency {k['warp_efficiency']}, was {w['warp_efficiency']}")
        for name, value in k.items():
            if isinstance(value, list) and value[0] > SLACK * w.get(name, [0, 0])[0]:
                worse.append(f"{job}: {k['kernel']}: {name} {value[0]} (ideal {value[1]}), was {w.get(name)}")
print("\n".join(worse) or f"{len(golden)} jobs request no more than the file says")
sys.exit(bool(worse))
