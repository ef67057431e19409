#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_all --trace and --profile: every range balanced, nested, named by the conventions and joined to its job.

DUET_BIN: the folder of the programs. docs/profiling.md has the conventions.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

BIN = os.environ.get("DUET_BIN", "build/bin")
PHASES = {"prepare", "setup", "warmup", "measure", "verify", "profile"}
failures = []


def check(condition, message):
    if not condition:
        failures.append(message)
        print("FAILED:", message[:2000], flush=True)
    return condition


def run(program, *args, status=0, cwd=None):
    done = subprocess.run([os.path.join(BIN, program), *args], capture_output=True, text=True, timeout=300, cwd=cwd)
    check(done.returncode == status, f"{program} {' '.join(args)}: status {done.returncode}, not {status}: "
                                     f"{done.stderr[-1500:]}{done.stdout[-500:]}")
    return done


class Trace:
    def __init__(self, path):
        with open(path) as file:
            document = json.load(file)
        self.other = document["otherData"]
        self.events = document["traceEvents"]
        self.ranges = [e for e in self.events if e["ph"] == "X"]
        self.threads = [e["args"]["name"] for e in self.events if e["name"] == "thread_name"]
        self.check_nesting()

    def check_nesting(self):
        """Slices of a thread nest, and each stands at its depth; sets `path`: the ids around a range, and its own."""
        by_thread = {}
        for event in self.ranges:
            by_thread.setdefault((event["pid"], event["tid"]), []).append(event)
        for slices in by_thread.values():
            stack = []
            for e in sorted(slices, key=lambda e: (e["ts"], e["args"]["depth"])):
                while stack and stack[-1]["ts"] + stack[-1]["dur"] <= e["ts"] + 1e-9 and \
                        len(stack) > e["args"]["depth"]:
                    stack.pop()
                check(len(stack) == e["args"]["depth"], f"{e['args']['id']} at depth {e['args']['depth']} in "
                                                        f"{[s['args']['id'] for s in stack]}")
                if stack:
                    check(e["ts"] + e["dur"] <= stack[-1]["ts"] + stack[-1]["dur"] + 1e-3, f"{e} ends after {stack[-1]}")
                stack.append(e)
                e["path"] = [s["args"]["id"] for s in stack]
        for e in self.ranges:
            check(e["name"] == e["args"]["id"].replace("/", ".").replace(":", ""), f"the name {e['name']}")
            check(not re.search(r"[@/,:*+\[\]]", e["name"]), f"nsys and ncu give a character of {e['name']} a meaning")


def series_names(job):
    return [f"{job['name']}/{s['scope']}/{s['cache']}/threads:{s['threads']}" for s in job["series"]]


def joins_a_run():
    with tempfile.TemporaryDirectory() as folder:
        path, result = os.path.join(folder, "sub", "t.json"), os.path.join(folder, "run.json")
        done = run("bench_all", "--scale", "smoke", "--filter", "^(softmax/|step/mlp)", "--times-only", "--trace", path,
                   "--json=" + result)
        check("trace of" in done.stdout and path in done.stdout, f"it does not say where the trace is: {done.stdout}")
        check(sorted(os.listdir(folder)) == ["run.json", "sub"] and os.listdir(folder + "/sub") == ["t.json"],
              f"left {os.listdir(folder)} {os.listdir(folder + '/sub')}")
        trace = Trace(path)
        with open(result) as file:
            document = json.load(file)["duet"]
    check("incomplete" not in trace.other, f"{trace.other}")
    check(any("--trace" in w for w in document["run"]["warnings"]), "the run file does not say that it was recorded")
    check("bench_all main" in trace.threads, f"threads: {trace.threads}")

    jobs = {job["name"]: job for job in document["jobs"]}
    series = {name: (job, s) for job in document["jobs"] for name, s in zip(series_names(job), job["series"])}
    cases = {job["op"] + "/" + job["case"] if not job["case"].startswith(job["op"]) else job["case"]
             for job in document["jobs"]}
    check(len(series) >= 2, f"only {list(series)}")
    seen = {}
    for e in trace.ranges:
        args, path = e["args"], e["path"]
        if args["depth"] == 0:
            name = args["id"]
            check(name in jobs or name in series or name in cases, f"{name} is no job, series or case of the run")
            if name in series:
                job = series[name][0]
                check(e["cat"] == job["family"], f"{name}: category {e['cat']}, not {job['family']}")
                check(args.get("bytes", 0) == job["bytes"] and abs(args.get("flops", 0) - job["flops"]) <= 1e-9 * job["flops"],
                      f"{name}: {args}, not {job['bytes']} bytes and {job['flops']} flops")
        elif args["depth"] == 1:
            check(args["id"] in PHASES, f"{args['id']} in {path[0]} is no phase")
            seen.setdefault(path[0], []).append(args["id"])
    for name, (job, s) in series.items():
        wanted = {"warmup": 1, "measure": len(s["repetitions"]), "verify": len(s["repetitions"])}
        for phase, count in wanted.items():
            check(seen.get(name, []).count(phase) >= count, f"{name} has {seen.get(name)}, not {count} of {phase}")
        check(seen.get(job["name"], []) == ["setup"], f"{job['name']} has {seen.get(job['name'])}, not its setup")
    check(any("prepare" in seen.get(case, []) for case in cases), f"no prepare in {cases}")

    # In the measured steps: step > phase > the job of each node.
    nodes = [e["path"] for e in trace.ranges if e["args"]["depth"] == 4 and e["path"][1] == "measure"]
    check(nodes and all(p[2] == "step" and "/" in p[4] for p in nodes), f"nodes: {nodes[:2]}")
    check({"forward", "backward"} <= {p[3] for p in nodes}, f"phases: {({p[3] for p in nodes})}")


