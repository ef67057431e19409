#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The JSON output of duet is valid and has the members that its readers rely on. That of every op: tests/cli/op_test.cpp.
source "$(dirname "$0")/common.bash"
command -v python3 > /dev/null || { echo "skipped: no python3 to read JSON with"; exit 77; }

"$duet" op softmax --describe --attr rows=3 --attr cols=31 > describe.json
python3 - << 'PYTHON' || fail "softmax 3 x 31"
import json
d = json.load(open("describe.json"))
assert list(d) == ["op", "formula", "backward", "flops", "bytes", "attributes", "tensors", "implementations"], list(d)
assert (d["flops"], d["bytes"], d["backward"]) == (372, 744, "softmax_backward"), d
assert d["tensors"] == [{"name": n, "role": r, "dtype": "f32", "shape": [3, 31]} for n, r in (("x", "in"), ("y", "out"))], d
PYTHON

"$duet" list --json > list.json || fail "list --json"
"$duet" doctor --json > doctor.json || fail "doctor --json: something is broken: $(cat doctor.json)"
"$duet" op --list > names
python3 - << 'PYTHON' || fail "list or doctor"
import json
names = open("names").read().split()
listed = {p["op"]: p for p in json.load(open("list.json"))}
assert set(listed) <= set(names), set(listed) - set(names)
for p in listed.values():
    assert p["implementations"] and p["cases"], p
    for i in p["implementations"]:
        assert i["built"] or i["reason"], i
d = json.load(open("doctor.json"))
assert len(d["fingerprint"]) == 16
assert {"build", "CPU", "SIMD", "OpenBLAS core"} <= {f["name"] for f in d["found"]}
assert d["broken"] == [], d["broken"]
PYTHON
finish
