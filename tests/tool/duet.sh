#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The text output of duet list, doctor and --help.
source "$(dirname "$0")/common.bash"

does 'SUBCOMMAND' --help
does '^duet of Duet, commit [0-9a-f]+.*; CUDA: ' --version
does '--describe' op --help
does '^softmax \(norm\): y\[r,c\]' list --filter '^softmax/'
does 'GPT-2' list --filter '^softmax/' --scale full
does 'Untrustworthy here' doctor
grep -q 'CPU .*logical' stdout || fail "doctor names no CPU"

# An environment that limits threads is named.
OPENBLAS_NUM_THREADS=1 "$duet" doctor > limited || fail "doctor: $(cat limited)"
grep -q "OPENBLAS_NUM_THREADS *'1'" limited || fail "doctor does not name OPENBLAS_NUM_THREADS"

# An implementation on the golden list that is not built here is unsupported (77), with the reason, and not a usage error.
missing=$("$duet" list | awk '/^[a-z]/ { op = $1 } /not built here/ { print op, $1; exit }')
if [ -n "$missing" ]; then
  read -r op implementation <<< "$missing"
  label=$("$duet" list --filter "^$op/" --scale test | sed -n 's/^    \([^ ]*\).*/\1/p' | head -1)
  refuses 77 'not built here' op "$op" --impl "$implementation" --case "$label"
fi
finish
