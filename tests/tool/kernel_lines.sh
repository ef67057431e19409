#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# duet kernel-profile names lines of the source by addr2line: another one than binutils' is understood, and without one
# that answers addresses are named.
source "$(dirname "$0")/common.bash"
profile() { timeout 100 env PATH="$1" "$duet" kernel-profile softmax/cuda.tuned/f32/rows:4/cols:100 --table > stdout 2> stderr; }

profile "$PATH"
[ $? != 77 ] || { echo "skipped: $(cat stderr)"; exit 77; }
mkdir none other silent
cat > other/addr2line << 'OTHER'
#!/bin/sh
# Like LLVM's: an address has no zeros in front, and address 0 has frames.
while read -r address; do
  printf '%s\nf\nfile.cu:7\n' "$address"
  [ "$address" != 0x0 ] || printf 'inlined\nfile.cu:8\n'
done
OTHER
printf '#!/bin/sh\n' > silent/addr2line
chmod +x other/addr2line silent/addr2line
profile "$work/other:$PATH" || fail "another addr2line: status $?: $(cat stderr)"
grep -q 'global load .*  file.cu:7$' stdout || fail "its lines: $(cat stdout)"
for path in "$work/none" "$work/silent:$PATH"; do
  profile "$path" || fail "$path: status $?: $(cat stderr)"
  grep -q 'global load .*  pc 0x[0-9a-f]*$' stdout || fail "$path: $(cat stdout)"
done
finish
