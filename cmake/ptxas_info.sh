#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ptxas_info.sh OBJECT COMMAND...: runs a compiler and keeps what ptxas says of each kernel (-Xptxas -v) in OBJECT.ptxas,
# so that it does not fill the log. All other output of the compiler is passed on.
object=$1
shift
errors=$object.stderr
"$@" 2> "$errors"
status=$?
grep -E "^ptxas info|^ +[0-9]+ bytes stack frame" "$errors" > "$object.ptxas"
grep -vE "^ptxas info|^ +[0-9]+ bytes stack frame" "$errors" >&2
rm -f "$errors"
exit $status
