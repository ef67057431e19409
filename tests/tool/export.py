#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# `duet export`, read back by other programs' readers: Google Benchmark's compare.py, the Prometheus client's parser of
# OpenMetrics, junitparser, jsonschema with Bencher's schema, Python's csv; the formats of github-action-benchmark and Go
# by their grammar. Each must give the numbers of the run file. A reader that is missing is named, and the test then
# counts as skipped (77) unless another one found a fault.
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BIN = Path(os.environ["DUET_BIN"])
skipped = []


def usable_python():
    """Debian's packages belong to Debian's Python, which may not be the first in PATH."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        if sys.executable != "/usr/bin/python3" and Path("/usr/bin/python3").exists():
            os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])


def run(*command, **more):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, timeout=300, **more).stdout


def strict(text):
    def refuse(name):
        raise ValueError(name)
    return json.loads(text, parse_constant=refuse)


def series_of(document):
    """name: (job, series) of what is to be exported."""
    found = {}
    for job in document["duet"]["jobs"]:
        if job["comparable"]:
            for s in job["series"]:
                found[f'{job["name"]}/{s["scope"]}/{s["cache"]}/threads:{s["threads"]}'] = (job, s)
    return found


def close(a, b):
    return abs(a / b - 1) < 1e-9


def check_gbench(text, file, document, folder):
    data = strict(text)
    assert "duet" not in data and data["benchmarks"], list(data)
    assert data["benchmarks"] == document["benchmarks"]
    assert all(b["real_time"] > 0 and b["time_unit"] == "ns" for b in data["benchmarks"])
    with_series = [j for j in document["duet"]["jobs"] if j["series"]]
    medians = [b for b in data["benchmarks"] if b["run_type"] == "aggregate"]
    assert len(medians) == sum(len(j["series"]) for j in with_series)
    compare = Path("/usr/share/benchmark/compare.py")
    if not compare.exists():
        return skipped.append("gbench: no compare.py (Debian: libbenchmark-tools)")
    environment = dict(os.environ, PYTHONPATH=str(folder))
    try:
        import scipy.stats  # noqa: F401
    except ImportError:  # 60 MB: a stand-in for the mean; the U test is left out by --no-utest
        (folder / "scipy").mkdir()
        (folder / "scipy/__init__.py").touch()
        (folder / "scipy/stats.py").write_text(
            "import numpy\nmannwhitneyu = None\ndef gmean(a): return numpy.exp(numpy.log(a).mean(axis=0))\n")
    slower = json.loads(text)
    for b in slower["benchmarks"]:
        b["real_time"] *= 2
    (folder / "slower.json").write_text(json.dumps(slower))
    dump = folder / "compared.json"
    run("/usr/bin/python3", compare, "--no-utest", "-d", dump, "benchmarks", file, folder / "slower.json", env=environment)
    compared = [c for c in json.loads(dump.read_text()) if c.get("run_type") == "iteration"]
    names = {b["name"] for b in data["benchmarks"] if b["run_type"] == "iteration"}
    assert {c["name"] for c in compared} == names, names ^ {c["name"] for c in compared}
    for c in compared:
        assert all(close(m["time"], 1) and m["real_time"] > 0 for m in c["measurements"]), c
    run("/usr/bin/python3", compare, "--no-utest", "-d", dump, "filters", file, "cpu.tuned", "cuda.tuned", env=environment)
    assert any("softmax" in c["name"] for c in json.loads(dump.read_text())), "no CPU job beside its GPU job"


BENCHER_SCHEMA = {  # bencher.dev/docs/reference/bencher-metric-format
    "type": "object",
    "patternProperties": {".+": {"type": "object", "patternProperties": {".+": {
        "type": "object",
        "properties": {k: {"type": "number"} for k in ("value", "lower_value", "upper_value")},
        "required": ["value"]}}}}}


def check_bencher(text, file, document, folder):
    data = strict(text)
    wanted = series_of(document)
    assert set(data) == set(wanted)
    for name, (job, s) in wanted.items():
        latency = data[name]["latency"]
        assert latency["lower_value"] <= latency["value"] <= latency["upper_value"]
        assert close(latency["value"], s["summary"]["median_s"] * 1e9) and len(name) <= 1024
    try:
        import jsonschema
    except ImportError:
        return skipped.append("bencher: no jsonschema (Debian: python3-jsonschema)")
    jsonschema.validate(data, BENCHER_SCHEMA)


def check_github_action(text, file, document, folder):
    # github.com/benchmark-action/github-action-benchmark, README, "customSmallerIsBetter"
    data = strict(text)
    wanted = series_of(document)
    assert [d["name"] for d in data] == list(wanted)
    for d in data:
        assert set(d) <= {"name", "unit", "value", "range", "extra"} and d["unit"] == "ns"
        assert type(d["value"]) in (int, float) and type(d["range"]) is str and type(d["extra"]) is str
        assert close(d["value"], wanted[d["name"]][1]["summary"]["median_s"] * 1e9)


def check_openmetrics(text, file, document, folder):
    assert text.endswith("# EOF\n")
    try:
        from prometheus_client.openmetrics.parser import text_string_to_metric_families
    except ImportError:
        return skipped.append("openmetrics: no parser (Debian: python3-prometheus-client)")
    families = {f.name: f for f in text_string_to_metric_families(text)}
    wanted = sorted(s["summary"]["median_s"] for _, s in series_of(document).values())
    times = families["duet_time_seconds"]
    assert times.unit == "seconds" and times.type == "gauge"
    assert sorted(x.value for x in times.samples) == wanted
    shown = {x.labels["job_name"] for x in times.samples}
    plain = {j["name"] for j, _ in series_of(document).values() if j["name"].isprintable() and "\\" not in j["name"]}
    assert plain <= shown, plain - shown
    assert sum(x.value for x in families["duet_jobs"].samples) == len(document["duet"]["jobs"])
    assert families["duet_run"].samples[0].labels["run_id"] == document["duet"]["run"]["id"]


def check_benchfmt(text, file, document, folder):
    # golang.org/design/14313-benchmark-format
    values, keys = {}, {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        key = re.fullmatch(r"([^\sA-Z:][^\sA-Z:]*):[ \t]+(.*)", line)
        if key and not line.startswith("Benchmark"):
            keys[key[1]] = key[2]
            continue
        fields = line.split()  # at every space of Unicode, as Go's readers do
        assert re.match(r"Benchmark[A-Z]", fields[0]), line
        assert len(fields) == 4 and fields[3] == "ns/op" and int(fields[1]) > 0, line
        values.setdefault(fields[0], []).append(float(fields[2]))
    assert keys["cpu"] == document["duet"]["machine"]["cpu"]["name"], keys
    wanted = series_of(document)
    assert len(values) == len(wanted), (len(values), len(wanted))
    assert sum(map(len, values.values())) <= sum(len(s["repetitions"]) for _, s in wanted.values())
    assert any(n.startswith("BenchmarkSoftmax/impl=cpu.tuned/dtype=f32/rows=") and re.search(r"-\d+$", n) for n in values)
    for times, (job, s) in zip(values.values(), wanted.values()):
        middle = sorted(times)[len(times) // 2]
        assert min(times) > 0 and abs(middle / (s["summary"]["median_s"] * 1e9) - 1) < 0.05, (job["name"], times)


def check_junit(text, file, document, folder):
    (folder / "junit.xml").write_text(text)
    try:
        import junitparser
    except ImportError:
        return skipped.append("junit: no parser (Debian: python3-junitparser)")
    xml = junitparser.JUnitXml.fromstring(text)
    jobs = document["duet"]["jobs"]
    cases = [case for suite in xml for case in suite]
    failed = sum(j["status"] == "failed" for j in jobs)
    not_comparable = sum(not j["comparable"] for j in jobs) - failed
    assert (xml.tests, xml.failures, xml.skipped, len(cases)) == (len(jobs), failed, not_comparable, len(jobs))
    kinds = [type(case.result[0]).__name__ if case.result else "passed" for case in cases]
    assert (kinds.count("Failure"), kinds.count("Skipped")) == (failed, not_comparable)
    plain = {j["name"] for j in jobs if j["name"].isprintable() and "\\" not in j["name"]}
    assert plain <= {case.name for case in cases}


def check_csv(text, file, document, folder):
    rows = list(csv.DictReader(text.splitlines(keepends=True), strict=True))
    jobs = document["duet"]["jobs"]
    assert len(rows) == sum(max(1, len(j["series"])) for j in jobs)
    times = [float(r["median_s"]) for r in rows if r["median_s"]]
    assert len(times) == sum(len(j["series"]) for j in jobs)
    for row in rows:
        assert None not in row and None not in row.values(), row
        for name, cell in row.items():
            assert not cell.startswith(("=", "+", "@", "\t")), (name, cell)
            assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", cell), (name, cell)
    assert any(row["job"].startswith("'=") for row in rows), "the formula among the names is gone"


CHECKS = {"gbench": check_gbench, "bencher": check_bencher, "github-action-benchmark": check_github_action,
          "openmetrics": check_openmetrics, "benchfmt": check_benchfmt, "junit": check_junit, "csv": check_csv}


def main():
    usable_python()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(BIN / "duet_example_run", folder / "run.json")
        document = strict((folder / "run.json").read_text())
        listed = re.findall(r"[a-z-]+(?= \()", re.search(r"--format TEXT REQUIRED\s*(.*?)\n  -", run(
            BIN / "duet", "export", "--help"), re.S)[1])
        assert set(CHECKS) <= set(listed), listed
        for form, check in CHECKS.items():
            text = run(BIN / "duet", "export", folder / "run.json", "--format", form)
            run(BIN / "duet", "export", folder / "run.json", "--format", form, "-o", folder / form)
            assert (folder / form).read_bytes().decode() .replace("\r\n", "\n") == text.replace("\r\n", "\n"), form
            try:
                check((folder / form).read_bytes().decode(), folder / form, document, folder)
            except Exception as e:
                sys.exit(f"FAILED: {form}: {type(e).__name__}: {str(e)[:2000]} {getattr(e, 'stderr', '') or ''}")
            print(f"{form}: read")
    for reason in skipped:
        print("skipped:", reason)
    sys.exit(77 if skipped else 0)


main()
