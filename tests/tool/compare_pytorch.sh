#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/compare_pytorch without PyTorch: what it refuses, that it says what is missing, that every op has a form or a reason, and,
# with a stand-in for a process of PyTorch, the table and the rounds. With PyTorch (DUET_PYTORCH_VENV): that a small case gets a
# ratio, and that some forms are right.
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

job() { # IMPLEMENTATION COMPARABLE REASON SECONDS
  printf '{"name": "add/%s/f32/n:1024", "op": "add", "family": "elementwise", "impl": "%s", "device": "cpu", "dtype": "f32", "status": "ok",
    "comparable": %s, "reason": "%s", "params": {"n": 1024}, "step": null,
    "series": [{"scope": "call", "cache": "warm", "threads": 1, "flags": [], "summary": {"median_s": %s}}]}' "$1" "$1" "$2" "$3" "$4"
}
printf '{"duet": {"schema": 2, "run": {}, "build": {}, "machine": {}, "jobs": [%s, %s, %s]}}' \
  "$(job cpu.slow true '' 0.2)" "$(job cpu.tuned true '' 0.1)" "$(job reference false 'it is for checking' 0.01)" > run.json
head -c 100 run.json > cut.json
sed 's/"schema": 2/"schema": 4/' run.json > newer.json
sed 's/"schema": 2/"schema": 1/' run.json > older.json
echo '{"context": {}, "benchmarks": []}' > foreign.json

expects 77 'no PyTorch in .*--install' run.json
expects 2 'required: RESULT.json'
expects 2 'unrecognized arguments: --no-such-flag' run.json --no-such-flag
expects 2 'cannot read missing.json: No such file' missing.json
expects 2 'cut.json: not JSON' cut.json
expects 2 'newer.json: schema 4 is newer than the 3' newer.json
expects 2 'older.json: schema 1 holds no verdicts: measure again' older.json
expects 2 'foreign.json: no run file' foreign.json
expects 2 "no comparable CPU case .* matches 'gemm'" run.json --filter gemm
expects 2 "filter '\[' is not a regular" run.json --filter '['
expects 2 'threads 100000 is not within' run.json --threads 100000
expects 2 'cannot write missing/out.json' run.json --json missing/out.json
expects 2 'rounds 0 is not 1 or more' run.json --interleave --rounds 0
expects 2 'min-time 0.0 is not above 0' run.json --min-time 0
expects 2 'bench missing: no program' run.json --interleave --bench missing
expects 2 'self-check no_such_op: no such op; known are .*softmax' --self-check no_such_op
expects 2 'duet missing: no program' --self-check add --duet missing
expects 77 'no PyTorch in .*--install' --self-check add --duet "$duet"
[ ! -e "$DUET_PYTORCH_VENV" ] || fail "an environment was made without --install"

# Jobs without a number to compare are listed with the run's reason; of a step, Duet's memory is read, too.
python3 - run.json << 'PYTHON' || fail 'what is left out'
import copy, json, os, sys
sys.path.insert(0, os.path.join(os.environ["DUET_SOURCE"], "tools"))
sys.dont_write_bytecode = True
from pytorch import run_file
document = json.load(open(sys.argv[1]))
jobs = document["duet"]["jobs"]
slow, tuned, _ = jobs
tuned.update(comparable=False, reason="call, cold, 1 thread: 112 % of its roof (cpu.copy)")  # every verdict is the run's
jobs.append(dict(copy.deepcopy(slow), impl="cpu.wrong", status="failed", comparable=False, reason="element 3 is wrong", series=[]))
jobs.append(dict(copy.deepcopy(slow), impl="cpu.onednn_packed"))
jobs[-1]["series"][0]["summary"]["median_s"] /= 10
jobs.append(dict(copy.deepcopy(slow), impl="cpu.other", status="skipped", comparable=False, reason="not built", series=[]))
slow["step"] = {"peak_memory_bytes": 4096}
slow["series"][0]["flags"] = ["disturbed"]
json.dump(document, open("suspect.json", "w"))
run = run_file.load("suspect.json")
case, packed = run.cases(1, "")
assert (case.implementation, case.peak_memory_bytes, case.disturbed, case.may_pack) == ("cpu.slow", 4096, True, False), vars(case)
assert (packed.name(), packed.implementation, packed.may_pack) == ("add+packed/f32/n:1024", "cpu.onednn_packed", True), vars(packed)
suspect, reference, wrong = run.left_out("add")
assert suspect["case"] == "add/f32/n:1024" and suspect["reason"].startswith("cpu.tuned: call, cold, 1 thread: 112 %"), suspect
assert wrong["reason"] == "cpu.wrong: element 3 is wrong", wrong
assert run.left_out("gemm") == []
PYTHON

