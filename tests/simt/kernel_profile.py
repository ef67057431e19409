#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the static profile of the tuned kernels with tests/simt/kernel_profile.json: a ratchet.

The test fails where a kernel requests more sectors of global memory or more wavefronts of shared memory than the file says,
until the file is changed on purpose:  kernel_profile.py --update  (DUET_BIN: the folder of the programs).
"""
import copy
import json
import os
import subprocess
import sys
from pathlib import Path

GOLDEN = Path(__file__).with_suffix(".json")
REGISTRY = Path(__file__).parents[2] / "ops" / "registry_golden.txt"
SLACK = 1.02  # another version of g++ may keep a load that this one drops
COUNTERS = [("global", "load", "sectors"), ("global", "store", "sectors"), ("global", "atomic", "sectors"),
            ("shared", "load", "wavefronts"), ("shared", "store", "wavefronts")]


def profiles(jobs):
    """{job: what the golden file keeps of its profile}."""
    done = subprocess.run([os.path.join(os.environ["DUET_BIN"], "duet"), "kernel-profile", *jobs], capture_output=True, text=True)
    if done.returncode == 77:
        print("skipped:", done.stderr.strip())
        sys.exit(77)
    if done.returncode:
        sys.exit(f"duet kernel-profile: {done.stderr}")
    all_of_them = json.loads(done.stdout)
    assert [full["job"] for full in all_of_them] == list(jobs)
    return {full["job"]: kept(full) for full in all_of_them}


def kept(full):
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


def worse(job, got, want):
    """What `got` requests more than `want`, in words."""
    if [k["kernel"] for k in got["kernels"]] != [k["kernel"] for k in want["kernels"]]:
        return [f"{job}: kernels {[k['kernel'] for k in got['kernels']]}"]
    found = []
    for name in ("bytes_read", "bytes_written"):
        if got[name] > want[name]:
            found.append(f"{job}: {name} {got[name]}, was {want[name]}")
    for k, w in zip(got["kernels"], want["kernels"]):
        if k["warp_efficiency"] < w["warp_efficiency"] / SLACK:
            found.append(f"{job}: {k['kernel']}: warp efficiency {k['warp_efficiency']}, was {w['warp_efficiency']}")
        for name, value in k.items():
            if isinstance(value, list) and value[0] > SLACK * w.get(name, [0, 0])[0]:
                found.append(f"{job}: {k['kernel']}: {name} {value[0]} (ideal {value[1]}), was {w.get(name)}")
    return found


def unseen(golden):
    """Counters of which twice as many would pass: every one must turn the test red."""
    missed = []
    for job, want in golden.items():
        for i, kernel in enumerate(want["kernels"]):
            for name, value in kernel.items():
                if isinstance(value, list):
                    got = copy.deepcopy(want)
                    got["kernels"][i][name][0] *= 2
                    if not worse(job, got, want):
                        missed.append(f"{job}: {kernel['kernel']}: twice as many {name} would pass")
    return missed


def missing(golden):
    """Ops with a tuned kernel, other than studies, that have no line."""
    have = {job.split("/")[0] for job in golden}
    lines = [line.split() for line in REGISTRY.read_text().splitlines() if not line.startswith("#")]
    return [f"{op}: no job in {GOLDEN.name}" for op, name in lines if name == "simt.tuned" and not op.startswith("study/") and op not in have]


golden = json.loads(GOLDEN.read_text())
if sys.argv[1:] == ["--update"]:
    rows = ",\n".join(f" {json.dumps(job)}:\n  {json.dumps(row)}" for job, row in profiles(golden).items())
    GOLDEN.write_text("{\n" + rows + "\n}\n")
    sys.exit(0)
faults = unseen(golden) + missing(golden)
for job, got in profiles(golden).items():
    faults += worse(job, got, golden[job])
print("\n".join(faults) or f"{len(golden)} jobs request no more than the file says")
sys.exit(bool(faults))
