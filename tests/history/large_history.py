#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An invented history of many runs, and how long duet history takes with it. No number in it is a measurement.

large_history.py DUET TEMPLATE.json FOLDER [RUNS CASES]

TEMPLATE.json is any run file with a job that has a time. By hand for 10000 runs of 500 cases, which is about 1 GB; the
test of the command line runs it small. Prints the seconds of one `add`, one trend query and one page, each with the start
of the program, which is the first line.
"""
import copy
import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path


def write_run(template: dict, path: Path, cases: int, name: str, started_at: str) -> None:
    run = copy.deepcopy(template)
    duet = run["duet"]
    job = next(j for j in duet["jobs"] if j["comparable"])
    job["series"] = job["series"][:1]
    job["step"] = None
    duet["jobs"] = []
    for case in range(cases):
        one = copy.deepcopy(job)
        one["name"], one["family"] = f"{job['name']}/case:{case}", f"family{case % 12}"
        one["case"] = f"{job['case']}/case:{case}"
        duet["jobs"].append(one)
    duet["sweeps"], run["benchmarks"] = [], []
    duet["run"].update(id=name, started_at=started_at, complete=True, trust="trustworthy", doubts=[])
    path.write_text(json.dumps(run))


def fill(database: Path, runs: int) -> None:
    """Copies the first run, with noise of 1 %, to earlier times."""
    db = sqlite3.connect(database)
    db.execute("PRAGMA synchronous = OFF")
    columns = [c[1] for c in db.execute("PRAGMA table_info(run)")]
    first = dict(zip(columns, db.execute("SELECT * FROM run").fetchone()))
    results = db.execute("SELECT series, median_s FROM result WHERE run = ?", (first["id"],)).fetchall()
    rng = random.Random(1)
    noise = [rng.gauss(1, 0.01) for _ in range(4096)]
    for number in range(2, runs + 1):
        minutes = number * 50
        row = dict(first, id=number, name=f"g{number}", reason="ci",
                   started_at=f"2024-{minutes // 44640 % 12 + 1:02}-{minutes // 1440 % 28 + 1:02}"
                              f"T{minutes // 60 % 24:02}:{minutes % 60:02}:00Z")
        db.execute(f"INSERT INTO run VALUES ({','.join('?' * len(columns))})", [row[c] for c in columns])
    # By series, as the table is ordered.
    for series, median in results:
        rows = []
        for number in range(2, runs + 1):
            t = median * noise[(series * 31 + number * 17) % 4096]
            rows.append((series, number, t, 0.99 * t, 1.01 * t, 0.98 * t, json.dumps([0.99 * t, t, 1.01 * t]), 0))
        db.executemany("INSERT INTO result VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    db.commit()
    db.close()


def timed(what: str, *command: object) -> str:
    begin, before = time.monotonic(), os.times()
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    seconds, after = time.monotonic() - begin, os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    print(f"{seconds:8.3f} s, {processor:6.3f} s of processor time  {what}")
    if done.returncode != 0:
        sys.exit(f"{what}: status {done.returncode}: {done.stderr}")
    return done.stdout


def main() -> None:
    duet, template, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    runs, cases = (int(sys.argv[4]), int(sys.argv[5])) if len(sys.argv) > 4 else (10000, 500)
    folder.mkdir(parents=True, exist_ok=True)
    database = folder / "large.sqlite"
    run = json.loads(template.read_text())
    write_run(run, folder / "first.json", cases, "first", "2023-01-01T00:00:00Z")
    write_run(run, folder / "next.json", cases, "next", "2026-01-01T00:00:00Z")
    timed("start of the program", duet, "--help")
    timed("import of the first run", duet, "history", "import", folder / "first.json", "--db", database)
    fill(database, runs)
    print(f"{database.stat().st_size / 1e6:8.1f} MB  {runs} runs of {cases} cases")
    timed("add", duet, "history", "add", folder / "next.json", "--db", database)
    one = timed("trend of one series, all runs", duet, "history", "trend", "--db", database, "--filter", "/case:7/",
                "--last", runs)
    if "case:7/" not in one:
        sys.exit("the trend lacks its series: " + one)
    timed("trend of every series, 200 runs", duet, "history", "trend", "--db", database)
    timed("page of every series, 200 runs", duet, "history", "trend", "--db", database, "--html", folder / "trend")
    print(f"{(folder / 'trend/index.html').stat().st_size / 1e6:8.1f} MB  page")


main()
