#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of `duet history trend --html` in headless Chromium: layout at three widths, on paper, light and dark.

An invented history of 30 runs, the last of which is slower in one op and had another compiler; what is measured and how
is in tests/report/page.py. Skips (77) where there is no Chromium.
"""
import datetime
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "report"))
import page  # noqa: E402

RUNS = 30
MAX_BYTES = 5_000_000


def write_runs(template, folder):
    """Runs a day apart with noise of 1 %. All but the last have one compiler; in the last, softmax takes 1.5 times as long."""
    random.seed(1)
    paths = []
    begin = datetime.datetime(2026, 1, 1)
    for day in range(RUNS):
        run = json.loads(template)
        duet, last = run["duet"], day == RUNS - 1
        duet["run"].update(id=f"r{day}", started_at=(begin + datetime.timedelta(day)).strftime("%Y-%m-%dT%H:%M:%SZ"),
                           complete=True, trust="trustworthy", doubts=[])
        duet["build"]["compiler"] = "GNU 13" if last else "GNU 12"
        duet["jobs"] = [job for job in duet["jobs"] if not job["step"]]  # their parts have to add up
        for job in duet["jobs"]:
            for series in job["series"]:
                factor = random.gauss(1, 0.01) * (1.5 if last and job["op"] == "softmax" else 1)
                for key in ("median_s", "lo_s", "hi_s", "min_s"):
                    series["summary"][key] *= factor
                for repetition in series["repetitions"]:
                    repetition["samples_s"] = [time * factor for time in repetition["samples_s"]]
                series["roof"] = None
        path = folder / f"{day}.json"
        path.write_text(json.dumps(run))
        paths.append(path)
    return paths


class Dashboard(page.Pages):
    def __init__(self, chromium, folder):  # pylint: disable=super-init-not-called
        self.chromium, self.folder = chromium, folder
        folder.mkdir()
        template = folder / "run.json"
        subprocess.run([page.BIN / "duet_example_run", template], check=True)
        database = folder / "h.sqlite"
        duet = page.BIN / "duet"
        subprocess.run([duet, "history", "import", *write_runs(template.read_text(), folder), "--db", database], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run([duet, "history", "trend", "--db", database, "--html", folder / "trend"], check=True,
                       stdout=subprocess.DEVNULL)
        self.html = (folder / "trend/index.html").read_text(encoding="utf-8")


def main():
    chromium = next((found for found in map(shutil.which, page.NAMES) if found), None)
    if not chromium:
        print("skipped: no Chromium (Debian's package chromium-headless-shell)")
        return 77
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(2) as pool:
        made = Dashboard(chromium, pathlib.Path(scratch) / "history")
        jobs = {name: pool.submit(made.measure, name, width, **more) for name, width, more in (
            ("1400 px", 1400, {}), ("800 px, dark", 800, {"dark": True}), ("400 px", 400, {"scripts": False}),
            ("paper", page.PAPER, {"paper": True}))}
        m = {name: job.result() for name, job in jobs.items()}
    for name, measured in m.items():
        if name != "paper":
            page.check_layout(name, measured)
        page.check_colours(name, measured)
        page.check(measured["foreign"] == 0, f"{name}: an element that no page has")
        page.check("slower than before" in measured["header"], f"{name}: no answer at the top: {measured['header'][:300]}")
        page.check("GNU 13" in measured["visible"] + measured["header"], f"{name}: the new compiler is not named")
    screen, paper = m["1400 px"], m["paper"]
    page.check(screen["small"] < 1000, "no chart is shown")
    page.check(screen["page_colour"] != m["800 px, dark"]["page_colour"], "dark and light have one background")
    page.check(paper["page"] <= page.PAPER, f"paper: the page is {paper['page']} px wide, the sheet {page.PAPER}")
    page.check(len(made.html) < MAX_BYTES, f"the page has {len(made.html)} bytes")
    for failure in page.failures:
        print("FAILED:", failure)
    print(f"{len(m)} pages measured, {len(page.failures)} failures")
    return 1 if page.failures else 0


if __name__ == "__main__":
    sys.exit(main())
