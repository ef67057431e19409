#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Have the tests on the software GPU run every kernel of the program?

  coverage.py LIST FILE...

FILE: what a program wrote with DUET_SOFTGPU_ENTRIES=FILE: a line for each kernel, launches and mangled name.
LIST: kernels that no test runs (tests/softgpu/not_run.txt), a line each: part of the name, then the reason. A kernel that
is in none of both fails the test, as does a line of LIST that no kernel needs any more.
"""
import os
import subprocess
import sys

if len(sys.argv) < 3:
    sys.exit(__doc__)
exceptions = {}
with open(sys.argv[1], encoding="utf-8") as text:
    for line in text:
        line = line.strip()
        if line and not line.startswith("#"):
            part, _, reason = line.partition("  ")
            if not reason.strip():
                sys.exit(f"coverage: '{line}' of {sys.argv[1]} has no reason")
            exceptions[part] = reason.strip()
launches = {}
for path in sys.argv[2:]:
    if not os.path.exists(path):
        sys.exit(f"coverage: no {path}: the tests that write it have not run")
    with open(path, encoding="utf-8") as text:
        for line in text:
            count, name = line.split()
            launches[name] = launches.get(name, 0) + int(count)
if not launches:
    sys.exit("coverage: no kernels")
mangled = list(launches)
names = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True).stdout
names = [n.replace("(anonymous namespace)::", "").replace("duet::cuda::", "") for n in names.splitlines()]
missing, used = [], set()
for name, symbol in zip(names, mangled):
    if launches[symbol]:
        continue
    reasons = [part for part in exceptions if part in name]
    used.update(reasons)
    if not reasons:
        missing.append(name)
for name in sorted(missing):
    print(f"no test runs {name}")
unneeded = sorted(set(exceptions) - used)
for part in unneeded:
    print(f"'{part}' in {sys.argv[1]}: every such kernel runs")
ran = sum(1 for count in launches.values() if count)
print(f"kernels run {ran} of {len(launches)}; {len(launches) - ran - len(missing)} with a reason why not")
sys.exit(1 if missing or unneeded else 0)
