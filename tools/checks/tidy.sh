#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tidy.sh [--all] [repository]: does clang-tidy 14 accept what changed, by the allow-list in .clang-tidy?
# "Changed" is the difference from main (from the commit before, where HEAD is main's), with what is not committed yet. A
# header is checked in a source that includes it. Of more than 20 files a sample is checked, which the commit decides; --all
# checks every source. The flags come from compile_commands.json in $DUET_BUILD, or in build/, build-cpu/ or build-dev/.
# CUDA sources are left out: g++'s flags for them are not clang's.
set -euo pipefail
skip() { echo "skipped: $*"; exit 77; }
max_files=20
all=
if [ "${1:-}" = --all ]; then
  all=yes
  shift
fi
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"

tool=
for name in clang-tidy-14 clang-tidy; do
  case $(command -v "$name" > /dev/null && "$name" --version) in *"version 14."*) tool=$name; break ;; esac
done
[ -n "$tool" ] || skip "no clang-tidy 14 (versions differ in what they find; tools/setup --dev installs it)"
database=
for folder in ${DUET_BUILD:-} build build-cpu build-dev; do
  if [ -f "$folder/compile_commands.json" ]; then database=$folder; break; fi
done
[ -n "$database" ] || skip "no compile_commands.json in ${DUET_BUILD:-build}: configure a build first (cmake --preset dev)"

# Sources that this build compiles, by their path in the repository.
root=$(pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n 's/^ *"file": "\(.*\)".*/\1/p' "$database/compile_commands.json" | sed -n "s|^$root/||p" |
  grep -E '\.cpp$' | grep -vE '^(build(-[^/]*)?|out)/' | sort -u > "$work/compiled"

if [ -n "$all" ]; then
  cp "$work/compiled" "$work/files"
else
  git rev-parse --verify -q HEAD > /dev/null || skip "no commit to compare with"
  commit=$(git rev-parse HEAD)
  base=
  for branch in origin/main main; do
    base=$(git merge-base HEAD "$branch" 2> /dev/null) && break
  done
  [ -n "$base" ] && [ "$base" != "$commit" ] || base=$(git rev-parse --verify -q HEAD~1) || base=$commit
  { git diff --name-only --diff-filter=d "$base"; git ls-files --others --exclude-standard; } | sort -u > "$work/changed"
  grep -E '\.cpp$' "$work/changed" > "$work/wanted" || true
  while read -r header; do  # its own source, or else the first that includes it
    if grep -qxF "${header%.h}.cpp" "$work/compiled"; then
      echo "${header%.h}.cpp"
    else
      xargs -r -d '\n' grep -lF "#include \"$header\"" < "$work/compiled" | head -1 || true
    fi
  done < <(grep -E '\.h$' "$work/changed") >> "$work/wanted"
  sort -u "$work/wanted" | comm -12 - "$work/compiled" > "$work/files"
  if [ "$(wc -l < "$work/files")" -gt $max_files ]; then
    echo "a sample of $max_files of $(wc -l < "$work/files") sources, chosen by commit ${commit:0:12}; tools/checks/tidy.sh --all checks all"
    while read -r file; do
      echo "$(cksum <<< "$commit $file" | cut -d' ' -f1) $file"
    done < "$work/files" | sort -n | head -$max_files | cut -d' ' -f2- > "$work/sample"
    mv "$work/sample" "$work/files"
  fi
fi
count=$(wc -l < "$work/files")
[ "$count" -gt 0 ] || { echo "no source changed"; exit 0; }

# One instruction set is enough to read the code: Highway's sources would else be parsed once for each.
flags=()
[ "$(uname -m)" != x86_64 ] || for flag in -DHWY_COMPILE_ONLY_STATIC -march=x86-64-v3 -maes -mpclmul; do flags+=(--extra-arg=$flag); done
status=0
xargs -d '\n' -P "$(nproc)" -n 1 "$tool" --quiet -p "$database" "${flags[@]}" < "$work/files" > "$work/found" 2> "$work/errors" || status=$?
# g++ decides whether code compiles: clang 14 lacks a part of C++20 (a lambda that captures a structured binding).
grep -E ': (error|warning): ' "$work/found" | grep -vF '[clang-diagnostic-error]' | sort -u > "$work/findings" || [ $? -eq 1 ]  # 1: no line
unread=$(grep -F '[clang-diagnostic-error]' "$work/found" | cut -d: -f1 | sort -u) || [ $? -eq 1 ]
[ -z "$unread" ] || printf 'not understood by clang 14, so checked in part: %s\n' $unread
if [ -s "$work/findings" ]; then
  cat "$work/findings"
  exit 1
fi
[ $status = 0 ] || [ -n "$unread" ] || { cat "$work/found" "$work/errors"; exit 1; }
echo "clang-tidy accepts $count sources"
