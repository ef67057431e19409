#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_all from the outside: what it lists, refuses, writes, and how it survives interrupts and crashes.
source "$(dirname "$0")/common.bash"
bench=${DUET_BIN}/bench_all
small=(--scale smoke --device cpu --filter '^(relu/cpu.tuned|step/mlp/cpu)')

# says STATUS PATTERN ARGUMENT...: bench_all leaves with STATUS, says something that matches on standard error, writes no file.
says() {
  local status=$1 pattern=$2 got
  shift 2
  timeout 300 "$bench" "$@" > stdout 2> stderr
  got=$?
  [ "$got" = "$status" ] || fail "bench_all $*: status $got, not $status: $(cat stderr)"
  [ "$(wc -l < stderr)" = 1 ] || fail "bench_all $*: not one line: $(cat stderr)"
  grep -qE -- "$pattern" stderr || fail "bench_all $*: no match of '$pattern' in: $(cat stderr)"
  [ "$(find . -type f ! -name 'std*' ! -name 'kept*' | wc -l)" = 0 ] || fail "bench_all $*: left $(find . -type f ! -name 'std*')"
}
says 2 'no-such' --no-such
says 2 'benchmark_perf_counters' --benchmark_perf_counters=CYCLES
says 2 'only json' --benchmark_out_format=csv
says 2 "tiny not in .smoke,quick,sweep,standard,full" --scale tiny
says 2 "tpu not in .cpu,gpu,all" --device tpu
says 2 "warp not in .kernel,call,end_to_end,overlapped" --scope warp
says 2 "f31 not in .f64,f32,bf16,f16" --dtype f31
says 2 "'cpu.none' names no implementation" --impl cpu.none
says 2 'not a regular expression' --filter '('
says 2 'nothing matches.*no_such_job' --filter no_such_job
says 2 'repetitions.*0 not in range' --repetitions 0
says 2 'min-time.*0 not in range' --min-time 0
says 2 'min-time.*3601 not in range' --min-time 3601
says 2 'min-time.*nan not in range' --min-time nan
says 2 'seed.*-1 not in range' --seed -1
says 2 '100000 is not within' --threads 100000 "${small[@]}"
says 2 'threads.*-1 not in range' --list --threads=-1
says 2 "threads.*'0x1' is not a whole number" --list --threads=0x1
long=$(head -c 100000 /dev/zero | tr '\0' a)
says 2 'nothing matches.*aaa' --filter "$long"
[ "$(wc -c < stderr)" -lt 3000 ] || fail "a message of $(wc -c < stderr) bytes"
says 2 'not a regular expression' --exclude '('
says 2 'nothing matches' --filter '^relu' --exclude '/cpu' --device cpu
says 2 'cannot write /dev/null/x' --json=/dev/null/x/r.json "${small[@]}"
says 2 'resume requires --json' --resume
says 2 'needs --json=FILE' --resume --json
says 2 'in-process excludes --processes' --processes 2 --in-process
says 2 'profile measures nothing.*without --counters' --profile --counters
says 2 'counters goes without --count-instructions' --counters --count-instructions
says 2 'counters goes without --aa' --counters --aa 3

