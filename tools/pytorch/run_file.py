# SPDX-License-Identifier: Apache-2.0
"""What a run file of bench_all says about the CPU: for each case, the fastest comparable implementation."""
import json
import re

from pytorch import forms

OLDEST, NEWEST = 2, 3  # schemas of results/run_file.h in which what is read here is the same
DTYPES = ("f32", "bf16", "f16", "i8", "f8e4m3")
BACKWARD = "+backward"  # of an op whose forward and backward passes are compared together (forms.PAIRS)
PACKED = "+packed"  # of an op whose weights both sides may pack before the clock, as an inference can


class BadInput(Exception):
    """One line for the user."""


class Case:
    """One op or step at one size: what to time in PyTorch, and Duet's time for it; of a step, also its memory."""

    def __init__(self, op, family, dtype, params, implementation, seconds, disturbed, jobs, peak_memory_bytes=None):
        self.op, self.family, self.dtype, self.params = op, family, dtype, params
        self.implementation, self.seconds, self.disturbed = implementation, seconds, disturbed
        self.jobs = jobs  # names of Duet's jobs whose times add up to `seconds`
        self.may_pack = True  # whether forms of PyTorch that pack weights before the clock count
        self.peak_memory_bytes = peak_memory_bytes

    def label(self):
        return "/".join([self.dtype] + [f"{k}:{int(v) if v is True or v is False else v}" for k, v in self.params.items()])

    def name(self):
        return self.op + "/" + self.label()

    def request(self):
        """What a process of PyTorch needs to know (turn.py)."""
        return {"name": self.name(), "op": self.op, "dtype": self.dtype, "params": self.params, "may_pack": self.may_pack,
                "peak_memory_bytes": self.peak_memory_bytes}

    def peaks(self, got):
        """Of a step that PyTorch timed: what both sides need at most, as columns of its row."""
        if not self.peak_memory_bytes or "torch_s" not in got:
            return {}
        both = {"duet_peak_bytes": self.peak_memory_bytes} | {k: got[k] for k in ("torch_peak_bytes", "peak_reason") if k in got}
        if "torch_peak_bytes" in got:
            both["peak_ratio"] = got["torch_peak_bytes"] / self.peak_memory_bytes
        return both


class Run:
    def __init__(self, path, document):
        self.path, self.duet = path, document["duet"]

    def max_threads(self):
        return max((s["threads"] for j in self.duet["jobs"] for s in j["series"]), default=1)

    def choice(self):
        """What --choose of bench_all was in this run, or None: how steps and inferences choose implementations."""
        words = iter(self.duet["run"].get("argv", []))
        for word in words:
            if word == "--choose":
                return next(words, None)
            if word.startswith("--choose="):
                return word.partition("=")[2]
        return None

    def cases(self, threads, pattern):
        """Cases that the CPU ran at this many threads, in the file's order, then the pairs of forward and backward."""
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            raise BadInput(f"--filter '{pattern}' is not a regular expression: {error}") from None
        best, packed_too = {}, set()
        for job in self.duet["jobs"]:
            if job["device"] != "cpu" or job["dtype"] not in DTYPES:
                continue
            packs = packs_before(job)
            if packs and job["status"] != "skipped":  # one without a verdict counts, too
                packed_too.add(Case(job["op"], "", job["dtype"], job["params"], "", 0, False, []).name())
            if not job["comparable"]:
                continue
            series = self._series(job, threads)
            if series is None:
                continue
            suffix = PACKED if packs else ""
            case = Case(job["op"] + suffix, job["family"] + suffix, job["dtype"], job["params"], job["impl"],
                        series["summary"]["median_s"], "disturbed" in series["flags"], [job["name"]], (job["step"] or {}).get("peak_memory_bytes"))
            have = best.get(case.name())
            if have is None or case.seconds < have.seconds:
                best[case.name()] = case
        for case in list(best.values()):
            backward = forms.PAIRS.get(case.op)
            other = backward and best.get(case.name().replace(case.op, backward, 1))
            if other:
                pair = Case(case.op + BACKWARD, case.family, case.dtype, case.params, case.implementation,
                            case.seconds + other.seconds, case.disturbed or other.disturbed, case.jobs + other.jobs)
                if other.implementation != case.implementation:
                    pair.implementation += ", " + other.implementation
                best[pair.name()] = pair
        for name in packed_too & set(best):  # like with like
            case, packed = best[name], best.get(name.replace(best[name].op, best[name].op + PACKED, 1))
            case.may_pack = False
            if packed and case.seconds < packed.seconds:  # who may pack need not
                packed.implementation, packed.seconds, packed.jobs = case.implementation, case.seconds, case.jobs
                packed.disturbed = case.disturbed
        kept = [case for name, case in best.items() if wanted.search(name)]
        if not kept:
            raise BadInput(f"{self.path}: no comparable CPU case at {threads} threads matches '{pattern}'")
        return kept

    def left_out(self, pattern):
        """Rows for CPU jobs that ran and have no number to compare, with the run's reason: wrong, suspect, not checked."""
        rows = []
        for job in self.duet["jobs"]:
            if job["device"] != "cpu" or job["dtype"] not in DTYPES or job["status"] == "skipped":
                continue
            if job["comparable"]:
                continue
            row = {"case": Case(job["op"], "", job["dtype"], job["params"], job["impl"], 0, False, []).name(), "op": job["op"],
                   "dtype": job["dtype"], "duet": job["impl"], "reason": f"{job['impl']}: {job['reason']}"}
            if re.search(pattern, row["case"]):
                rows.append(row)
        return rows

    def seconds(self, threads):
        """The smallest sample of each CPU job at this many threads, by name."""
        series = {j["name"]: self._series(j, threads) for j in self.duet["jobs"] if j["device"] == "cpu" and j["comparable"]}
        return {name: s["summary"]["min_s"] for name, s in series.items() if s}

    @staticmethod
    def _series(job, threads):
        """The call, warm where it was measured so."""
        usable = [s for s in job["series"] if s["scope"] == "call" and s["threads"] == threads]
        return min(usable, key=lambda s: s["cache"] != "warm", default=None)


def packs_before(job):
    """Whether a job packs its weights before the clock, which only an inference can."""
    return job["impl"].endswith("_packed")


def of_label(label):
    """(dtype, params) of a label such as f32/rows:64/cols:1000."""
    dtype, *words = label.split("/")
    params = {}
    for word in words:
        name, _, text = word.partition(":")
        for kind in (int, float, str):
            try:
                params[name] = kind(text)
                break
            except ValueError:
                continue
    return dtype, params


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
        if schema < OLDEST:
            raise BadInput(f"{path}: schema {schema} holds no verdicts: measure again (schema {NEWEST} is read here)")
        if schema > NEWEST:
            raise BadInput(f"{path}: schema {schema} is newer than the {NEWEST} that is read here")
        for job in document["duet"]["jobs"]:
            for name in ("name", "op", "family", "impl", "device", "dtype", "status", "comparable", "reason", "params", "series", "step"):
                job[name]
            for series in job["series"]:
                float(series["summary"]["median_s"]), series["threads"], series["scope"], series["cache"], series["flags"]
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{path}: no run file of bench_all --json: {type(error).__name__} {error}") from None
    return Run(path, document)
