#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# words.sh [repository]: are the retired terms of words.txt gone from code, comments, documents and file names?
set -euo pipefail
checks=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${1:-$checks/../..}"
export LC_ALL=C.UTF-8

# Left out: recorded data, the licence, and what has to contain the words: the list and the test of this check.
mapfile -t files < <(find . \( -path ./build -o -path './build-*' -o -path ./out -o -path ./tests/golden -o -name '.?*' ! -name .ci \) -prune -o \
  -type f ! \( -name '*.pyc' -o -name LICENSE -o -path ./tools/checks/words.txt -o -path ./tests/tool/style_checks.sh \) \
  -print | sed 's|^\./||' | sort)
[ ${#files[@]} -gt 0 ] || { echo "no files"; exit 77; }

found=
while IFS=$'\t' read -r pattern instead allowed; do
  case $pattern in '' | '#'*) continue ;; esac
  hits=$({ grep -niE -- "$pattern" "${files[@]}" /dev/null || true
           printf '%s\n' "${files[@]}" | grep -iE -- "$pattern" | sed 's/$/: the name of the file/' || true; } |
         awk -F: -v allowed="$allowed" 'allowed == "" || $1 !~ allowed')
  [ -z "$hits" ] || found+=$(sed "s|^|say '$instead': |" <<< "$hits")$'\n'
done < "$checks/words.txt"
if [ -n "$found" ]; then
  printf '%s' "$found"
  exit 1
fi
echo "${#files[@]} files use none of the retired words"