# Every op of the registry, every step and every inference has a form, or a reason why PyTorch has none.
"$DUET_BIN/bench_all" --list --json --filter '^(step|infer)/' --device cpu > steps.json || fail 'list of the steps'
python3 - steps.json << 'PYTHON' || fail 'ops without a form and a reason (tools/pytorch/forms/)'
import json, os, sys
source = os.environ["DUET_SOURCE"]
sys.path.insert(0, os.path.join(source, "tools"))
sys.dont_write_bytecode = True
from pytorch import forms
ops = {line.split()[0] for line in open(os.path.join(source, "ops", "registry_golden.txt")) if not line.startswith("#")}
ops |= {job["op"] for job in json.load(open(sys.argv[1]))}
ops |= {op["op"] for op in json.load(open(os.path.join(source, "ops", "catalogue.json")))["ops"]}  # those still to come, too
without = sorted(ops - set(forms.FORMS) - set(forms.ABSENT))
assert len(ops) > 70 and not without, without
assert all(forms.ABSENT.values()) and not set(forms.ABSENT) & set(forms.FORMS)
assert all(op in forms.FORMS and backward in forms.FORMS for op, backward in forms.PAIRS.items())
assert "torch" not in sys.modules
PYTHON

# A stand-in for the environment's Python: each case takes 0.2 s, or has no form.
mkdir -p stand_in/bin
cat > stand_in/bin/python << 'PYTHON'
#!/usr/bin/env python3
import json, sys
import os, signal, time
cases = json.load(sys.stdin)["cases"]
work = "/".join(sys.argv[0].split("/")[:-3])
open(work + "/turns", "a").write("torch\n")
if os.path.exists(work + "/interrupt") and cases[0]["op"] == "copy":
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(30)
timed = {"torch": "add out=", "torch_s": 0.2, "torch_min_s": 0.2, "samples": 9, "clean": 9, "torch_disturbed": True}
json.dump({"facts": {"torch": "0", "isa": "none", "onednn": "0", "mkl": "0", "flush_denormal": True, "allocator": "none"},
           "rows": [{"case": c["name"]} | (timed | ({"torch_peak_bytes": 8192} if c["peak_memory_bytes"] else {}) if c["op"] == "add" else {"reason": "PyTorch has no such op"}) for c in cases]},
          sys.stdout)
PYTHON
cat > bench << BENCH
#!/usr/bin/env bash
echo duet >> $work/turns
echo "\$*" > $work/asked
exec "$DUET_BIN/bench_all" "\$@"
BENCH
chmod +x stand_in/bin/python bench
sed 's/add\/cpu/copy\/cpu/; s/"op": "add"/"op": "copy"/' run.json > other.json
"$compare" run.json --venv stand_in --json out.json > table || fail "with a stand-in: $(cat table)"
grep -qE '^add/f32/n:1024 +cpu.tuned +100 +add out= +200\* +2.00$' table || fail "no row in: $(cat table)"
grep -q 'Geometric means' table && fail "a mean of a disturbed row in: $(cat table)"
"$compare" other.json --venv stand_in > table && fail "status 0 without a ratio: $(cat table)"
grep -q '^not compared: copy/f32/n:1024: PyTorch has no such op$' table || fail "no reason in: $(cat table)"
rm -f turns
"$compare" run.json --venv stand_in --interleave --rounds 3 --bench ./bench --min-time 0.03 --json out.json > table 2> progress ||
  fail "interleaved: $(cat table progress)"
