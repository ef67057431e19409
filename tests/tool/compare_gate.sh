#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Exit statuses of duet compare and duet gate, on files of Google Benchmark: nothing is measured.
source "$(dirname "${BASH_SOURCE[0]}")/common.bash"

# google_file FILE HOST NAME TIME_NS: five repetitions of one benchmark.
google_file() {
  {
    echo "{\"context\": {\"host_name\": \"$2\", \"num_cpus\": 2, \"library_build_type\": \"release\"}, \"benchmarks\": ["
    for i in 0 1 2 3 4; do
      [ $i = 0 ] || echo ,
      echo "{\"name\": \"$3\", \"run_name\": \"$3\", \"run_type\": \"iteration\", \"repetition_index\": $i,"
      echo " \"real_time\": $(($4 + i)), \"cpu_time\": 1, \"time_unit\": \"ns\"}"
    done
    echo ']}'
  } > "$1"
}
google_file base.json host BM_a 1000
google_file same.json host BM_a 1001
google_file slow.json host BM_a 2000
google_file gone.json host BM_b 1000
google_file away.json other BM_a 1000
head -c 100 base.json > cut.json

status_is() {  # status_is STATUS COMMAND...: and one line on standard error where it is 2 or 4
  local wanted=$1 status=0
  shift
  "$@" > out.txt 2> err.txt || status=$?
  [ $status = "$wanted" ] || fail "$* ended with status $status, not $wanted: $(cat err.txt)"
}
compare=("$DUET_BIN/duet" compare)
status_is 0 "${compare[@]}" base.json same.json
status_is 0 "${compare[@]}" base.json slow.json
grep -q SLOWER out.txt || fail 'a benchmark of twice the time is not SLOWER'
status_is 1 "${compare[@]}" base.json slow.json --fail-on-slower
status_is 3 "${compare[@]}" base.json gone.json --fail-on-slower
status_is 4 "${compare[@]}" base.json gone.json
status_is 4 "${compare[@]}" base.json away.json
grep -q context.host_name err.txt || fail 'the key that differs is not named'
status_is 0 "${compare[@]}" base.json away.json --allow context
status_is 2 "${compare[@]}" base.json away.json --allow nonsense
status_is 2 "${compare[@]}" base.json cut.json
status_is 2 "${compare[@]}" base.json none.json
status_is 2 "${compare[@]}" base.json same.json --threshold 0
status_is 2 "${compare[@]}" base.json
status_is 0 "${compare[@]}" base.json slow.json --json new/c.json --markdown new/c.md
grep -q '"SLOWER": 1' new/c.json || fail 'the JSON has no count'

gate=("$DUET_BIN/duet" gate)
status_is 2 "${gate[@]}"
status_is 2 "${gate[@]}" --base /nowhere --head /nowhere
status_is 2 "${gate[@]}" --base-json base.json --head-json same.json --budget soon
status_is 0 "${gate[@]}" --base-json base.json --head-json same.json
grep -q '1 run of base and 1 of head: too few for any row' out.txt || fail 'a gate that cannot fail does not say so'
status_is 2 "${gate[@]}" --base-json base.json base.json --head-json same.json
grep -q 'base.json: is the file base.json again' err.txt || fail 'a run given twice is not named'
status_is 2 "${gate[@]}" --base-json base.json --head-json same.json --filter '^BM'
grep -q 'filter=^BM: is passed on' err.txt || fail 'an option without effect is not named'
status_is 4 "${gate[@]}" --base-json base.json --head-json away.json
status_is 0 "${gate[@]}" --base-json base.json --head-json away.json --gate=warn
status_is 0 "${gate[@]}" --base /nowhere --head /nowhere --gate=off
status_is 3 "${gate[@]}" --base-json base.json --head-json gone.json
status_is 2 "${gate[@]}" --base-json base.json --head-json cut.json

# A lost program leaves files that say so, although --gate=warn ends with status 0.
printf '#!/bin/sh\nkill -SEGV $$\n' > lost
chmod +x lost
status_is 0 "${gate[@]}" --base ./lost --head ./lost --gate=warn --json lost.json --markdown lost.md
grep -q '"failure": "base (./lost) cannot list its jobs: it was killed by SIGSEGV"' lost.json || fail "a lost program: $(cat lost.json)"
grep -q 'No verdict: base' lost.md || fail "a lost program: $(cat lost.md)"
grep -q 'would have failed with status 3' err.txt || fail "a lost program: $(cat err.txt)"
status_is 3 "${gate[@]}" --base ./lost --head ./lost
status_is 0 "$DUET_BIN/duet" export lost.json --format junit
grep -q '<error message="base' out.txt || fail "a lost program: $(cat out.txt)"

# What cannot be written is not SLOWER.
full_is() {  # full_is COMMAND...: status 5 where standard output is a full disk
  local status=0
  "$@" > /dev/full 2> err.txt || status=$?
  [ $status = 5 ] || fail "$* with a full disk ended with status $status, not 5: $(cat err.txt)"
}
full_is "${gate[@]}" --base-json base.json --head-json same.json
full_is "${gate[@]}" --base-json base.json --head-json slow.json
full_is "${compare[@]}" base.json slow.json --fail-on-slower

# A file that cannot grow, as on a full disk: status 5, and what was there stays.
echo before > kept.json
said=$( (trap '' XFSZ; ulimit -f 0; exec "${compare[@]}" base.json slow.json --json kept.json 2>&1 > /dev/null) )
status=$?
[ $status = 5 ] || fail "a file that cannot grow: status $status, not 5: $said"
grep -q 'cannot write kept.json: File too large' <<< "$said" || fail "a file that cannot grow: $said"
[ "$(cat kept.json)" = before ] || fail 'a file that could not be written is lost'
finish
