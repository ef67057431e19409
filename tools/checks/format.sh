#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# format.sh [repository]: is every file laid out as clang-format 14 does it? `clang-format-14 -i FILE` corrects a file.
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"
tool=
for name in clang-format-14 clang-format; do
  case $(command -v "$name" >/dev/null && "$name" --version) in *"version 14."*) tool=$name; break ;; esac
done
[ -n "$tool" ] || { echo "skipped: no clang-format 14 (versions differ in layout; tools/setup --dev installs it)"; exit 77; }
folders=()
for folder in core ops cpu_ref kernels simt models bench results reports cli tests; do
  [ ! -d $folder ] || folders+=($folder)
done
find "${folders[@]}" -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -P 2 -n 8 "$tool" --dry-run -Werror --ferror-limit=3
echo "formatted"
