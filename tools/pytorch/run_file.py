# SPDX-License-Identifier: Apache-2.0
"""What a run file of bench_all says about the CPU: per case, the fastest verified implementation."""
import json
import re

SCHEMA = 1
DTYPES = ("f32", "bf16")
# A step's parts and a pair's halves are compared together too: autograd cannot take them apart.
PAIRS = {"cross_entropy": "cross_entropy_backward", "softmax": "softmax_backward", "relu": "relu_backward",
         "linear": "linear_backward"}


class BadInput(Exception):
    """One line for the user."""


class Case:
    """One op or step at one size: what to time in PyTorch, and Duet's time for it; of a step, also its memory."""

    def __init__(self, op, dtype, params, implementation, seconds, contended, peak_bytes=None):
        self.op, self.dtype, self.params = op, dtype, params
        self.implementation, self.seconds, self.contended = implementation, seconds, contended
        self.peak_bytes = peak_bytes

    def name(self):
        return "/".join([self.op, self.dtype] + [f"{k}:{int(v) if v is True or v is False else v}" for k, v in self.params.items()])


def suspicion(job):
    """Why a job is no result though it ran, or ""."""
    for s in job["series"]:
        if "suspect" in (s.get("flags") or []):
            roof = s.get("roof")
            share = f": {100 * roof['fraction']:.0f} % of its roof ({roof['ceiling']})" if roof else ""
            return f"is suspect{share}, {s['scope']}, {s['threads']} thread(s)"
    return ""


class Run:
    def __init__(self, path, document):
        self.path, self.duet = path, document["duet"]
        self.peaks = {step["job"]: step.get("memory_peak") for step in self.duet.get("steps") or []}

    def most_threads(self):
        return max((s["threads"] for j in self.duet["jobs"] for s in j["series"]), default=1)

    def cases(self, threads, pattern):
        """Cases that the CPU ran at this many threads, in the file's order, then the pairs of forward and backward."""
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            raise BadInput(f"--filter '{pattern}' is not a regular expression: {error}") from None
        best = {}
        for job in self.duet["jobs"]:
            if job["device"] != "cpu" or job["status"] != "ok" or job["dtype"] not in DTYPES or job["impl"] == "reference":
                continue
            series = self._series(job, threads)
            if series is None:
                continue
            case = Case(job["op"], job["dtype"], job["params"], job["impl"], series["summary"]["median_s"],
                        all("contended" in r["flags"] for r in series["repetitions"]), self.peaks.get(job["name"]))
            have = best.get(case.name())
            if have is None or case.seconds < have.seconds:
                best[case.name()] = case
        for case in list(best.values()):
            other = PAIRS.get(case.op) and best.get(case.name().replace(case.op, PAIRS[case.op], 1))
            if other:
                pair = Case(case.op + "+backward", case.dtype, case.params, case.implementation, case.seconds + other.seconds,
                            case.contended or other.contended)
                if other.implementation != case.implementation:
                    pair.implementation += ", " + other.implementation
                best[pair.name()] = pair
        kept = [case for name, case in best.items() if wanted.search(name)]
        if not kept:
            raise BadInput(f"{self.path}: no verified CPU case in f32 or bf16 at {threads} threads matches '{pattern}'")
        return kept

    def left_out(self, pattern):
        """Rows for CPU jobs that have no number to compare: wrong, or suspect, which keeps a job out as a whole."""
        rows = []
        for job in self.duet["jobs"]:
            if job["device"] != "cpu" or job["dtype"] not in DTYPES:
                continue
            reason = suspicion(job)
            if job["status"] == "failed":
                reason = f"failed in the run: {job.get('reason')}"
            row = {"case": Case(job["op"], job["dtype"], job["params"], job["impl"], 0, False).name(), "op": job["op"],
                   "dtype": job["dtype"], "duet": job["impl"], "reason": f"{job['impl']} {reason}"}
            if reason and re.search(pattern, row["case"]):
                rows.append(row)
        return rows

    @staticmethod
    def _series(job, threads):
        """Warm where it was measured; what is larger than the caches was measured once, under another name."""
        if suspicion(job):
            return None
        usable = [s for s in job["series"] if s["scope"] == "call" and s["threads"] == threads]
        order = {"warm": 0, "rotating": 1, "cold": 2}
        return min(usable, key=lambda s: order.get(s["cache"], 3), default=None)


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise BadInput(f"{path}: not JSON: {error}") from None
    try:
        if document["duet"]["schema"] > SCHEMA:
            raise BadInput(f"{path}: schema {document['duet']['schema']}; up to {SCHEMA} is read here")
        for job in document["duet"]["jobs"]:
            for name in ("name", "op", "impl", "device", "dtype", "status", "params", "series"):
                job[name]
            for series in job["series"]:
                float(series["summary"]["median_s"]), series["threads"], series["scope"], series["cache"], series["repetitions"]
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{path}: no run file of bench_all --json: {type(error).__name__} {error}") from None
    return Run(path, document)
