# SPDX-License-Identifier: Apache-2.0
# Shared by the tests of command lines (tests/tool/*.sh source it). DUET_BIN: the folder of the programs.
set -uo pipefail
duet=${DUET_BIN:?the folder of the programs}/duet
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
  printf 'FAILED: %.800s\n' "$*"  # arguments can be long
  failures=$((failures + 1))
}
finish() {
  [ "$failures" = 0 ] || exit 1
  echo "passed"
}

# f32 VALUE...: little-endian bytes, as escapes for printf. Only for the values listed here.
f32() {
  local v
  for v; do
    case $v in
      0) printf '\\x00\\x00\\x00\\x00' ;;
      0.25) printf '\\x00\\x00\\x80\\x3e' ;;
      1) printf '\\x00\\x00\\x80\\x3f' ;;
      2) printf '\\x00\\x00\\x00\\x40' ;;
      3) printf '\\x00\\x00\\x40\\x40' ;;
      -1) printf '\\x00\\x00\\x80\\xbf' ;;
      *) echo "no bits for $v" >&2 && exit 1 ;;
    esac
  done
}
i32() {
  local v
  for v; do printf '\\x%02x\\x%02x\\x%02x\\x%02x' $((v & 255)) $((v >> 8 & 255)) $((v >> 16 & 255)) $((v >> 24 & 255)); done
}

# npy FILE DESCR SHAPE BYTES: a version 1 file, laid out as NumPy and duet write it.
npy() {
  local dict="{'descr': '$2', 'fortran_order': False, 'shape': $3, }" length
  length=$(((10 + ${#dict} + 1 + 63) / 64 * 64 - 10))
  {
    printf '\x93NUMPY\x01\x00'
    printf "\\x$(printf %02x $((length & 255)))\\x$(printf %02x $((length >> 8)))"
    printf "%-$((length - 1))s\n" "$dict"
    printf "$4"
  } > "$1"
}

# refuses STATUS PATTERN ARGUMENT...: duet exits with STATUS and prints one line on standard error that matches PATTERN and
# nothing on standard output; no file appears or changes.
refuses() {
  local status=$1 pattern=$2 before after got
  shift 2
  before=$(find . -type f ! -name 'std*' -exec cksum {} + | sort)
  timeout 300 "$duet" "$@" > stdout 2> stderr
  got=$?
  after=$(find . -type f ! -name 'std*' -exec cksum {} + | sort)
  [ "$got" = "$status" ] || fail "duet $*: status $got, not $status: $(cat stderr)"
  [ "$(wc -l < stderr)" = 1 ] || fail "duet $*: not one line on standard error: $(cat stderr)"
  grep -qE -- "$pattern" stderr || fail "duet $*: no match of '$pattern' in: $(cat stderr)"
  [ ! -s stdout ] || fail "duet $*: standard output is not empty: $(head -1 stdout)"
  [ "$before" = "$after" ] || fail "duet $*: files appeared or changed"
}

# does PATTERN ARGUMENT...: duet succeeds and prints something that matches PATTERN.
does() {
  local pattern=$1
  shift
  timeout 600 "$duet" "$@" > stdout 2> stderr || fail "duet $*: status $?: $(cat stderr)"
  grep -qE -- "$pattern" stdout || fail "duet $*: no match of '$pattern' in: $(cat stdout)"
}
same() { cmp "$1" "$2" || fail "$1 is not $2"; }
