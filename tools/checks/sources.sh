#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sources.sh [repository]: does every source begin with its SPDX line (after #!), and is no line of C++ and CUDA wider than
# 120 columns? clang-format lays out code, but leaves comments and strings as they are.
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"
export LC_ALL=C.UTF-8
max_columns=120
mapfile -t files < <(find . \( -path ./build -o -path './build-*' -o -path ./out -o -name '.?*' ! -name .ci \) -prune -o -type f \( \
  -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cmake' -o -name CMakeLists.txt \
  -o -name '*.sh' -o -name '*.bash' -o -name '*.awk' -o -name '*.py' -o -path './tools/*' -perm -u+x -o -path './.ci/*' \) \
  ! -name '*.txt.in' -print | sed 's|^\./||' | sort -u)
[ ${#files[@]} -gt 0 ] || { echo "no sources"; exit 77; }
found=$(awk '
  function report() { if (file != "" && !decided) print file ":1: the SPDX line comes first" }
  FNR == 1 { report(); file = FILENAME; decided = 0 }
  FNR == 1 && /^#!/ { next }
  !decided && /^(\/\/|#) SPDX-License-Identifier: Apache-2\.0$/ { decided = 1 }
  !decided { print FILENAME ":" FNR ": the SPDX line comes first"; decided = 1 }
  { nextfile }
  END { report() }' "${files[@]}")
wide=$(printf '%s\n' "${files[@]}" | grep -E '\.(h|cpp|cu|cuh)$' |
  xargs -r -d '\n' grep -nE "^.{$((max_columns + 1)),}" /dev/null | sed -E "s/^([^:]*:[0-9]*):.*/\1: more than $max_columns columns/" || true)
if [ -n "$found$wide" ]; then
  printf '%s\n' "$found" "$wide" | sed '/^$/d'
  exit 1
fi
echo "${#files[@]} sources have their SPDX line and fit $max_columns columns"