def keeps_the_ranges_of_a_crash():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t.json")
        run("duet_faulty_bench", "--scale", "smoke", "--device", "cpu", "--filter", "^relu/cpu.(tuned|fault_segv)/",
            "--times-only", "--trace", path, "--json=" + os.path.join(folder, "run.json"), status=1)
        trace = Trace(path)
        check(sorted(os.listdir(folder)) == ["run.json", "t.json"], f"left {os.listdir(folder)}")
    check("without closing" in trace.other.get("incomplete", ""), f"{trace.other}")
    cut = [e for e in trace.ranges if "unfinished" in e["args"]]
    check(cut and any("fault_segv" in e["path"][0] for e in cut), f"unfinished: {[e['path'] for e in cut]}")
    whole = {e["path"][0] for e in trace.ranges if e["args"]["id"] == "measure" and "unfinished" not in e["args"]}
    check(any("/cpu.tuned/" in name for name in whole), f"the other job is not there: {whole}")
    check(len({e["pid"] for e in trace.ranges}) == 2, "two workers are expected")


def captures_a_fixed_number_of_runs():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t.json")
        done = run("bench_all", "--profile=4", "--case", "step/mlp batch:2", "--impl", "cpu", "--trace", path, cwd=folder)
        check("no time was measured" in done.stdout, done.stdout)
        check(os.listdir(folder) == ["t.json"], f"left {os.listdir(folder)}")
        trace = Trace(path)
        steps = [e["path"] for e in trace.ranges if e["args"]["id"] == "step"]
        check(sum(p[1] == "measure" for p in steps) == 4, f"{len(steps)} steps: {steps[:3]}")
        check(sum(p[1] == "warmup" for p in steps) == 3, "three runs to warm up are expected")
        for option in ("--json=x.json", "--repetitions=3", "--min-time=1", "--processes=2"):
            refused = run("bench_all", "--profile", option, "--scale", "smoke", status=2, cwd=folder)
            check(refused.stderr.count("\n") == 1 and "--profile" in refused.stderr, f"{option}: {refused.stderr}")
        run("bench_all", "--profile=0", status=2)
        for arguments, text in ((["--gpu", "x"], "neither a number nor a UUID"),
                                (["--gpu", "1", "--device", "cpu"], "goes without --device cpu")):
            refused = run("bench_all", *arguments, "--scale", "smoke", "--filter", "^relu", status=2, cwd=folder)
            check(refused.stderr.count("\n") == 1 and text in refused.stderr, f"{arguments}: {refused.stderr}")
        if not os.path.exists("/dev/nvidiactl"):
            refused = run("bench_all", "--gpu", "7", "--scale", "smoke", "--filter", "^relu", status=77, cwd=folder)
            check("--gpu 7: " in refused.stderr, f"{refused.stderr}")
        refused = run("bench_all", "--trace", "/dev/null/t.json", "--scale", "smoke", "--filter", "^relu", status=2)
        check(refused.stderr.count("\n") == 1 and "/dev/null/t.json" in refused.stderr, f"{refused.stderr}")
        check(os.listdir(folder) == ["t.json"], f"left {os.listdir(folder)}")


def main():
    joins_a_run()
    keeps_the_ranges_of_a_crash()
    captures_a_fixed_number_of_runs()
    if not failures:
        print("passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