# --case: an op's or a model's name, its attributes; a file of such lines.
says 2 "op 'sofmax' is unknown; did you mean softmax" --case 'sofmax rows:3 cols:5'
says 2 "softmax case 'rows:3 colls:5'.*'colls'; did you mean cols" --case 'softmax rows:3 colls:5'
"$bench" --device cpu --case 'spmm m:4 k:8 n:2 nnz:6 checked:0 col=below:60' --json=kept_csr.json > stdout 2> stderr
[ $? = 1 ] && cat stdout stderr | grep -qE 'tensor col: element 0 is [0-9]+; with checked:0, 0 .. 7 is allowed' || fail "CSR: $(cat stdout stderr)"
says 2 'lengths=1: a case that is timed' --case 'attention B:1 H:1 Tq:2 Tk:9 D:8 padded:1 lengths=1'
says 2 "'many' is not a whole number" --case 'softmax rows:3 cols:many'
says 2 'cols:N is missing' --case 'softmax rows:3'
says 2 "'relo' is not one of none relu gelu" --case 'bias outer:1 c:1 act:relo'
says 2 "model 'mpl' is unknown; did you mean mlp|model 'mpl' is unknown; known are" --case 'step/mpl batch:3'
says 2 "'bach'; did you mean batch" --case 'step/mlp bach:3'
says 2 'folded 1: only an inference .*; a step allows 0' --case 'step/resnet50 batch:1 folded:1'
says 2 'phase prefill: .*only an inference has phases' --case 'step/gpt2 batch:1 phase:prefill'
says 2 'gpt2: recompute 1: only a training step has it; an inference allows its default' --case 'infer/gpt2 batch:1 recompute:1'
says 2 'lenet: mixed 1: only a training step has it; an inference allows its default' --case 'infer/lenet bf16 batch:1 mixed:1'
says 2 'mlp: optimiser adam: only a training step has it; an inference allows its default' --case 'infer/mlp batch:1 optimiser:adam'
says 2 'resnet50: head_only 1: only a training step has it; an inference allows its default' --case 'infer/resnet50 batch:1 head_only:1'
says 2 'transformer: dropout 0: only a training step has it; an inference allows its default' --case 'infer/transformer batch:1 dropout:0'
says 2 'recommender: f32/batch:8 gives a loss and no answer, so that there is nothing to serve' --case 'infer/recommender batch:8'
says 2 'lenet: replicas 4: only a training step has it; an inference allows its default' --case 'infer/lenet batch:1 replicas:4'
says 2 'gpt2: replicas 2: it clips gradients to a norm, which would be formed over all replicas' --case 'step/gpt2 batch:1 replicas:2'
says 2 "model lenet has no attribute 'recompute'; known are dtype batch layout" --case 'step/lenet batch:4 recompute:1'
says 2 "recompute: '2' is not one of 0 1 false true" --case 'step/gpt2 batch:1 recompute:2'
says 2 'recompute 1: with head_only no block has a backward pass; 0 is allowed' --case 'step/resnet50 batch:1 head_only:1 recompute:1'
says 2 'an op is expected' --case ' '
says 2 'missing.txt: cannot be read' --case @missing.txt
printf '# two good ones\n\nrelu n:3\n  relu/bf16/n:5  # a label\n' > kept_shapes.txt
printf 'relu n:3\nrelu m:5 # no such\n' > kept_wrong.txt
echo '# none' > kept_none.txt
says 2 "kept_wrong.txt:2: .*'m'" --case @kept_wrong.txt
says 2 'kept_none.txt: holds no case' --case @kept_none.txt
says 2 'nothing matches.*--case' --case 'relu n:3' --dtype bf16
"$bench" --case @kept_shapes.txt --case 'relu dtype:f32 n:3' --case 'step/mlp batch:3' --case 'infer/mlp batch:3' --impl cpu.tuned,cpu --list > listed ||
  fail '--case --list'
[ "$(grep -c . listed)" = 4 ] && grep -q '^infer/mlp/cpu/f32/batch:3' listed && grep -q '^relu/cpu.tuned/bf16/n:5' listed && grep -q '^step/mlp/cpu/f32/batch:3' listed ||
  fail "--case lists: $(cat listed)"
"$bench" --scale smoke --device cpu --case 'softmax rows:300 cols:500' --case 'softmax rows:3 cols:5 dtype:f64' \
  --json=kept_case.json > stdout 2> stderr || fail "--case: $(cat stderr)"
"$duet" report kept_case.json -o kept_case > stdout 2>&1 || fail "a report of --case: $(cat stdout)"
grep -q 'rows:300' kept_case/report.md || fail 'a report leaves out the case'
"$duet" op softmax --impl cpu.tuned --case 'rows:3 cols:5 x=last:-inf' --check > stdout 2>&1 || fail "duet op --case: $(cat stdout)"
rm -r kept_case listed

mkdir kept_folder
says 2 'not a regular file' --json=kept_folder "${small[@]}"
ls /dev/nvidiactl > /dev/null 2>&1 || says 77 'CUDA' --device gpu --scale smoke

"$bench" --help > stdout || fail '--help'
grep -q 'Exit status: 0 .* 1 .* 2 .* 77 .* 130' stdout || fail '--help leaves out the exit statuses'
"$bench" --version | grep -qE '^bench_all of Duet, commit' || fail '--version'
for flag in version json list case filter exclude scale device impl dtype scope threads seed repetitions min-time resume in-process job-limit processes counters; do
  grep -q -- "--$flag" stdout || fail "--help leaves out --$flag"
