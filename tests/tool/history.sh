#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# duet history from the command line: import, add, list, show, trend, ack, export; what it refuses; what stays as it was.
source "$(dirname "$0")/common.bash"

mkdir out
"$DUET_BIN/bench_all" --scale smoke --filter '^(relu|add)/cpu' --device cpu --min-time 0.001 --json=out/a.json > bench 2>&1 ||
  fail "bench_all: $(tail -3 bench)"
# Thirty more runs: the same times a day apart, each with an id of its own; the last one is twice as slow in one op.
"${PYTHON:-python3}" - <<'PYTHON' || fail "no python3 to write runs with"
import copy, json
base = json.load(open("out/a.json"))
def run(day, name, factor=1):
    d = copy.deepcopy(base)
    r = d["duet"]["run"]
    r["id"], r["started_at"], r["complete"] = name, f"2026-01-{day:02}T00:00:00Z", True
    d["duet"]["run"]["trust"], d["duet"]["run"]["doubts"] = "trustworthy", []
    for job in d["duet"]["jobs"]:
        for s in job["series"]:
            f = (1 + 0.002 * (day % 5)) * (factor if job["op"] == "relu" else 1)
            for key in ("median_s", "lo_s", "hi_s", "min_s"):
                s["summary"][key] *= f
            for p in s["repetitions"]:
                p["samples_s"] = [t * f for t in p["samples_s"]]
            s["roof"] = None
    json.dump(d, open(f"{'out/' if factor == 1 else ''}{name}.json", "w"))
for day in range(1, 26):
    run(day, f"r{day}")
run(26, "slow", 2)
run(27, "again", 2)
json.dump({"benchmarks": []}, open("out/other.json", "w"))
PYTHON
rm out/a.json

