# SPDX-License-Identifier: Apache-2.0
"""Alternates processes of Duet and PyTorch on the same few cases, so that whatever else the machine does meets both: the ratio of a
round is of times taken seconds apart, the smallest sample of each side: what the machine gave while nothing else ran. In every second
round PyTorch goes first."""
import os
import subprocess
import sys
import tempfile

from pytorch import clock, forms, run_file

MAX_CASES = 6  # of a turn: the two sides of a ratio stay close in time


def groups_of(cases):
    """Cases of one op and implementation, a few at a time."""
    by_op = {}
    for case in cases:
        by_op.setdefault((case.op, case.implementation), []).append(case)
    return [group[i:i + MAX_CASES] for group in by_op.values() for i in range(0, len(group), MAX_CASES)]


def duet_turn(bench_all, group, threads, min_time_s, choice):
    """Seconds by job. choice: of implementations within steps, as --choose of bench_all; None: the default."""
    jobs = sorted({job for case in group for job in case.jobs})
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.json")
        command = [bench_all, "--device", "cpu", "--times-only", "--repetitions", "1", "--threads", str(threads), "--min-time",
                   str(min_time_s), "--json=" + path, "--impl", *sorted({words_of(job)[1] for job in jobs})]
        for job in jobs:
            command += ["--case", case_of(job)]
        if choice:
            command += ["--choose", choice]
        done = subprocess.run(command, capture_output=True, text=True)
        try:
            return run_file.load(path).seconds(threads)
        except run_file.BadInput as error:
            last = (done.stderr.strip().splitlines() or [str(error)])[-1]
            raise run_file.BadInput(f"{bench_all} ended with status {done.returncode}: {last}") from None


def words_of(job):
    """[op, implementation, dtype, parameters...] of a job's name. Models and studies have names of two words, such as 'step/mlp'."""
    words = job.split("/")
    return ["/".join(words[:2]), *words[2:]] if words[0] in ("step", "infer", "study") else words


def case_of(job):
    """'softmax f32/rows:64' of the job softmax/cpu.tuned/f32/rows:64; of a step 'step/mlp f32/batch:32'."""
    op, _, *label = words_of(job)
    return f"{op} {'/'.join(label)}"


def rows_of(cases, environment, bench_all, threads, rounds, min_time_s, compiled, choice=None):
    """(rows, facts of PyTorch, whether an interrupt ended it). An op that PyTorch has no form of gets its reason, without a turn, as
    do cases that an interrupt (Ctrl-C) left out."""
    groups = groups_of(case for case in cases if case.op not in forms.ABSENT)
    rows = [without_turn(case, forms.ABSENT[case.op], threads) for case in cases if case.op in forms.ABSENT]
    facts, interrupted = {}, False
    for i, group in enumerate(groups):
        if not interrupted:
            print(f"[{i + 1}/{len(groups)}] {group[0].op}: {len(group)} case(s), {rounds} rounds", file=sys.stderr, flush=True)
            try:
                ours, theirs = turns_of(group, environment, bench_all, threads, rounds, min_time_s, compiled, choice)
            except KeyboardInterrupt:
                print("interrupted: the table has what was measured", file=sys.stderr, flush=True)
                interrupted = True
        if interrupted:
            rows += [without_turn(case, "the comparison was interrupted", threads) for case in group]
            continue
        facts = theirs[-1]["facts"]
        rows += [row_of(case, ours, [next(row for row in turn["rows"] if row["case"] == case.name()) for turn in theirs], threads)
                 for case in group]
    facts = facts or environment.turn({"threads": threads, "min_time_s": min_time_s, "compile": False, "cases": []})["facts"]
    return rows, facts, interrupted


def turns_of(group, environment, bench_all, threads, rounds, min_time_s, compiled, choice):
    """(seconds by job, answers of PyTorch) of each round. The first answer has peaks of memory, which no other process disturbs."""
    ours, theirs = [], []
    for r in range(rounds):
        request = {"threads": threads, "min_time_s": min_time_s, "compile": compiled, "rank": "min_s",
                   "cases": [case.request() | ({} if r == 0 else {"peak_memory_bytes": None}) for case in group]}
        turns = [lambda: ours.append(duet_turn(bench_all, group, threads, min_time_s, choice)),
                 lambda: theirs.append(environment.turn(request))]
        for turn in (turns if r % 2 == 0 else reversed(turns)):
            turn()
    return ours, theirs


def without_turn(case, reason, threads):
    return row_of(case, [], [{"reason": reason}], threads)


def row_of(case, ours, theirs, threads):
    row = {"case": case.name(), "op": case.op, "family": case.family, "dtype": case.dtype, "duet": case.implementation,
           "threads": threads}
    reason = next((turn["reason"] for turn in theirs if "reason" in turn), "")
    if not reason and any(job not in turn for turn in ours for job in case.jobs):
        reason = f"{case.implementation} gave no comparable time in a round"
    if reason:
        return dict(row, reason=reason)
    duet = [sum(turn[job] for job in case.jobs) for turn in ours]
    torch = [turn["torch_min_s"] for turn in theirs]
    ratios = [t / d for d, t in zip(duet, torch)]
    return dict(row, duet_s=clock.median(duet), duet_disturbed=False, torch=min(theirs, key=lambda turn: turn["torch_min_s"])["torch"],
                torch_s=clock.median(torch), torch_disturbed=False,
                ratio=clock.median(ratios), ratios=ratios) | case.peaks(theirs[0])