done
"$bench" --list "${small[@]}" > listed || fail '--list'
grep -q '^relu/cpu.tuned/f32/n:' listed || fail "--list: $(cat listed)"
"$bench" --benchmark_list_tests --benchmark_filter='^relu/cpu.tuned' --scale smoke | cmp - <(grep ^relu listed) || fail "Google Benchmark's flags"

"$bench" "${small[@]}" --json=kept.json > stdout 2> stderr || fail "a run: $(cat stderr)"
head -1 stdout | grep -qE '^CPU, [0-9]+ thread' || fail "a run does not begin with its threads: $(head -1 stdout)"
grep -q '^relu .* cpu.tuned .* [nµm]s ' stdout && grep -q '^state: ' stdout && grep -q '^written: kept.json$' stdout ||
  fail "a run prints no table: $(cat stdout)"
! grep -q AVX3 stdout || fail 'the name of a Highway target is shown'
[ ! -e kept.json.journal ] || fail 'the journal stays behind a complete run'
# What doctor doubts is in the run, and what makes ratios unreliable is its state.
(mkdir default && cd default && OMP_NUM_THREADS=1 CUDA_LAUNCH_BLOCKING=1 "$bench" "${small[@]}" > stdout 2> stderr && [ -s out/bench_2*.json ]) ||
  fail 'a run without --json leaves no file'
grep -q '^state: unusable' default/stdout && grep -q 'no ratio of this run is reliable: .*CUDA_LAUNCH_BLOCKING' default/stdout ||
  fail "CUDA_LAUNCH_BLOCKING makes no run unusable: $(cat default/stdout)"
python3 - default/out/bench_2*.json << 'PYTHON' || fail 'doubts of a run'
import json, sys
run = json.load(open(sys.argv[1]))["duet"]["run"]
assert run["trust"] == "unusable for ratios", run["trust"]
for name in "CUDA_LAUNCH_BLOCKING", "OMP_NUM_THREADS":
    assert any(name in doubt for doubt in run["doubts"] + run["warnings"]), (name, run["doubts"], run["warnings"])
PYTHON
! grep -q . <(taskset -c 0 "$bench" "${small[@]}" --json=kept_one.json 2> stderr | head -1 | grep -v 'CPU, 1 thread') || fail 'taskset -c 0 is not one thread'
python3 - "$bench" "${small[@]}" --json=no_huge.json > stdout << 'PYTHON' && status=0 || status=$?
import ctypes, os, sys
if ctypes.CDLL(None).prctl(41, 1, 0, 0, 0):  # PR_SET_THP_DISABLE
    sys.exit(77)  # not allowed here
os.execv(sys.argv[1], sys.argv[1:])
PYTHON
case $status in
  0) grep -q '^warning: huge pages ' stdout || fail "a run without huge pages has no warning: $(cat stdout)" ;;
  77) echo 'a run without huge pages was not made: they cannot be disabled here' ;;
  *) fail "a run without huge pages: status $status" ;;
esac
"$bench" "${small[@]}" --json > printed.json 2> stderr || fail '--json to standard output'

# Each reading of --counters is a value or has a reason, and the report says which.
"$bench" --list --counters "${small[@]}" | cmp - listed || fail '--counters changes --list'
"$bench" "${small[@]}" --counters --json=counted.json > stdout 2> stderr || fail "--counters: $(cat stderr)"
"$duet" report counted.json -o counted > stdout 2>&1 || fail "a report of counters: $(cat stdout)"
grep -q '^## Traffic and energy' counted/report.md || fail 'no section of counters'
python3 - << 'PYTHON' || fail 'counters of a run'
import json
jobs = [j for j in json.load(open("counted.json"))["duet"]["jobs"] if j["status"] == "ok"]
assert jobs
for job in jobs:
    counters = job["counters"]
    assert {r["quantity"] for r in counters["readings"]} >= {"bytes", "cpu_energy_j"}, counters
    for r in counters["readings"]:
        assert (r["value"] is None) == (r["unavailable_reason"] != "") == (r["source"] == ""), r
        assert r["value"] is None or r["value"] > 0, r
    assert counters["window"] is None or counters["window"]["time_s"] >= 2, counters
