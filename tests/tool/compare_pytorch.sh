#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/compare_pytorch without PyTorch: what it refuses, and that it says what is missing. With one
# (DUET_PYTORCH_VENV): that a small case gets a ratio.
source "$(dirname "$0")/common.bash"
command -v python3 > /dev/null || { echo "skipped: no python3"; exit 77; }
compare=${DUET_SOURCE:?}/tools/compare_pytorch
given_venv=${DUET_PYTORCH_VENV:-}
export DUET_PYTORCH_VENV=$work/none

expects() { # STATUS PATTERN ARGUMENT...: one line in all
  local status=$1 pattern=$2 got
  shift 2
  "$compare" "$@" > said 2>&1
  got=$?
  [ "$got" = "$status" ] || fail "compare_pytorch $*: status $got, not $status: $(cat said)"
  [ "$(wc -l < said)" = 1 ] || fail "compare_pytorch $*: not one line: $(cat said)"
  grep -qE -- "$pattern" said || fail "compare_pytorch $*: no match of '$pattern' in: $(cat said)"
}

job() { # IMPLEMENTATION STATUS SECONDS
  printf '{"name": "add/%s/f32/n:1024", "op": "add", "impl": "%s", "device": "cpu", "dtype": "f32", "status": "%s",
    "params": {"n": 1024}, "series": [{"scope": "call", "cache": "warm", "threads": 1, "repetitions": [{"flags": []}],
    "summary": {"median_s": %s}}]}' "$1" "$1" "$2" "$3"
}
printf '{"duet": {"schema": 1, "run": {}, "build": {}, "machine": {}, "jobs": [%s, %s, %s]}}' \
  "$(job cpu.slow ok 0.2)" "$(job cpu.tuned ok 0.1)" "$(job reference ok 0.01)" > run.json
head -c 100 run.json > cut.json
sed 's/"schema": 1/"schema": 2/' run.json > newer.json
echo '{"context": {}, "benchmarks": []}' > foreign.json

expects 77 'no PyTorch in .*--install' run.json
expects 2 'required: RESULT.json'
expects 2 'unrecognized arguments: --no-such-flag' run.json --no-such-flag
expects 2 'cannot read missing.json: No such file' missing.json
expects 2 'cut.json: not JSON' cut.json
expects 2 'newer.json: schema 2; up to 1' newer.json
expects 2 'foreign.json: no run file' foreign.json
expects 2 "no verified CPU case .* matches 'gemm'" run.json --filter gemm
expects 2 "filter '\[' is not a regular" run.json --filter '['
expects 2 'threads 100000 is not within' run.json --threads 100000
expects 2 'cannot write missing/out.json' run.json --json missing/out.json
[ ! -e "$DUET_PYTORCH_VENV" ] || fail "an environment was made without --install"

# What has no number to compare is said with its reason; of a step, Duet's memory is read too.
python3 - run.json << 'PYTHON' || fail 'what is left out'
import copy, json, os, sys
sys.path.insert(0, os.path.join(os.environ["DUET_SOURCE"], "tools"))
sys.dont_write_bytecode = True
from pytorch import run_file
document = json.load(open(sys.argv[1]))
assert run_file.load(sys.argv[1]).left_out("") == []
jobs = document["duet"]["jobs"]
slow, tuned, _ = jobs
tuned["series"].append(dict(copy.deepcopy(tuned["series"][0]), cache="cold", flags=["suspect"],
                            roof={"fraction": 1.12, "ceiling": "cpu.copy"}))  # one suspect series keeps the job out
jobs.append(dict(copy.deepcopy(slow), impl="cpu.wrong", status="failed", reason="element 3 is wrong", series=[]))
document["duet"]["steps"] = [{"job": slow["name"], "memory_peak": 4096}]
json.dump(document, open("suspect.json", "w"))
run = run_file.load("suspect.json")
case, = run.cases(1, "")
assert (case.implementation, case.peak_bytes) == ("cpu.slow", 4096), vars(case)
suspect, wrong = run.left_out("add")
assert suspect["case"] == "add/f32/n:1024" and "cpu.tuned is suspect: 112 % of its roof (cpu.copy)" in suspect["reason"], suspect
assert "cpu.wrong failed in the run: element 3 is wrong" in wrong["reason"], wrong
assert run.left_out("gemm") == []
PYTHON

if [ -n "$given_venv" ]; then
  export DUET_PYTORCH_VENV=$given_venv
  "$compare" run.json --min-time 0.02 --json out.json > table 2> progress || fail "with PyTorch: $(cat table progress)"
  grep -qE '^add/f32/n:1024 +cpu.tuned +100\*? +add out= ' table || fail "no row in: $(cat table)"
  grep -q '"ratio"' out.json || fail "no ratio in: $(cat out.json)"
  "$compare" suspect.json --min-time 0.02 > table 2> progress || fail "beside a suspect: $(cat table progress)"
  grep -q '^not compared: add/f32/n:1024: cpu.tuned is suspect: 112 %' table || fail "no reason in: $(cat table)"
  sed 's/"add\/cpu/"step\/toy\/cpu/; s/"op": "add"/"op": "step\/toy"/; s/"n": 1024/"batch": 4/' run.json > step.json
  sed -i 's/"jobs"/"steps": [{"job": "step\/toy\/cpu.tuned\/f32\/n:1024", "memory_peak": 1000000}], "jobs"/; s/"step\/toy\/cpu.slow/"slow/' step.json
  "$compare" step.json --min-time 0.02 --json out.json > table 2> progress || fail "a step: $(cat table progress)"
  grep -qE '^step/toy/f32/batch:4 +1 +[0-9.]+ +[0-9.]+$' table || fail "no peak of memory in: $(cat table)"
fi
finish
