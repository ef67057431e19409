#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""duet profile and duet explain as commands. DUET_BIN: the folder of the programs.

On the CPU with the tools that are here. For a GPU, and for tools that fail, programs of their names stand in: they
write the fixtures of the documented formats (tests/profile/fixtures).
"""
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile

BIN = os.path.abspath(os.environ.get("DUET_BIN", "build/bin"))
FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
GPU_JOB = "softmax/cuda.tuned/f32/rows:64/cols:1000"
failures = []


def check(condition, message):
    if not condition:
        failures.append(message)
        print("FAILED:", message[:2000], flush=True)
    return condition


def duet(*args, status=0, path=None, env=None, cwd=None):
    environment = {**os.environ, **(env or {})}
    if path:
        environment["PATH"] = path
    done = subprocess.run([os.path.join(BIN, "duet"), *args], capture_output=True, text=True, timeout=300,
                          env=environment, cwd=cwd)
    check(done.returncode == status, f"duet {' '.join(args)}: status {done.returncode}, not {status}: "
                                     f"{done.stderr[-1500:]}{done.stdout[-1500:]}")
    return done


def stand_in(folder, name, script):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write("#!/bin/bash\n" + script)
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


def has(text, *parts):
    for part in parts:
        check(part in text, f"'{part}' is not in: {text[-3000:]}")


def profiles_a_step_here(folder):
    out = os.path.join(folder, "step")
    done = duet("profile", "step/mlp/cpu/f32/batch:2", "-o", out, "--runs", "20", "--tool", "recorder")
    has(done.stdout, "$ ", "bench_all --profile=20", "by phase", "forward", "gaps between ops", "by op", "top limiter:",
        "files: " + out)
    check(sorted(os.listdir(out)) == ["summary.txt", "trace.json"], f"{os.listdir(out)}")
    with open(os.path.join(out, "summary.txt")) as file:
        has(file.read(), "top limiter:", "$ ")

    if shutil.which("perf"):
        done = duet("profile", "gemm/cpu.tuned/f32/m:256/n:256/k:256", "-o", out, "--runs", "400", "--tool", "perf",
                    status=0 if perf_works(folder) else 77)
        if perf_works(folder):
            has(done.stdout, "--- functions", "samples of", "top function:", "--- counters", "instructions")
            check("perf.data" in os.listdir(out) and "perf.commands" not in os.listdir(out), f"{os.listdir(out)}")
        else:
            has(done.stdout, "perf: unavailable (")


def perf_works(folder):
    data = os.path.join(folder, "probe.data")
    return subprocess.run(["perf", "record", "-q", "-o", data, "true"], capture_output=True).returncode == 0


def stands_in_for_tools_of_the_cpu(folder):
    tools, out = os.path.join(folder, "tools"), os.path.join(folder, "cpu")
    os.mkdir(tools)
    stand_in(tools, "perf", "echo 'Consider adjusting /proc/sys/kernel/perf_event_paranoid' >&2; exit 255\n")
    stand_in(tools, "valgrind", 'for a; do case $a in --callgrind-out-file=*) cp "' + FIXTURES +
             '/callgrind.out" "${a#*=}";; esac; done\n')
    path = tools + ":/usr/bin:/bin"
    done = duet("profile", "relu/cpu.tuned/f32/n:1000", "-o", out, path=path)
    has(done.stdout, "perf: unavailable (not allowed: sysctl kernel.perf_event_paranoid=2", "--tool=callgrind",
        "150 instructions", "duet::relu")
    stand_in(tools, "valgrind", "echo no such luck; exit 3\n")
    done = duet("profile", "relu/cpu.tuned/f32/n:1000", "-o", out, "--tool", "valgrind", path=path, status=77)
    has(done.stdout, "valgrind: unavailable (it ended with status 3: no such luck)")
    stand_in(tools, "perf", "sleep 30\n")
    done = duet("profile", "relu/cpu.tuned/f32/n:1000", "-o", out, "--tool", "perf", "--limit", "1", path=path, status=77)
    has(done.stdout, "did not finish within 1 s")


def stands_in_for_a_gpu(folder):
    tools, out = os.path.join(folder, "gpu_tools"), os.path.join(folder, "gpu")
    os.mkdir(tools)
    trace = os.path.join(folder, "made.json")
    with open(trace, "w") as file:
        json.dump({"traceEvents": [], "otherData": {}}, file)
    bench = stand_in(tools, "bench", 'while [ $# -gt 0 ]; do [ "$1" != --trace ] || cp ' + trace + ' "$2"; shift; done\n')
    stand_in(tools, "nsys", f'''
case "$1 $2" in
  "profile --help") echo "  --cuda-graph-trace=  --cpuctxsw=" ;;
  profile*) for a; do case $a in --output=*) echo > "${{a#*=}}.nsys-rep" ;; esac; done ;;
  stats*) for a; do case $a in --output=*) for r in nvtx_gpu_proj_sum cuda_gpu_kern_sum cuda_gpu_mem_time_sum cuda_gpu_trace; do
            cp {FIXTURES}/$r.csv "${{a#*=}}_$r.csv"; done ;; esac; done ;;
esac
''')
    stand_in(tools, "ncu", f'''
case "$*" in
  *--import*) cat {FIXTURES}/ncu_details.csv ;;
  *) while [ $# -gt 0 ]; do [ "$1" != --export ] || echo > "$2.ncu-rep"; shift; done ;;
esac
''')
    path = tools + ":/usr/bin:/bin"
    done = duet("profile", GPU_JOB, "-o", out, "--bench", bench, path=path)
    has(done.stdout, "--capture-range=cudaProfilerApi --capture-range-end=stop", "--cuda-graph-trace=node",
        "--report=nvtx_gpu_proj_sum", "top limiter: sm90_xmma_gemm_f32f32_tn", "duet@measure/",
        "--section MemoryWorkloadAnalysis", "--section WarpStateStats", "top limiter: memory of softmax_kernel")
    check("ComputeWorkloadAnalysis" not in done.stdout, "no kernel of the fixture is bound by arithmetic")

    stand_in(tools, "ncu", "echo '==ERROR== ERR_NVGPUCTRPERM - no permission' >&2; exit 1\n")
    done = duet("profile", GPU_JOB, "-o", out + "2", "--bench", bench, path=path)
    has(done.stdout, "ncu: unavailable (counters are not permitted", "NVreg_RestrictProfilingToAdminUsers=0",
        "top limiter: sm90_xmma")
    done = duet("profile", GPU_JOB, "-o", out + "3", "--bench", bench, "--tool", "nsys", path="/usr/bin:/bin",
                status=77)
    has(done.stdout, "nsys: unavailable (not installed")
    stand_in(tools, "bench", "echo 'bench_all: --device gpu: no CUDA driver'; exit 77\n")
    done = duet("profile", GPU_JOB, "-o", out + "4", "--bench", bench, path=path, status=77)
    has(done.stdout, "no CUDA driver")
    check(not os.path.exists(out + "4/summary.txt"), "a summary of nothing")


def refuses(folder):
    def one_line(pattern, *args, status=2, env=None):
        done = duet(*args, status=status, env=env, cwd=folder)
        check(done.stderr.count("\n") == 1 and pattern in done.stderr, f"{args}: '{pattern}' is not in {done.stderr}")

    one_line("did you mean softmax", "profile", "sofmax")
    one_line("did you mean step/lenet", "profile", "step/lennet")
    one_line("a side, cpu, gpu or gpu.graph", "profile", "step/lenet/tpu")
    one_line("an implementation", "profile", "softmax/f32")
    one_line("a profiler is attached already", "profile", "softmax", env={"CUDA_INJECTION64_PATH": "/opt/nsys.so"})
    one_line("is no program", "profile", "softmax", "--bench", "/nonexistent")
    one_line("cannot be made a folder", "profile", "softmax", "-o", "/dev/null/p")
    one_line("missing.json: cannot be opened", "explain", "softmax", "missing.json")
    one_line("JOB", "explain")
    done = duet("profile", "step/lenet", "-o", os.path.join(folder, "dry"), "--dry-run")
    has(done.stdout, "bench_all --profile=10 --case step/lenet/")


def main():
    with tempfile.TemporaryDirectory() as folder:
        profiles_a_step_here(folder)
        stands_in_for_tools_of_the_cpu(folder)
        stands_in_for_a_gpu(folder)
        refuses(folder)
    if not failures:
        print("passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