[ "$(tr '\n' ' ' < turns)" = 'duet torch torch duet duet torch ' ] || fail "turns: $(tr '\n' ' ' < turns)"
grep -qE '^elementwise +1 +0 +[0-9]+\.[0-9]+ +[0-9.]+ +add/f32/n:1024$' table || fail "no mean of the family in: $(cat table)"
python3 -c '
import json
(row, *_), families = (json.load(open("out.json"))[k] for k in ("rows", "families"))
assert len(row["ratios"]) == 3 and min(row["ratios"]) > 1000 and sorted(row["ratios"])[1] == row["ratio"], row
assert families["elementwise"]["cases"] == 1 and abs(families["elementwise"]["mean"] / row["ratio"] - 1) < 1e-9, families' ||
  fail "interleaved rows: $(cat out.json)"

# Memory is asked for once, in the first round.
sed 's/"step": null/"step": {"peak_memory_bytes": 4096}/' run.json > peaks.json
"$compare" peaks.json --venv stand_in --interleave --rounds 2 --bench ./bench --min-time 0.03 --json out.json > table 2> progress ||
  fail "interleaved, with memory: $(cat table progress)"
grep -qE '^add/f32/n:1024 +0.004096 +0.008192 +2.00$' table || fail "no memory in: $(cat table)"

# An interrupt in the second of three groups: the first has its row, the others a reason.
python3 - run.json > three.json << 'PYTHON'
import copy, json, sys
document = json.load(open(sys.argv[1]))
for op in ("copy", "relu"):
    document["duet"]["jobs"].append(dict(copy.deepcopy(document["duet"]["jobs"][1]), name=op + "/cpu.tuned/f32/n:1024", op=op))
json.dump(document, sys.stdout)
PYTHON
touch interrupt
env --default-signal=INT "$compare" three.json --venv stand_in --interleave --rounds 1 --bench ./bench --min-time 0.03 --json out.json > table 2> progress
status=$?
rm interrupt
[ "$status" = 130 ] || fail "interrupted: status $status, $(cat table progress)"
grep -qE '^add/f32/n:1024 +cpu.tuned ' table || fail "interrupted: no row in: $(cat table)"
for op in copy relu; do
  grep -q "^not compared: $op/f32/n:1024: the comparison was interrupted$" table || fail "interrupted: no reason of $op in: $(cat table)"
done
grep -q interrupted out.json || fail "interrupted: nothing written"

grep -q -- --choose asked && fail "chosen without being asked: $(cat asked)"
sed 's/"run": {}/"run": {"argv": ["bench_all", "--choose", "measured"]}/' run.json > chosen.json
"$compare" chosen.json --venv stand_in --interleave --rounds 1 --bench ./bench --min-time 0.03 > table 2> progress ||
  fail "interleaved, with a choice: $(cat table progress)"
grep -q -- '--choose measured$' asked || fail "the run's choice is not repeated: $(cat asked)"

# A run that also has a study, which PyTorch has no form of: listed, and neither side gets a turn for it.
python3 - run.json > mixed.json << 'PYTHON'
import copy, json, sys
document = json.load(open(sys.argv[1]))
study = copy.deepcopy(document["duet"]["jobs"][1])
study.update(name="study/allocation/cpu.arena/f32/pages:1", op="study/allocation", family="study", impl="cpu.arena", params={"pages": 1})
document["duet"]["jobs"].insert(0, study)
json.dump(document, sys.stdout)
PYTHON
rm -f turns
"$compare" mixed.json --venv stand_in --interleave --rounds 1 --bench ./bench --min-time 0.03 > table 2> progress ||
  fail "interleaved, with a study: $(cat table progress)"
