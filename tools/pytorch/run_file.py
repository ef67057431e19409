# SPDX-License-Identifier: Apache-2.0
"""What a run file of bench_all says about the CPU: for each case, the fastest comparable implementation."""
import json
import re

SCHEMA = 2  # results/run_file.h
DTYPES = ("f32", "bf16")
# Forward and backward are compared together, too: autograd cannot time one without the other.
PAIRS = {"cross_entropy": "cross_entropy_backward", "softmax": "softmax_backward", "relu": "relu_backward",
         "linear": "linear_backward"}


class BadInput(Exception):
    """One line for the user."""


class Case:
    """One op or step at one size: what to time in PyTorch, and Duet's time for it; of a step, also its memory."""

    def __init__(self, op, dtype, params, implementation, seconds, disturbed, peak_memory_bytes=None):
        self.op, self.dtype, self.params = op, dtype, params
        self.implementation, self.seconds, self.disturbed = implementation, seconds, disturbed
        self.peak_memory_bytes = peak_memory_bytes

    def name(self):
        return "/".join([self.op, self.dtype] + [f"{k}:{int(v) if v is True or v is False else v}" for k, v in self.params.items()])


class Run:
    def __init__(self, path, document):
        self.path, self.duet = path, document["duet"]

    def max_threads(self):
        return max((s["threads"] for j in self.duet["jobs"] for s in j["series"]), default=1)

    def cases(self, threads, pattern):
        """Cases that the CPU ran at this many threads, in the file's order, then the pairs of forward and backward."""
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            raise BadInput(f"--filter '{pattern}' is not a regular expression: {error}") from None
        best = {}
        for job in self.duet["jobs"]:
            if job["device"] != "cpu" or job["dtype"] not in DTYPES or not job["comparable"]:
                continue
            series = self._series(job, threads)
            if series is None:
                continue
            case = Case(job["op"], job["dtype"], job["params"], job["impl"], series["summary"]["median_s"],
                        "disturbed" in series["flags"], (job["step"] or {}).get("peak_memory_bytes"))
            have = best.get(case.name())
            if have is None or case.seconds < have.seconds:
                best[case.name()] = case
        for case in list(best.values()):
            other = PAIRS.get(case.op) and best.get(case.name().replace(case.op, PAIRS[case.op], 1))
            if other:
                pair = Case(case.op + "+backward", case.dtype, case.params, case.implementation, case.seconds + other.seconds,
                            case.disturbed or other.disturbed)
                if other.implementation != case.implementation:
                    pair.implementation += ", " + other.implementation
                best[pair.name()] = pair
        kept = [case for name, case in best.items() if wanted.search(name)]
        if not kept:
            raise BadInput(f"{self.path}: no comparable CPU case in f32 or bf16 at {threads} threads matches '{pattern}'")
        return kept

    def left_out(self, pattern):
        """Rows for CPU jobs that ran and have no number to compare, with the run's reason: wrong, suspect, not checked."""
        rows = []
        for job in self.duet["jobs"]:
            if job["device"] != "cpu" or job["dtype"] not in DTYPES or job["status"] == "skipped" or job["comparable"]:
                continue
            row = {"case": Case(job["op"], job["dtype"], job["params"], job["impl"], 0, False).name(), "op": job["op"],
                   "dtype": job["dtype"], "duet": job["impl"], "reason": f"{job['impl']}: {job['reason']}"}
            if re.search(pattern, row["case"]):
                rows.append(row)
        return rows

    @staticmethod
    def _series(job, threads):
        """The call, warm where it was measured so."""
        usable = [s for s in job["series"] if s["scope"] == "call" and s["threads"] == threads]
        return min(usable, key=lambda s: s["cache"] != "warm", default=None)


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise BadInput(f"{path}: not JSON: {error}") from None
    try:
        schema = document["duet"]["schema"]
        if schema < SCHEMA:
            raise BadInput(f"{path}: schema {schema} holds no verdicts: measure again (schema {SCHEMA} is read here)")
        if schema > SCHEMA:
            raise BadInput(f"{path}: schema {schema} is newer than the {SCHEMA} that is read here")
        for job in document["duet"]["jobs"]:
            for name in ("name", "op", "impl", "device", "dtype", "status", "comparable", "reason", "params", "series", "step"):
                job[name]
            for series in job["series"]:
                float(series["summary"]["median_s"]), series["threads"], series["scope"], series["cache"], series["flags"]
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{path}: no run file of bench_all --json: {type(error).__name__} {error}") from None
    return Run(path, document)
