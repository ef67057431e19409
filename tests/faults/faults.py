#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_all when things go wrong. DUET_BIN: the folder of the programs.

faults.py planted
  Implementations of relu that crash, hang or exhaust something (faulty_bench.cpp). Each costs its own row, with the
  reason; every other row is measured. The run is killed in between, and --resume runs none of the crashed ones again.

faults.py hang
  A job that hangs once it is measured, without --job-limit: it costs its row after the limit that its calibration gave.

faults.py points [--count N] [--seed S]
  Faults from outside at N points that the seed draws: a kill of the program or of its worker, a worker that is stopped,
  an interrupt, a full disk, a damaged journal. Nothing that had finished is lost, and after --resume the rows are those
  of an unbroken run. DUET_FAULT_POINTS: N, where it is not given.
"""
import argparse
import collections
import ctypes
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

BIN = os.environ.get("DUET_BIN", "build/bin")
SMALL = ["--scale", "smoke", "--device", "cpu"]

failures = []


def check(condition, message):
    if not condition:
        failures.append(message)
        print("FAILED:", message, flush=True)
    return condition


def load(path):
    with open(path) as file:
        return json.load(file)["duet"]


# --- jobs that crash

PLANTED = {
    "cpu.fault_segv": "killed by SIGSEGV in phase calibrate",
    "cpu.fault_late": "killed by SIGSEGV in phase measure",
    "cpu.fault_plan": "killed by SIGABRT in phase plan",
    "cpu.fault_abort": "killed by SIGABRT in phase calibrate",
    "cpu.fault_stack_overflow": "killed by SIGSEGV in phase calibrate",
    "cpu.fault_throw_int": r"killed by SIGABRT in phase calibrate \(uncaught exception of type int\)",
    "cpu.fault_throw_in_thread": r"killed by SIGABRT in phase calibrate \(uncaught exception: in a thread\)",
    "cpu.fault_exit0": "ended the process with status 0 in phase calibrate",
    "cpu.fault_killed": "killed by SIGKILL in phase calibrate",
    "cpu.fault_hang": "made no progress for 5 s in phase calibrate: deadlock",
    "cpu.fault_hang_late": "made no progress for 5 s in phase measure: deadlock",
    "cpu.fault_deadlock": "made no progress for 5 s in phase calibrate: deadlock",
    "cpu.fault_gpu_lost": r"^cudaStreamSynchronize\(stream\): an illegal memory access was encountered$",
    "cpu.fault_eat_memory": r"killed by SIGABRT in phase calibrate \(uncaught exception: std::bad_alloc\)",
}


OUT_OF_MEMORY = "cpu.fault_out_of_memory"


class LittleMemory:
    """A control group of 1 GiB, where this process may make one."""

    def __enter__(self):
        self.group = None
        for parent, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            group = f"{parent}/duet_faults_{os.getpid()}"
            try:
                os.mkdir(group)
                self.group = group
                with open(f"{group}/{limit}", "w") as file:
                    file.write(str(1 << 30))
                return self
            except OSError:
                self.__exit__()
        return self

    def join(self):
        if self.group:
            with open(self.group + "/cgroup.procs", "w") as file:
                file.write(str(os.getpid()))

    def __exit__(self, *_):
        for _ in range(50):  # its last process may still be ending
            if not self.group or not os.path.isdir(self.group):
                break
            try:
                os.rmdir(self.group)
            except OSError:
                time.sleep(0.1)
        self.group = None


def planted(_):
    with tempfile.TemporaryDirectory() as folder, LittleMemory() as little:
        expected = dict(PLANTED)
        if little.group:
            expected[OUT_OF_MEMORY] = r"killed by SIGKILL \(out of memory\) in phase calibrate"
        else:
            print(f"{OUT_OF_MEMORY} is not run: no control group can be made here")
        result = os.path.join(folder, "r.json")
        command = [BIN + "/duet_faulty_bench", *SMALL, "--filter", "^(relu|sum|softmax)/", "--job-limit", "5",
                   "--json=" + result]
        log = os.path.join(folder, "ran")
        environment = os.environ | {"DUET_FAULT_LOG": log}
        first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
                                 preexec_fn=lambda: (little.join(), die_with_parent()))
        crashed = {}
        deadline = time.time() + 200
        while time.time() < deadline and first.poll() is None and len(crashed) < 3:
            time.sleep(0.05)
            crashed = {n: row for n, (_, row) in lines_of(result + ".journal").items() if row["status"] == "failed"}
        check(len(crashed) >= 3, f"no crashed rows in the journal: {list(crashed)}, status {first.poll()}")
        first.kill()  # and its worker with it
        first.wait()
        run = subprocess.run(command + ["--resume"], capture_output=True, text=True, timeout=500, env=environment,
                             preexec_fn=little.join)
        with open(log) as file:
            ran = collections.Counter(file.read().split())
        os.remove(log)
        check(run.returncode == 1, f"status {run.returncode}, not 1: {run.stderr[-2000:]}")
        if not check(os.listdir(folder) == ["r.json"], f"left {os.listdir(folder)}"):
            return
        check(load(result)["run"]["complete"], "the run is not complete")
        rows = {job["name"]: job for job in load(result)["jobs"]}
        for name, row in crashed.items():
            check(rows.get(name) == row, f"{name} is not as the journal had it: {rows.get(name)}")
            logs = row["impl"] not in ("cpu.fault_plan", "cpu.fault_late")  # those crash elsewhere
            check(ran[row["impl"]] == logs, f"{name}, which had crashed, ran {ran[row['impl']]} times")
        check("from the journal" in run.stderr, f"--resume took nothing from the journal: {run.stderr[-2000:]}")
        for implementation, reason in expected.items():
            found = [job for job in rows.values() if job["impl"] == implementation]
            check(len(found) == 1, f"{implementation}: {len(found)} rows")
            for job in found:
                check(job["status"] == "failed" and re.search(reason, job["reason"]) and job["repro"],
                      f"{implementation}: {job['status']}, '{job['reason']}', again: '{job['repro']}'")
        others = [job for job in rows.values() if job["impl"] not in expected and job["impl"] != OUT_OF_MEMORY]
        check(len(others) >= 3, f"only {len(others)} other rows")
        for job in others:
            check(job["status"] == "ok", f"{job['name']}: {job['status']}: {job['reason']}")
        listed = subprocess.run(command[:-1] + ["--list"], capture_output=True, text=True, timeout=300).stdout.split()
        check(sorted(listed) == sorted(rows), f"rows {sorted(rows)} of {sorted(listed)}")


def hang(_):
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "r.json")
        run = subprocess.run([BIN + "/duet_faulty_bench", *SMALL, "--filter", "^relu/cpu.(tuned|fault_hang_late)/",
                              "--json=" + result], capture_output=True, text=True, timeout=500)
        check(run.returncode == 1, f"status {run.returncode}, not 1: {run.stderr[-2000:]}")
        rows = {job["impl"]: job for job in load(result)["jobs"]}
        check(rows["cpu.tuned"]["status"] == "ok", f"cpu.tuned: {rows['cpu.tuned']['reason']}")
        job = rows["cpu.fault_hang_late"]
        match = re.search(r"made no progress for (\d+) s in phase measure: deadlock", job["reason"])
        check(job["status"] == "failed" and match and 10 <= int(match[1]) <= 120,
              f"{job['status']}, '{job['reason']}': a limit of 10 to 120 s was expected")


# --- faults from outside

# Short jobs, so that most of the time is not spent on them.
JOBS = ["--filter", "^(relu|sum|softmax|copy|axpy|bias|gelu|tanh|sigmoid|max|cast|mse)/cpu", "--min-time", "0.005"]


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Run:
    """One run of bench_all in a folder of its own."""

    def __init__(self, folder, *more, limit=None):
        self.result = os.path.join(folder, "r.json")
        self.journal = self.result + ".journal"
        self.log = open(os.path.join(folder, "log"), "a+")
        self.start_of_log = self.log.tell()

        def prepare():
            die_with_parent()
            if limit:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        self.process = subprocess.Popen([BIN + "/bench_all", *SMALL, *JOBS, *more, "--json=" + self.result],
                                        stdout=subprocess.DEVNULL, stderr=self.log, preexec_fn=prepare,
                                        restore_signals=limit is None)  # SIGXFSZ stays ignored: writing fails

    def worker(self):
        try:
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as children:
                pids = children.read().split()
        except OSError:
            return None
        return int(pids[0]) if pids else None

    def wait(self):
        try:
            return self.process.wait(timeout=300)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "none within 300 s"

    def said(self):
        self.log.flush()
        with open(self.log.name) as log:
            log.seek(self.start_of_log)
            return log.read()


def lines_of(journal):
    """The whole lines that hold a row: name to text and row."""
    rows = collections.OrderedDict()
    if not os.path.exists(journal):
        return rows
    with open(journal, "rb") as file:
        for line in file.read().split(b"\n")[:-1]:
            if line.startswith(b'{"job":'):
                row = json.loads(line)["job"]
                rows[row["name"]] = (line, row)
    return rows


def samples(row):
    return [[r["samples_s"] for r in s["repetitions"]] for s in row["series"]]


def send(process, number):
    """A signal, unless the process ended before it could be sent."""
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for_rows(run, rows):
    deadline = time.time() + 120
    while time.time() < deadline and run.process.poll() is None and len(lines_of(run.journal)) < rows:
        time.sleep(0.002)


class Points:
    def __init__(self, options):
        self.draw = random.Random(options.seed)
        self.listed = subprocess.run([BIN + "/bench_all", *SMALL, *JOBS, "--list"], capture_output=True, text=True,
                                     timeout=300).stdout.split()
        check(len(self.listed) >= 8, f"only {len(self.listed)} jobs: {self.listed}")
        self.tmpfs = False
        self.finished = self.lost = 0

    # When the fault happens: usually after some row, sometimes at any time from the start on.
    def wait_for_moment(self, run):
        if self.draw.random() < 0.2:
            time.sleep(self.draw.random() * 1.5)
        else:
            wait_for_rows(run, self.draw.randrange(len(self.listed)))
            time.sleep(self.draw.random() * 0.05)

    # Rows that had finished are in the result as they were, and the rows are those of an unbroken run.
    def check_result(self, folder, before, what, may_fail=0):
        run = Run(folder, "--resume") if not os.path.exists(os.path.join(folder, "r.json")) or self.cut(folder) else None
        if run:
            status = run.wait()
            check(status == (0 if may_fail == 0 else status), f"{what}: --resume ends with {status}: {run.said()[-500:]}")
        path = os.path.join(folder, "r.json")
        if not check(os.path.exists(path), f"{what}: no result"):
            return
        jobs = {job["name"]: job for job in load(path)["jobs"]}
        check(load(path)["run"]["complete"], f"{what}: not complete")
        check(sorted(jobs) == sorted(self.listed), f"{what}: rows differ from those of an unbroken run")
        failed = {j["name"]: j["reason"] for j in jobs.values() if j["status"] != "ok"}
        # A case is prepared and probed for all its rows at once: a hang there costs the case.
        case_of = {n: re.sub("/(cpu|cuda|simt)[.][^/]*", "", n, count=1) for n in failed}
        lost = {case_of[n] if re.search("in phase (prepare|probe)", reason) else n for n, reason in failed.items()}
        check(len(lost) <= may_fail, f"{what}: failed: {failed}")
        for name, row in before.items():
            self.finished += 1
            if name not in jobs or samples(jobs[name]) != samples(row):
                self.lost += 1
                check(False, f"{what}: {name} had finished and is lost")
        left = [f for f in os.listdir(folder) if f not in ("r.json", "log")]
        check(not left, f"{what}: left {left}")

    @staticmethod
    def cut(folder):
        return os.path.exists(os.path.join(folder, "r.json.journal"))

    # What bench_all says that it has finished, its journal has.
    def check_said(self, run, what):
        names = lines_of(run.journal)
        for case in re.findall(r"^\[\d+/\d+\] (\S+)  (?!from the journal)", run.said(), re.M):
            op, label = case.split("/", 1)
            check(any(n.startswith(op + "/") and n.endswith("/" + label) for n in names),
                  f"{what}: {case} was said to be finished and is not in the journal")

    def kill_all(self, folder, what):
        run = Run(folder)
        self.wait_for_moment(run)
        worker = run.worker()
        run.process.kill()
        run.wait()
        deadline = time.time() + 5
        while worker and alive(worker) and time.time() < deadline:
            time.sleep(0.01)
        check(not (worker and alive(worker)), f"{what}: the worker outlives its supervisor")
        before = {} if os.path.exists(run.result) else {n: row for n, (_, row) in lines_of(run.journal).items()}
        if not os.path.exists(run.result):
            self.check_said(run, what)
        parts = [f for f in os.listdir(folder) if ".part" in f]
        check(not parts, f"{what}: left {parts}")
        return before

    def killed(self, folder, what):
        self.check_result(folder, self.kill_all(folder, what), what)

    def worker_killed(self, folder, what):
        run = Run(folder)
        self.wait_for_moment(run)
        before = {n: row for n, (_, row) in lines_of(run.journal).items()}
        worker = run.worker()
        if worker:
            send(worker, signal.SIGKILL)
        check(run.wait() == 0, f"{what}: status {run.process.returncode}: {run.said()[-500:]}")
        self.check_result(folder, before, what)

    def worker_stopped(self, folder, what):
        run = Run(folder, "--job-limit", "3")
        wait_for_rows(run, 1 + self.draw.randrange(len(self.listed) - 1))
        time.sleep(self.draw.random() * 0.05)
        before = {n: row for n, (_, row) in lines_of(run.journal).items()}
        worker = run.worker()
        if worker:
            send(worker, signal.SIGSTOP)
            time.sleep(5)
            if alive(worker):  # between two jobs
                send(worker, signal.SIGCONT)
        status = run.wait()
        check(status in (0, 1), f"{what}: status {status}: {run.said()[-500:]}")
        self.check_result(folder, before, what, may_fail=1)

    def interrupted(self, folder, what):
        run = Run(folder)
        self.wait_for_moment(run)
        run.process.send_signal(self.draw.choice([signal.SIGINT, signal.SIGTERM]))
        status = run.wait()
        check(status in (0, 130) or status < 0, f"{what}: status {status}: {run.said()[-500:]}")
        before = {n: row for n, (_, row) in lines_of(run.journal).items()} if status else {}
        if status == 130 and os.path.exists(run.result):
            jobs = {job["name"]: job for job in load(run.result)["jobs"]}
            check(all(jobs[n]["status"] == "ok" for n in before), f"{what}: finished rows are not in the result")
        self.check_result(folder, before, what)

    def disk_full(self, folder, what):
        size = 40_000 + self.draw.randrange(60_000)
        place, limit = folder, size
        if self.draw.random() < 0.5:
            place = os.path.join(folder, "disk")
            os.mkdir(place)
            mount = ["mount", "-t", "tmpfs", "-o", f"size={size // 4096 * 4}k", "tmpfs", place]
            if subprocess.run(mount, stderr=subprocess.DEVNULL).returncode == 0:
                limit = None
            else:
                os.rmdir(place)
                place = folder
        try:
            run = Run(folder if limit else place, limit=limit)
            status = run.wait()
            before = {n: row for n, (_, row) in lines_of(run.journal).items()} if status else {}
            if status:
                check(re.search("cannot write|No space|too large", run.said()), f"{what}: says {run.said()[-300:]}")
            if not limit:
                subprocess.run(["mount", "-o", "remount,size=64m", place], check=True)
            self.check_result(place, before, what + f" ({'tmpfs' if not limit else 'limit'} of {size} bytes)")
        finally:
            if not limit:
                run.log.close()
                subprocess.run(["umount", "-l", place], check=True)

    def journal_damaged(self, folder, what):
        before = self.kill_all(folder, what)
        journal = os.path.join(folder, "r.json.journal")
        if os.path.exists(os.path.join(folder, "r.json")) or not os.path.exists(journal):
            return
        with open(journal, "rb") as file:
            text = bytearray(file.read())
        if not text:
            return
        kind = self.draw.choice(["bit", "byte", "zeros", "cut", "line", "twice"])
        at = self.draw.randrange(len(text))
        if kind == "bit":
            text[at] ^= 1 << self.draw.randrange(8)
        elif kind == "byte":
            text[at] = self.draw.randrange(256)
        elif kind == "zeros":
            text[at:at + 64] = bytes(len(text[at:at + 64]))
        elif kind == "cut":
            del text[at:]
        else:
            lines = bytes(text).split(b"\n")
            line = self.draw.randrange(len(lines))
            lines[line:line + 1] = [] if kind == "line" else [lines[line]] * 2
            text = bytearray(b"\n".join(lines))
        with open(journal, "wb") as file:
            file.write(text)
        whole = bytes(text).split(b"\n")[:-1]
        kept = {n: before[n] for n, (line, _) in self.undamaged(whole).items() if n in before and line}
        self.check_result(folder, kept, f"{what} ({kind} at {at})")

    @staticmethod
    def undamaged(lines):
        rows = {}
        for line in lines:
            if line.startswith(b'{"job":') and line.endswith(b'"}'):
                body, _, seal = line.rpartition(b',"checksum":"')
                value = 0xcbf29ce484222325
                for c in body:
                    value = (value ^ c) * 0x100000001b3 & 0xffffffffffffffff
                if seal == b'%016x"}' % value:
                    rows[json.loads(line)["job"]["name"]] = (line, None)
        return rows

    def run(self, count):
        kinds = [self.killed, self.worker_killed, self.journal_damaged, self.disk_full, self.interrupted,
                 self.worker_stopped]
        done = collections.Counter()
        for i in range(count):
            kind = kinds[i % len(kinds)]
            with tempfile.TemporaryDirectory() as folder:
                kind(folder, f"point {i}, {kind.__name__}")
            done[kind.__name__] += 1
        print(f"{count} points ({', '.join(f'{n} {k}' for k, n in done.items())}): "
              f"of {self.finished} rows that had finished {self.lost} were lost")


def points(options):
    Points(options).run(options.count)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=["planted", "hang", "points"])
    parser.add_argument("--count", type=int, default=int(os.environ.get("DUET_FAULT_POINTS", "6")))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    {"planted": planted, "hang": hang, "points": points}[arguments.part](arguments)
    print("passed" if not failures else f"{len(failures)} failures")
    sys.exit(1 if failures else 0)