assert all(j["counters"] is None for j in json.load(open("kept.json"))["duet"]["jobs"])
PYTHON

# Quick leaves out large models, unless the filter names models, and no op.
"$bench" --scale quick --device cpu --list > quick
"$bench" --scale standard --device cpu --list | cut -d/ -f1 | sort -u > ops
cut -d/ -f1 quick | sort -u | comm -23 ops - > missing
[ ! -s missing ] || fail "quick has no case of $(tr '\n' ' ' < missing)"
"$bench" --scale quick --device cpu --filter '^(step|infer)/' --list > models
for name in step/gpt2 step/resnet50 infer/gpt2; do
  ! grep -q "^$name" quick || fail "quick has $name"
  grep -q "^$name" models || fail "quick has no $name where the filter names models"
done
grep -q '^step/mlp/cpu' quick && grep -q '^infer/mlp/cpu' quick || fail 'quick has no small model'

# Steps of several batches are a sweep, of whose GPU half a report says that it is not there.
"$bench" --scale quick --device cpu --filter '^step/mlp/cpu' --min-time 0.005 --json=batches.json 2> stderr || fail "steps: $(cat stderr)"
"$duet" report batches.json -o batches > stdout 2>&1 || fail "a report of steps: $(cat stdout)"
# On a busy machine a row may lie above its roof, and then stands in no sweep.
grep -q '"suspect"' batches.json || grep -q 'No GPU in this run' batches/report.md || fail 'no curve over the batch'
grep -q ' samples/s' batches/report.md || fail 'no throughput of a step'

# The calls of an inference of one sample are timed one by one, and have percentiles; larger batches have a throughput.
"$bench" --scale quick --device cpu --filter '^infer/toy/cpu' --min-time 0.005 --json=infer.json 2> stderr || fail "inferences: $(cat stderr)"
"$duet" report infer.json -o infer > stdout 2>&1 || fail "a report of inferences: $(cat stdout)"
grep -q '^## Inference' infer/report.md && ! grep -q '^## Training steps' infer/report.md || fail 'no section of inferences'
grep -q 'p99' infer/report.md || grep -q '"suspect"' infer.json || fail 'no p99 of an inference'
python3 - << 'PYTHON' || fail 'inferences of a run'
import json
jobs = json.load(open("infer.json"))["duet"]["jobs"]
assert [j["name"] for j in jobs] == ["infer/toy/cpu/f32/batch:1", "infer/toy/cpu/f32/batch:8"], jobs
for j in jobs:
    assert j["status"] == "ok" and j["family"] == "inference" and "forward" in str(j["step"]["phases_s"]), j
    assert (j["series"][0]["batch"] == 1) == (j["params"]["batch"] == 1), j["series"][0]["batch"]
assert len(jobs[0]["series"][0]["repetitions"][0]["samples_s"]) > 100
PYTHON

# An interrupt ends with a valid file that says so; --resume finishes it, and takes over what was done.
"$bench" --scale quick --device cpu --filter '^(copy|relu|softmax)/cpu' --min-time 0.02 --json=cut.json 2> stderr &
pid=$!
for _ in $(seq 1800); do grep -q '^\[1/' stderr && break; sleep 0.1; done
kill -INT $pid
wait $pid
[ $? = 130 ] || fail "an interrupt leaves with $?: $(cat stderr)"
[ -s cut.json ] && [ -s cut.json.journal ] || fail 'an interrupt leaves no result or no journal'
printf '{"job": {"name": "cut in the mid' >> cut.json.journal  # as a crash would leave it
"$duet" report cut.json.journal -o cut_report > stdout 2>&1 || fail "a journal makes no report: $(cat stdout)"
cp cut.json interrupted.json
"$bench" --scale quick --device cpu --filter '^(copy|relu|softmax)/cpu' --min-time 0.02 --json=cut.json --resume 2> stderr || fail "--resume: $(cat stderr)"
grep -q 'from the journal' stderr || fail '--resume measured everything again'

