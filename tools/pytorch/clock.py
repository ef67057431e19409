# SPDX-License-Identifier: Apache-2.0
"""Times a call and notices other processes: on a shared machine, fork-join code becomes many times slower beside another
process's thread."""
import contextlib
import os
import signal
import time

MAX_WAITED = 0.03  # share of a sample's time for which our threads may have waited for a core
SAMPLE_S = 200e-6
WARM_UP_S = 0.05
MAX_SAMPLES, MIN_CLEAN = 100, 3
MAX_BUDGETS = 4   # that a disturbed measurement may take until it has enough clean samples


def waited_s():
    """How long threads of this process were ready to run and had no core; 0 where the kernel does not say."""
    nanoseconds = 0
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/schedstat") as file:
                nanoseconds += int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        pass
    return nanoseconds * 1e-9


@contextlib.contextmanager
def limit(seconds):
    """Raises TimeoutError after this many seconds; 0: never."""
    def late(*_):
        raise TimeoutError(f"not done after {seconds} s")
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def measure(call, budget_s, before=None):
    """Seconds of one call: the median of the undisturbed samples. Where there are too few, the smallest sample (a mean would
    be dominated by the disturbance), with `disturbed` set. before() runs ahead of each sample and is not counted."""
    spent, calls = 0.0, 0
    while spent < WARM_UP_S or calls < 3:
        start = time.perf_counter()
        call()
        once = time.perf_counter() - start
        spent, calls = spent + once, calls + 1
        if calls >= 2 and spent > 4 * budget_s:  # a long step: few calls are enough
            break
    batch = max(1, int(SAMPLE_S / once))
    every, clean, start = [], [], time.perf_counter()
    while True:
        passed = time.perf_counter() - start
        if len(every) >= MIN_CLEAN and (passed > (budget_s if len(clean) >= MIN_CLEAN else MAX_BUDGETS * budget_s)
                                           or len(clean) >= MAX_SAMPLES):
            break
        if before:
            before()
        waited, began = waited_s(), time.perf_counter()
        for _ in range(batch):
            call()
        elapsed = time.perf_counter() - began
        every.append(elapsed / batch)
        if waited_s() - waited < MAX_WAITED * elapsed:
            clean.append(elapsed / batch)
    enough = len(clean) >= MIN_CLEAN
    return {"seconds": median(clean) if enough else min(every), "disturbed": not enough, "min_s": min(every),
            "samples": len(every), "clean": len(clean)}
