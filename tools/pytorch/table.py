# SPDX-License-Identifier: Apache-2.0
"""The comparison as a table and as JSON."""
import datetime
import json
import math
import os
import re

from pytorch.run_file import BACKWARD, PACKED, BadInput


def facts(torch, run, threads):
    """What the figures were taken with. `torch`: what a process of PyTorch said (turn.py)."""
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "run_file": run.path, "run": run.duet["run"].get("id"), "commit": run.duet["build"].get("git_sha"),
            "machine": run.duet["machine"].get("cpu", {}).get("name"),
            "this_machine": this_cpu(), "threads": threads, "load": os.getloadavg()[0]} | torch


def this_cpu():
    try:
        with open("/proc/cpuinfo") as file:
            return (re.search(r"model name\s*:\s*(.*)", file.read()) or [None, "unknown"])[1]
    except OSError:
        return "unknown"


def milliseconds(seconds):
    return f"{seconds * 1e3:.4g}"


def show(rows, about):
    print(f"PyTorch {about['torch']} ({about['isa']}, oneDNN {about['onednn']}, MKL {about['mkl']}) against Duet's fastest "
          f"comparable CPU implementation\n{about['this_machine']}, {about['threads']} thread(s), {about['date']}, "
          f"run {about['run']} of commit {about['commit']}; medians, in ms")
    if about["this_machine"] != about["machine"]:
        print(f"WARNING: the run is of another machine ({about['machine']}): these ratios compare machines")
    lines = [("case", "Duet by", "Duet", "PyTorch by", "PyTorch", "PyTorch / Duet")]
    rounds = any("ratios" in r for r in rows)
    if rounds:
        print("in turns: medians over rounds of the smallest sample of each side, and of their ratios")
        lines[0] += ("rounds",)
    for r in rows:
        if "ratio" not in r:
            continue
        line = (r["case"], r["duet"], milliseconds(r["duet_s"]) + ("*" if r["duet_disturbed"] else ""), r["torch"],
                milliseconds(r["torch_s"]) + ("*" if r["torch_disturbed"] else ""), f"{r['ratio']:.2f}")
        lines.append(line + ((f"{min(r['ratios']):.2f} .. {max(r['ratios']):.2f}",) if rounds else ()))
    columns(lines, left=(0, 1, 3))
    for r in rows:
        if "ratio" not in r:
            print(f"not compared: {r['case']}: {r['reason']}")
    show_means(rows)
    if any(disturbed(r) for r in rows):
        print(f"* disturbed by other processes (load {about['load']:.1f}); of PyTorch the smallest sample is shown. "
              "Repeat on a quiet machine" + ("" if rounds else ", or with --interleave"))
    show_peaks(rows)


def disturbed(row):
    """Rounds that alternate meet the same disturbance; then both times say little, and their ratio still does."""
    return "ratio" in row and "ratios" not in row and (row["duet_disturbed"] or row["torch_disturbed"])


def counts(row):
    """In a mean; op+backward repeats two rows."""
    return "ratio" in row and not disturbed(row) and not row["op"].endswith(BACKWARD)


def means(rows):
    """By family: how many undisturbed ratios, their geometric mean, and the case of the smallest."""
    families = {}
    for r in rows:
        if counts(r):
            families.setdefault(r["family"], []).append(r)
    return {name: {"cases": len(of), "mean": geometric_mean([r["ratio"] for r in of]),
                   "slower": sum(r["ratio"] < 0.95 for r in of), "worst": min(of, key=lambda r: r["ratio"])}
            for name, of in sorted(families.items())}


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def show_means(rows):
    by_family = means(rows)
    if not by_family:
        return
    print("\nGeometric means of the undisturbed ratios PyTorch / Duet, of unequal weight in any real program (rows of\n"
          "op+backward repeat two others and are left out; op+packed, where weights may be packed before the clock,\n"
          "is a family of its own and not part of all). Above 1 Duet is faster")
    lines = [("family", "cases", "below 0.95", "geometric mean", "smallest", "its case")]
    for name, m in by_family.items():
        lines.append((name, str(m["cases"]), str(m["slower"]), f"{m['mean']:.2f}", f"{m['worst']['ratio']:.2f}", m["worst"]["case"]))
    ratios = [r["ratio"] for r in rows if counts(r) and not r["op"].endswith(PACKED)]
    lines.append(("all", str(len(ratios)), str(sum(v < 0.95 for v in ratios)), f"{geometric_mean(ratios):.2f}", "", ""))
    columns(lines, left=(0, 5))


def columns(lines, left):
    widths = [max(len(line[c]) for line in lines) for c in range(len(lines[0]))]
    for line in lines:
        print("  ".join(text.ljust(w) if c in left else text.rjust(w) for c, (text, w) in enumerate(zip(line, widths))))


def show_peaks(rows):
    peaks = [r for r in rows if "duet_peak_bytes" in r]
    if not peaks:
        return
    print("\nPeak memory of a step, in MB (1e6 bytes). Duet: everything that a planned step holds. PyTorch: the largest growth of the "
          "resident\nset of a process that runs nothing but the step, eager, over what remains after a step with one sample (code, "
          "threads, caches)")
    lines = [("case", "Duet", "PyTorch", "PyTorch / Duet")]
    for r in peaks:
        has = "peak_ratio" in r
        lines.append((r["case"], megabytes(r["duet_peak_bytes"]), megabytes(r["torch_peak_bytes"]) if has else r["peak_reason"],
                      f"{r['peak_ratio']:.2f}" if has else "-"))
    columns(lines, left=(0,))


def megabytes(size):
    return f"{size * 1e-6:.4g}"


def check_writable(path):
    """Checks before the measurement that the result can be written."""
    if path is None:
        return
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise BadInput(f"cannot write {path}: a file in an existing, writable folder is expected")


def write(path, rows, about):
    beside = f"{path}.part{os.getpid()}"
    with open(beside, "w", encoding="utf-8") as file:
        families = {name: m | {"worst": m["worst"]["case"]} for name, m in means(rows).items()}
        json.dump({"about": about, "families": families, "rows": rows}, file, indent=1, allow_nan=False)
        file.write("\n")
    os.replace(beside, path)