# --resume of named cases: the same names, or none of their rows; and of a run that is complete.
resumed() { # STATUS PATTERN ARGUMENT...
  local status=$1 pattern=$2 got
  shift 2
  "$bench" --scale smoke --device cpu --filter cpu.tuned --json=kept_named.json "$@" > stdout 2> stderr
  got=$?
  [ "$got" = "$status" ] && grep -qE -- "$pattern" stdout stderr || fail "named cases $*: status $got, $(cat stdout stderr)"
}
resumed 0 '^2 jobs' --case 'relu n:3' --case 'relu n:5'
resumed 0 'is complete, nothing is left' --case 'relu n:3' --case 'relu n:5' --resume
resumed 2 "--counters was 'not given' and is 'given'" --case 'relu n:3' --case 'relu n:5' --resume --counters
resumed 2 "were 'relu n:3, relu n:5' and are 'relu n:4'" --case 'relu n:4' --resume

# Several processes: one result, whose intervals are over them.
"$bench" "${small[@]}" --processes 3 --json=kept_many.json > stdout 2> stderr || fail "--processes: $(cat stderr)"
[ "$(echo kept_many.json*)" = kept_many.json ] || fail "--processes leaves $(echo kept_many.json*)"
grep -q '^process 3 of 3' stderr || fail "--processes says $(cat stderr)"
"$duet" report kept_many.json -o many > stdout 2>&1 || fail "a report of several processes: $(cat stdout)"
grep -q 'of 3 processes' many/report.html || fail 'a report does not say what its intervals are'

# In this process, for debuggers: the same rows, and no worker.
"$bench" "${small[@]}" --in-process --json=kept_alone.json 2> stderr || fail "--in-process: $(cat stderr)"

# A killed supervisor takes its worker with it.
"$bench" --scale quick --device cpu --filter '^gemm/cpu' --json=orphan.json 2> stderr &
pid=$!
for _ in $(seq 1800); do grep -q '^measuring' stderr && break; sleep 0.1; done
worker=$(ps -o pid= --ppid $pid | tr -d ' ')
[ -n "$worker" ] || fail 'there is no worker'
kill -KILL $pid
wait $pid 2> /dev/null
alive() { grep -q '^State:.*[RSDT] ' "/proc/$1/status" 2> /dev/null; }
for _ in $(seq 300); do alive "$worker" || break; sleep 0.1; done
alive "$worker" && fail 'the worker outlives its supervisor'
[ -z "$(find . -name 'orphan.json.part*')" ] || fail "a killed run leaves $(echo orphan.json*)"

# Journals that are none of ours, and ones that do not fit.
"$bench" --scale quick --device cpu --filter '^(copy|relu|softmax)/cpu' --json=odd.json --min-time 0.01 2> stderr &
pid=$!
for _ in $(seq 1800); do grep -q '^\[1/' stderr && break; sleep 0.1; done
kill -KILL $pid
wait $pid 2> /dev/null
[ ! -e odd.json ] && [ -s odd.json.journal ] || fail 'a killed run leaves a result or no journal'
odd() { # PATTERN ARGUMENT...
  local pattern=$1
  shift
  timeout 600 "$bench" --scale quick --device cpu --json=odd.json --resume "$@" 2> stderr
  [ $? = 2 ] && grep -q "$pattern" stderr || fail "an odd journal ($pattern): $(tail -2 stderr)"
}
odd 'filter was' --filter '^copy/cpu' --min-time 0.01
[ -s odd.json.journal ] || fail 'a refused --resume loses the journal'
echo '{"document":{}}' > odd.json.journal && odd 'is not a journal' --filter '^copy/cpu'
echo 'no json' > odd.json.journal && odd 'is not a journal' --filter '^copy/cpu'

# --resume before the first row starts from the beginning, and says so.
for journal in none '' '{"duet_journal":2,"document":{"con'; do
  rm -f early.json early.json.journal
  [ "$journal" = none ] || printf '%s' "$journal" > early.json.journal
  "$bench" "${small[@]}" --json=early.json --resume 2> stderr || fail "--resume of '$journal': $(cat stderr)"
  grep -q 'starting from the beginning' stderr || fail "--resume of '$journal' says nothing: $(cat stderr)"
  [ "$(echo early.json*)" = early.json ] || fail "--resume of '$journal' leaves $(echo early.json*)"
done
echo '{"document":{}}' > kept.json.journal
"$bench" "${small[@]}" --json=kept.json 2> stderr || fail "beside a journal: $(cat stderr)"
[ -s kept.json.journal.old ] || fail 'a journal that was not resumed is lost'