# What is no run of ours is named and skipped; what was damaged makes the status 2, and the others are there.
does 'r7.json: added as run' history import out/*.json --db h.sqlite
grep -q 'out/other.json: skipped: JSON, but not a run file' stderr || fail "no word of out/other.json: $(cat stderr)"
does 'r7.json: there already as run' history import out/*.json --db h.sqlite
does 'r25 +2026-01-25' history list --db h.sqlite
head -c 5000 out/r1.json > cut.json
"$duet" history import cut.json out/r1.json --db h.sqlite > stdout 2> stderr
[ $? = 2 ] || fail "a cut file: status $?"
grep -q 'cut.json: the file ends too early' stderr || fail "a cut file: $(cat stderr)"
grep -q 'r1.json: there already' stdout || fail "import stopped at a cut file"

# A gate takes the runs of this machine as its base.
gate() {  # gate STATUS FILE: four processes like that file
  local status=0
  for i in 1 2 3; do sed "s/\"id\": \"[^\"]*\"/\"id\": \"head$i\"/" "$2" > head$i.json; done
  "$duet" gate --base-db h.sqlite --head-json "$2" head1.json head2.json head3.json > stdout 2> stderr || status=$?
  [ $status = "$1" ] || fail "gate --base-db, $2: status $status, not $1: $(cat stdout stderr)"
}
gate 0 out/r3.json
gate 1 slow.json
grep -q 'SLOWER *relu/cpu' stdout || fail "gate --base-db: $(cat stdout)"
sed 's/"scale": "smoke"/"scale": "full"/' slow.json > full.json
gate 4 full.json
grep -q "settings.scale is 'smoke' in base and 'full' in head" stderr || fail "gate --base-db of another scale: $(cat stderr)"
sed 's/"fingerprint": "[^"]*"/"fingerprint": "another"/' slow.json > away.json
gate 4 away.json
"$duet" gate --base-db h.sqlite --head-json slow.json --metric speedup > stdout 2> stderr
[ $? = 2 ] || fail "gate --base-db --metric speedup: $(cat stdout stderr)"
"$duet" gate --base-db none.sqlite --head-json slow.json > stdout 2> stderr
[ $? = 2 ] || fail "gate --base-db of no database: $(cat stdout stderr)"

# An alarm waits for a second run, and a new normal ends it.
does 'Nothing is slower or faster' history trend --db h.sqlite
"$duet" history import out/*.json --db "it's a.sqlite" > stdout 2> stderr || fail "import: $(cat stdout stderr)"
"$duet" history add slow.json --db "it's a.sqlite" --reason ci > stdout 2> stderr
grep -qF -- "--db 'it'\\''s a.sqlite' --reason confirm" stdout || fail "no command safe to paste: $(cat stdout stderr)"
"$duet" history add slow.json --db h.sqlite --reason ci --check > stdout 2> stderr
[ $? = 1 ] || fail "add --check of a slow run: $(cat stdout stderr)"
grep -q 'slower before\|slower than before and not confirmed' stdout || fail "no alarm: $(cat stdout)"
grep -qE "to confirm: bench_all --filter '\^\(relu/cpu.*--scale '?smoke'? --seed '?1'? --threads" stdout || fail "no command to confirm: $(cat stdout)"
sed 's/"scale": "smoke"/"scale": "full"/' again.json > unlike.json
refuses 2 'unlike.json: does not confirm run slow: settings.scale is full, not smoke' history add unlike.json --db h.sqlite --reason confirm
"$duet" history add again.json --db h.sqlite --reason confirm --check > stdout 2> stderr
[ $? = 1 ] || fail "a confirmed alarm: $(cat stdout stderr)"
grep -q 'and a second run confirmed it' stdout || fail "not confirmed: $(cat stdout)"
does 'a second run confirmed it' history trend --db h.sqlite --html trend
grep -q "default-src 'none'" trend/index.html || fail "no page"
does 'relu.*slower' history show slow --db h.sqlite
does 'not valid' history ack slow --db h.sqlite --invalid --note 'busy'
does 'Nothing is slower or faster' history trend --db h.sqlite
does 'valid again' history ack slow --db h.sqlite --valid
"$duet" history ack slow --db h.sqlite --invalid --filter '^relu' > stdout 2> stderr
[ $? = 2 ] || fail "ack --invalid of some series: status $?"
"$duet" history add slow.json --db h.sqlite --commit-time 2026-13-01T00:00:00Z > stdout 2> stderr
[ $? = 2 ] || fail "add --commit-time of month 13: $(cat stdout stderr)"
does 'the new normal of [0-9]+ series' history ack slow --db h.sqlite --filter '^relu' --note wanted
does 'too new for an alarm' history trend --db h.sqlite

# A locked database is not a slower program. duet waits for it for ten seconds: meanwhile the rest goes on.
cp h.sqlite locked.sqlite
"${PYTHON:-python3}" - "$duet" <<'PYTHON' &
import sqlite3, subprocess, sys
database = sqlite3.connect("locked.sqlite", isolation_level=None)
database.execute("begin exclusive")
run = subprocess.run([sys.argv[1], "history", "add", "out/r1.json", "--db", "locked.sqlite", "--check"],
                     capture_output=True, text=True)
print(run.returncode, run.stdout, run.stderr)
sys.exit(run.returncode != 5 or "locked" not in run.stderr)
PYTHON
locked=$!

# Exports read back to the same bytes.
does 'first.jsonl' history export --db h.sqlite -o first.jsonl
does '27 runs added, 0 there already' history import first.jsonl --db copy.sqlite
does 'second.jsonl' history export --db copy.sqlite -o second.jsonl
same first.jsonl second.jsonl

# The generator of large histories, small.
"${PYTHON:-python3}" "$DUET_SOURCE/tests/history/large_history.py" "$duet" out/r1.json large 60 20 > large.log 2>&1 ||
  fail "large_history.py: $(tail -2 large.log)"

wait "$locked" || fail "a locked database is not status 5"
rm locked.sqlite*

# What cannot be used. SQLite may lay files of its own beside a database, or remove them, so these two compare no files.
"$duet" history show 999 --db copy.sqlite > stdout 2> stderr
[ $? = 2 ] || fail "show of no run: status $?"
grep -q "holds no run '999'" stderr || fail "show of no run: $(cat stderr)"
"$duet" history ack latest --filter nothing --db copy.sqlite > stdout 2> stderr
[ $? = 2 ] || fail "ack of nothing: status $?"
grep -q 'no series of run' stderr || fail "ack of nothing: $(cat stderr)"
echo 'no database' > text
refuses 2 'is not a database of SQLite' history list --db text
refuses 2 'there is no such database' history trend --db nothing.sqlite
refuses 2 'nothing.json: cannot' history import nothing.json --db new.sqlite
refuses 2 '--db is required' history list
sed '2,$s/"median_s"/"median"/' first.jsonl > broken.jsonl
refuses 2 'broken.jsonl, line' history import broken.jsonl --db new.sqlite
[ ! -e new.sqlite ] || fail "a refused import left a database"
refuses 2 'subcommand' history
finish