[ "$(tr '\n' ' ' < turns)" = 'duet torch ' ] || fail "turns beside a study: $(tr '\n' ' ' < turns)"
grep -qE '^add/f32/n:1024 +cpu.tuned ' table || fail "no row beside a study in: $(cat table)"
grep -q '^not compared: study/allocation/f32/pages:1: a study of the machine' table || fail "no reason in: $(cat table)"
"$compare" mixed.json --filter '^study/' --venv stand_in --interleave --bench ./bench > table 2> progress &&
  fail "status 0 with studies alone: $(cat table)"
grep -q '^not compared: study/allocation' table || fail "studies alone: $(cat table progress)"
python3 - << 'PYTHON' || fail 'names of jobs'
import os, sys
sys.path.insert(0, os.path.join(os.environ["DUET_SOURCE"], "tools"))
sys.dont_write_bytecode = True
from pytorch import interleave
for job, case in {"softmax/cpu.tuned/f32/rows:64/cols:8": "softmax f32/rows:64/cols:8", "step/mlp/cpu.tuned/f32/batch:32": "step/mlp f32/batch:32", "infer/mlp/cpu.tuned/f32/batch:1": "infer/mlp f32/batch:1",
                  "study/allocation/cpu.arena/f32/pages:1": "study/allocation f32/pages:1"}.items():
    assert interleave.case_of(job) == case, interleave.case_of(job)
    assert interleave.words_of(job)[1].startswith("cpu."), job
PYTHON

sed -i 's/^import json, sys/import sys; sys.exit(1)/' stand_in/bin/python
expects 77 'pytorch.turn ended with status 1 and no answer' run.json --venv stand_in

if [ -n "$given_venv" ]; then
  export DUET_PYTORCH_VENV=$given_venv
  "$compare" run.json --min-time 0.02 --json out.json > table 2> progress || fail "with PyTorch: $(cat table progress)"
  grep -qE '^add/f32/n:1024 +cpu.tuned +100\*? +add out= ' table || fail "no row in: $(cat table)"
  grep -q '"ratio"' out.json || fail "no ratio in: $(cat out.json)"
  "$compare" suspect.json --min-time 0.02 > table 2> progress || fail "beside a suspect: $(cat table progress)"
  grep -q '^not compared: add/f32/n:1024: cpu.tuned: call, cold, 1 thread: 112 %' table || fail "no reason in: $(cat table)"
  sed 's/"add\/cpu/"step\/toy\/cpu/; s/"op": "add"/"op": "step\/toy"/; s/"n": 1024/"batch": 4/' run.json > step.json
  sed -i 's/"step": null/"step": {"peak_memory_bytes": 1000000}/; s/"step\/toy\/cpu.slow/"slow/' step.json
  "$compare" step.json --min-time 0.02 --json out.json > table 2> progress || fail "a step: $(cat table progress)"
  grep -qE '^step/toy/f32/batch:4 +1 +[0-9.]+ +[0-9.]+$' table || fail "no peak of memory in: $(cat table)"
  sed 's/"add\/cpu.tuned/"conv2d\/cpu.onednn_packed/; s/"op": "add"/"op": "conv2d"/; s/"impl": "cpu.tuned"/"impl": "cpu.onednn_packed"/
    s/"n": 1024/"n": 1, "c": 256, "h": 14, "w": 14, "k": 256, "r": 3, "s": 3/' run.json > packed.json
  "$compare" packed.json --min-time 0.02 > table 2> progress || fail "packed weights: $(cat table progress)"
  grep -qE '^conv2d\+packed/f32/.* +cpu.onednn_packed +100\*? +mkldnn, w prepacked ' table || fail "no packed row in: $(cat table)"
  grep -qE '^conv2d/f32/.* +cpu.slow +200\*? +conv2d' table || fail "no row beside it in: $(cat table)"
  "$compare" --self-check softmax_backward lstm adamw --duet "$duet" > table 2> progress || fail "self-check: $(cat table progress)"
  grep -qE '^[1-9][0-9]* right, 0 wrong or failed$' table || fail "self-check: $(cat table)"
fi
finish