command -v python3 > /dev/null || { echo 'the JSON is not looked into: no python3'; finish; exit; }
python3 - << 'PYTHON' || fail 'the run files'
import json
def load(name):
    def refuse(x): raise ValueError(x)
    return json.load(open(name), parse_constant=refuse)
d = load("kept.json")
jobs = d["duet"]["jobs"]
assert d["duet"]["run"]["complete"] and len(jobs) == 2, [j["name"] for j in jobs]
named = load("kept_case.json")["duet"]["jobs"]
assert {j["case"] for j in named} == {"softmax/f32/rows:300/cols:500", "softmax/f64/rows:3/cols:5"}, named
assert all(j["status"] == ("ok" if "f32" in j["case"] else "skipped") and (j["status"] == "ok" or j["reason"]) for j in named)
for j in jobs:
    assert j["status"] == "ok" and j["check"]["max_error_ratio"] <= 1 and j["check"]["slices"] > 0, j
    assert j["comparable"] == (j["reason"] == "") and (j["step"] is None) == (j["op"] == "relu"), j
    for s in j["series"]:
        rows = [b for b in d["benchmarks"] if b["run_name"] == f'{j["name"]}/{s["scope"]}/{s["cache"]}/threads:{s["threads"]}']
        assert len(rows) == len(s["repetitions"]) + 1, rows
        median = [b for b in rows if b["run_type"] == "aggregate"]
        assert abs(median[0]["real_time"] * 1e-9 / s["summary"]["median_s"] - 1) < 1e-9
        assert all(len(r["samples_s"]) == s["iterations"] for r in s["repetitions"])
times, wall = d["duet"]["run"]["phases_s"], d["duet"]["run"]["wall_s"]
assert times["measure"] > 0 and times["verify"] > 0 and abs(sum(times.values()) - wall) < 0.05 * wall + 0.2, (times, wall)
step, = [j["step"] for j in jobs if j["name"].startswith("step/mlp/cpu/")]
assert step["nodes_s"] and step["phases_s"] and step["peak_memory_bytes"] > 0
assert step["upload_bytes"] > 0 and step["download_bytes"] == 4, "a step reads its inputs, and the host its loss"
assert step["samples"] > 0 and step["tokens"] is None and d["duet"]["sweeps"] == []
batches = load("batches.json")["duet"]
times = {j["params"]["batch"]: j["series"][0]["summary"]["median_s"] for j in batches["jobs"] if j["comparable"]}
assert [j["params"]["batch"] for j in batches["jobs"]] == [32, 64, 512]
if len(times) < 3:
    assert batches["sweeps"] == []
else:
    sweep, = batches["sweeps"]
    assert (sweep["op"], sweep["size_name"]) == ("step/mlp", "batch"), sweep
    assert {p["size"]: p["cpu_s"] for p in sweep["points"]} == times, (sweep, times)
    assert all(p["gpu_call_s"] is None and p["gpu_end_to_end_s"] is None for p in sweep["points"]), sweep
assert {c["name"] for c in d["duet"]["ceilings"]} >= {"cpu.copy", "cpu.triad", "cpu.read", "cpu.update", "cpu.fma.f32"}
assert not load("interrupted.json")["duet"]["run"]["complete"]
assert any(j["status"] == "skipped" and "interrupted" in j["reason"] for j in load("interrupted.json")["duet"]["jobs"])
whole = load("cut.json")["duet"]
assert whole["run"]["complete"] and not any("interrupted" in j["reason"] for j in whole["jobs"])
assert sum(j["status"] == "ok" for j in whole["jobs"]) >= 8, [(j["name"], j["status"]) for j in whole["jobs"]]
assert len(load("printed.json")["duet"]["jobs"]) == 2
many = load("kept_many.json")["duet"]
assert many["run"]["processes"] == 3 and many["run"]["complete"] and len(many["jobs"]) == 2
for j in many["jobs"]:
    for s in j["series"]:
        assert [r["process"] for r in s["repetitions"]] == [0, 1, 2] and s["summary"]["interval"] == "min-max of 3 processes", s
try:
    import jsonschema
except ImportError:
    print("no jsonschema: the schema is not checked")
else:
    import os
    schema = json.load(open(os.path.join(os.environ["DUET_SOURCE"], "results/run.schema.json")))
    for name in ("kept.json", "interrupted.json", "cut.json", "batches.json"):
        jsonschema.validate(load(name), schema)
PYTHON
finish
