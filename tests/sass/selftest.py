#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/sass_profile itself: loops, paths, divisions and spills of listings written by hand, and whether each kind of change for
the worse is reported. Needs no CUDA."""
import copy
import json
import os
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

SOURCE = Path(os.environ.get("DUET_SOURCE", Path(__file__).resolve().parents[2]))
sys.dont_write_bytecode = True
spec = spec_from_loader("sass_profile", SourceFileLoader("sass_profile", str(SOURCE / "tools/sass_profile")))
tool = module_from_spec(spec)
spec.loader.exec_module(tool)
faults = []


def expect(what, got, want):
    if got != want:
        faults.append(f"{what}: {got}, should be {want}")


def kernel(*lines):
    """The profile of a kernel of these lines; labels end with a colon."""
    text = '\t.section\t.text.k,"ax",@progbits\n'
    text += "".join(f"{line}\n" if line.endswith(":") else f"        /*{16 * i:04x}*/    {line} ;\n" for i, line in enumerate(lines))
    return tool.parse(text)["k"].profile()


# A pack of 16 bytes in, one out; the last elements take a loop of scalars. The main part is the kernel, by its pack.
MAP = ["ISETP.GE R0, R1", "@P0 BRA `(.L_x_1)", "LDG.E.128 R4, [R2]", "FADD R4, R4, R5", "STG.E.128 [R6], R4", "EXIT",
       ".L_x_1:", "@P1 EXIT", ".L_x_2:", "LDG.E R4, [R2]", "STG.E [R6], R4", "@P2 BRA `(.L_x_2)", "EXIT"]
row = kernel(*MAP)
expect("map: main, instructions, units", (row["main"], row["instructions"], row["units"]), (None, 6, 32))
row = kernel(*MAP[:3], "I2F.U32.RP R8, R9", *MAP[3:])
expect("map with a division: divisions, instructions", (row["divisions"], row["instructions"]), (1, 7))

# A loop over packs with a slow path out of line, which jumps back: one loop, and the best path leaves the slow path out.
LOOP = ["MOV R1, R2", ".L_x_1:", "LDG.E.128 R4, [R2]", "FCHK P0, R4, R5", "@P0 BRA `(.L_x_9)", ".L_x_2:", "STG.E.128 [R6], R4",
        "@P1 BRA `(.L_x_1)", "EXIT", ".L_x_9:", "MOV R20, 0x10", "CALL.REL.NOINC `($__internal_0_$__cuda_sm3x_div_rn_noftz_f32_slowpath)",
        "BRA `(.L_x_2)"]
row = kernel(*LOOP)
expect("loop: main", row["main"], [1, 9])
expect("loop: instructions, units, divisions", (row["instructions"], row["units"], row["divisions"]), (5, 32, 1))

# A tile: the main loop multiplies; it fetches the next tile where there is one, aligned or element by element.
TILE = ["MOV R1, R2", ".L_x_1:", "@P0 BRA `(.L_x_3)", "@P1 BRA `(.L_x_2)", "LDGSTS.E.BYPASS.128 [R3], [R4]", "LDGDEPBAR", "BRA `(.L_x_3)",
        ".L_x_2:", "LDG.E.U16 R5, [R4]", "STS.U16 [R3], R5", "LDG.E.U16 R6, [R4]", "STS.U16 [R3], R6", ".L_x_3:", "BAR.SYNC 0x0",
        "LDSM.16.M88.4 R8, [R9]", "HMMA.16816.F32 R12, R8, R10, R12", "HMMA.16816.F32 R16, R8, R11, R16", "@P2 BRA `(.L_x_1)", "EXIT"]
row = kernel(*TILE)
expect("tile: unit, instructions, units", (row["unit"], row["instructions"], row["units"]), ("mma", 10, 2))
expect("tile: size", row["size"], 14)
expect("tile: warp operations", row["warp"], {"bar": 1, "commit": 1, "cp.async": 1, "ldmatrix": 1, "mma": 2})
spilled = kernel(*TILE[:2], "STL [R1], R2", *TILE[2:14], "LDL R2, [R1]", *TILE[14:])
expect("spill: stores, loads, in loops", (spilled["local_stores"], spilled["local_loads"], spilled["local_in_loops"]), (1, 1, 2))

# Nested loops: the inner one has most of the work. What is left to the outer loop counts the inner as one pass.
NEST = [".L_x_1:", "LDG.E R1, [R2]", ".L_x_2:", "LDG.E.128 R4, [R2]", "FADD R4, R4, R5", "@P0 BRA `(.L_x_2)", "STG.E [R6], R4",
        "@P1 BRA `(.L_x_1)", "EXIT"]
row = kernel(*NEST)
expect("nest: main, instructions, units", (row["main"], row["instructions"], row["units"]), ([1, 3], 3, 16))

# 64-bit divisions call a function, and have a fast path of 32 bits: one division.
row = kernel("LDG.E R1, [R2]", "@P0 BRA `(.L_x_1)", "CALL.REL.NOINC `($__internal_0_$__cuda_sm20_div_s64)", "BRA `(.L_x_2)", ".L_x_1:",
             "I2F.U32.RP R0, R6", "MUFU.RCP R0, R0", ".L_x_2:", "STG.E [R6], R4", "EXIT")
expect("64-bit: divisions", row["divisions"], 1)

expect("short name", tool.short_name("void duet::cuda::(anonymous namespace)::rows_kernel<float, (int)32, (bool)1>(float const*, long)"),
       "rows_kernel<float, 32, 1>")
expect("PTX", tool.ptx_warp_operations("""
Fatbin ptx code:
================
arch = sm_90a
.visible .entry _Zk(.param .u64 p)
{
 shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1;
 @%p2 bar.sync 0;
 bar.warp.sync -1;
 mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f2};
}
"""), {("sm_90a", "_Zk"): {"bar": 1, "mma": 1, "shfl": 1}})
expect("a lost barrier", tool.unequal_operations({"shfl": 1, "vote": 3}, {"bar": 1, "shfl": 1}), {"bar": -1})
expect("a lost barrier is a fault", len(tool.lost_operations("k", {"unequal": {"bar": -1}}, {})), 1)
expect("a loop that is repeated as before", tool.lost_operations("k", {"unequal": {"shfl": 30}}, {"unequal": {"shfl": 30}}), [])
expect("a loop that is no longer repeated", len(tool.lost_operations("k", {"unequal": {}}, {"unequal": {"shfl": 30}})), 1)
expect("no PTX", tool.lost_operations("k", {}, {"unequal": {"shfl": 30}}), [])
blank_lines = "\nFatbin ptx code:\narch = sm_90a\n" + "\n" * 200000 + ".entry k()\n{\n bar.sync 0;\n}\n"
expect("PTX with many blank lines", tool.ptx_warp_operations(blank_lines), {("sm_90a", "k"): {"bar": 1}})

# Everything that can be worse in a golden file's kernels is reported, and nothing else.
golden = {"k": {"registers": 40, "local_stores": 2, "local_loads": 2, "local_in_loops": 1, "divisions": 1, "unit": "byte",
                "instructions": 1000, "units": 32, "size": 1200}}
for path in sorted((SOURCE / "tests/sass").glob("sm_*.json")):
    for name, kernels in json.loads(path.read_text())["objects"].items():
        golden.update({f"{path.stem} {name} {k}": row for k, row in kernels.items()})
for name, want in golden.items():
    expect(f"{name}: the same", tool.worse("k", want, want), [])
    small = {**want, "registers": want["registers"] + tool.MORE_REGISTERS}
    for field in ("instructions", "size"):
        if want.get(field, 0) >= 100:
            small[field] = want[field] + want[field] // 100
    expect(f"{name}: within the slack", tool.worse("k", small, want), [])
    changes = {"size": want.get("size", 0) * 103 // 100 + 1, "registers": want["registers"] + tool.MORE_REGISTERS + 1, "unit": "another"}
    changes.update({field: want.get(field, 0) + 1 for field in ("local_stores", "local_loads", "local_in_loops", "divisions")})
    if want.get("units"):
        changes.update({"instructions": want["instructions"] * 103 // 100 + 1, "units": 0})
    for field, value in changes.items():
        got = {**copy.deepcopy(want), field: value}
        if not tool.worse("k", got, want):
            faults.append(f"{name}: {field} {value} passes, golden is {want.get(field, 0)}")
expect("a new kernel", len(tool.compare({"o": golden}, {"o": {k: v for k, v in golden.items() if k != "k"}})[0]), 1)
expect("a kernel that is gone", len(tool.compare({"o": {k: v for k, v in golden.items() if k != "k"}}, {"o": golden})[0]), 1)

print("\n".join(faults) or f"sass_profile reads its listings, and each change for the worse of {len(golden)} kernels is reported")
sys.exit(bool(faults))
