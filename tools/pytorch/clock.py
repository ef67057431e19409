# SPDX-License-Identifier: Apache-2.0
"""A clock that knows when it was disturbed: on a shared machine, fork-join code collapses beside a foreign thread."""
import contextlib
import os
import signal
import time

QUIET = 0.03      # of a sample's time, that our threads may have waited for a core
SAMPLE_S = 200e-6
WARM_UP_S = 0.05
MOST_SAMPLES, FEWEST_CLEAN = 100, 3
PATIENCE = 4      # budgets that a disturbed measurement may take in the hope of quiet


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
    """Raises TimeoutError after so many; 0: never."""
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


def measure(call, budget_s):
    """Seconds a call: the median of the undisturbed samples. Without enough of them the smallest sample, which is kinder to
    what is measured than any mean of a collapse, and `disturbed`."""
    spent, calls = 0.0, 0
    while spent < WARM_UP_S or calls < 3:
        start = time.perf_counter()
        call()
        once = time.perf_counter() - start
        spent, calls = spent + once, calls + 1
        if calls >= 2 and spent > 4 * budget_s:  # a long step, which few calls must do for
            break
    batch = max(1, int(SAMPLE_S / once))
    every, clean, start = [], [], time.perf_counter()
    while True:
        passed = time.perf_counter() - start
        if len(every) >= FEWEST_CLEAN and (passed > (budget_s if len(clean) >= FEWEST_CLEAN else PATIENCE * budget_s)
                                           or len(clean) >= MOST_SAMPLES):
            break
        waited, began = waited_s(), time.perf_counter()
        for _ in range(batch):
            call()
        elapsed = time.perf_counter() - began
        every.append(elapsed / batch)
        if waited_s() - waited < QUIET * elapsed:
            clean.append(elapsed / batch)
    enough = len(clean) >= FEWEST_CLEAN
    return {"seconds": median(clean) if enough else min(every), "disturbed": not enough, "min_s": min(every),
            "samples": len(every), "clean": len(clean)}
