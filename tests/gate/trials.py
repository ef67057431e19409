#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often the gate is wrong with real processes on this machine, as tests/stats/gates_test.cpp tells it of simulated
ones. Run by hand, for its time; reports/results/gate_trials.md has a table of it.

    tests/gate/trials.py --same 20 --slowed 5 --markdown out/gate_trials.md

--same: gates of bench_all against itself, where each SLOWER is a false alarm. --slowed: gates against duet_slow_bench,
whose relu takes --factor as long, and nothing else. Machines of CI are never quiet: load from other programs during the
trials is what they are about, and is shown beside each gate."""
import argparse
import datetime
import json
import os
import platform
import subprocess
import tempfile
import time

SLOWED_OP = "relu"


def processor():
    with open("/proc/cpuinfo") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())


def busy_s():
    """Seconds of processor time that all programs took, and that the host took from this machine."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    tick = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / tick, steal / tick


def one_gate(options, head, environment):
    with tempfile.TemporaryDirectory() as folder:
        no_noise = f"{folder}/noise.json"
        with open(no_noise, "w") as file:
            json.dump({"duet_noise": 1, "machines": {}}, file)
        command = [f"{options.bin}/duet", "gate", "--base", f"{options.bin}/bench_all", "--head", f"{options.bin}/{head}",
                   "--filter", options.filter, "--device", "cpu", "--budget", options.budget, "--noise",
                   no_noise, "--json", f"{folder}/gate.json", *options.gate_option]
        begin, (busy, stolen), own = time.monotonic(), busy_s(), os.times()
        done = subprocess.run(command, env={**os.environ, **environment}, text=True, capture_output=True)
        seconds = time.monotonic() - begin
        after, after_stolen = busy_s()
        ended = os.times()
        own_s = ended.children_user + ended.children_system - own.children_user - own.children_system
        result = {"head": head, "status": done.returncode, "seconds": seconds,
                  "foreign": max(0.0, after - busy - own_s) / seconds, "stolen": (after_stolen - stolen) / seconds,
                  "suspects": 0, "rows": [], "counts": {}, "said": (done.stdout + done.stderr)[-4000:]}
        for line in done.stdout.splitlines():
            if line.startswith("gate: ") and " suspect" in line and " after " in line:
                result["suspects"] = int(line.split()[1])
        if os.path.exists(f"{folder}/gate.json"):
            with open(f"{folder}/gate.json") as file:
                gate = json.load(file)
            result["counts"] = gate.get("counts", {})
            result["rows"] = [{"job": r["job"], "name": r["name"], "verdict": r["verdict"], "code": r["code"],
                               "ratio": r["ratio"]} for r in gate.get("rows", [])]
        return result


def verdicts(gate):
    return ", ".join(f"{n} {v}" for v, n in gate["counts"].items() if n) or "none"


def alarms(gate, op=None):
    """Rows called SLOWER: of that op, or of all others than the slowed one where none is named."""
    planted = gate["head"] == "duet_slow_bench"
    return [r for r in gate["rows"] if r["verdict"] == "SLOWER" and
            (r["job"].startswith(f"{op}/") if op else not (planted and r["job"].startswith(f"{SLOWED_OP}/")))]


def table(gates, options):
    lines = ["| gate | head | rows | suspects | verdicts | exit | seconds | other programs took | false alarms | planted found |",
             "|---:|---|---:|---:|---|---:|---:|---:|---:|---:|"]
    for i, g in enumerate(gates, 1):
        planted = [r for r in g["rows"] if r["job"].startswith(f"{SLOWED_OP}/")] if g["head"] == "duet_slow_bench" else []
        lines.append(f"| {i} | {g['head']} | {len(g['rows'])} | {g['suspects']} | {verdicts(g)} | {g['status']} | {g['seconds']:.0f} | "
                     f"{g['foreign']:.1f} CPUs | {len(alarms(g))} | "
                     + (f"{len(alarms(g, SLOWED_OP))} of {len(planted)}" if planted else "") + " |")
    same = [g for g in gates if g["head"] == "bench_all"]
    slowed = [g for g in gates if g["head"] == "duet_slow_bench"]
    lines.append("")
    rows = sum(len(g["rows"]) for g in same)
    lines.append(f"Same program: {len(same)} gates, {rows} rows, {sum(bool(alarms(g)) for g in same)} gates with a false alarm, "
                 f"{sum(len(alarms(g)) for g in same)} rows called SLOWER; exit status 0 in {sum(g['status'] == 0 for g in same)}.")
    if slowed:
        found = sum(len(alarms(g, SLOWED_OP)) for g in slowed)
        planted = sum(r["job"].startswith(f"{SLOWED_OP}/") for g in slowed for r in g["rows"])
        lines.append(f"{SLOWED_OP} slowed to {options.factor} times: {len(slowed)} gates, {sum(g['status'] == 1 for g in slowed)} with exit "
                     f"status 1; {found} of {planted} slowed rows found, {sum(len(alarms(g)) for g in slowed)} other rows called SLOWER.")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bin", help="folder of duet, bench_all and duet_slow_bench")
    parser.add_argument("--same", type=int, default=20, help="gates of bench_all against itself (default 20)")
    parser.add_argument("--slowed", type=int, default=0, help="gates against duet_slow_bench (default 0)")
    parser.add_argument("--factor", default="1.10", help="how much longer its relu takes (default 1.10)")
    parser.add_argument("--filter", default="^(add|relu|softmax|gemm)/cpu.tuned", help="of jobs")
    parser.add_argument("--budget", default="150s", help="of one gate (default 150s)")
    parser.add_argument("gate_option", nargs="*", help="after --: more options of duet gate, such as -- --case relu/n:262144")
    parser.add_argument("--log", help="add each gate here as a line of JSON, and begin with those that are there")
    parser.add_argument("--markdown", help="write the table here")
    options = parser.parse_args()
    gates = []
    if options.log and os.path.exists(options.log):
        with open(options.log) as file:
            gates = [json.loads(line) for line in file]
    for head, wanted in (("bench_all", options.same), ("duet_slow_bench", options.slowed)):
        while sum(g["head"] == head for g in gates) < wanted:
            gate = one_gate(options, head, {"DUET_SLOW_FACTOR": options.factor})
            gates.append(gate)
            if options.log:
                with open(options.log, "a") as file:
                    file.write(json.dumps(gate) + "\n")
            print(f"{len(gates)}: {head}, {gate['suspects']} suspects, {verdicts(gate)}, status {gate['status']}, "
                  f"{gate['seconds']:.0f} s, {gate['foreign']:.1f} foreign CPUs", flush=True)
            for row in alarms(gate):
                print(f"  false alarm: {row}", flush=True)
    more = "".join(f" {o}" for o in ["--", *options.gate_option]) if options.gate_option else ""
    lines = [f"`tests/gate/trials.py --same {options.same} --slowed {options.slowed} --factor {options.factor} "
             f"--filter '{options.filter}' --budget {options.budget}{more}` on {processor()}, {os.cpu_count()} processors, "
             f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}.", "", *table(gates, options)]
    print("\n".join(lines))
    if options.markdown:
        with open(options.markdown, "w") as file:
            file.write("\n".join(lines) + "\n")


main()
