#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kernels.sh [repository]: can g++ compile the kernel files for the host, and does it see everything they do?
# g++ cannot parse <<<, CUDA's headers define __shared__ as nothing for it, and only what goes through launch() is checked.
set -euo pipefail
checks=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${1:-$checks/../..}"
mapfile -t files < <(find kernels -type f \( -name '*.cu' -o -name '*.cuh' -o -name '*.h' \) | sort)
[ ${#files[@]} -gt 0 ] || { echo "no kernel files"; exit 77; }

found=$(awk -f "$checks/code.awk" "${files[@]}" | awk '
  function refuse(pattern, instead) {
    if (code ~ pattern) print at ": " instead
  }
  {
    split($0, part, ":")
    at = part[1] ":" part[2]
    code = substr($0, length(at) + 2)
    refuse("<<<", "write launch(kernel, Grid{...}, args...) instead of <<<")
    refuse("__shared__", "write DUET_SHARED or DUET_DYN_SHARED instead of __shared__")
    refuse("__constant__", "write DUET_CONSTANT of simt/constant.h instead of __constant__")
    refuse("(^|[^A-Za-z0-9_])(__)?asm(__)?[^A-Za-z0-9_]", "no asm: name the instruction in simt/")
    refuse("include[ \t]*[<\"]cooperative_groups", "cooperative_groups.h gives the host nothing")
    refuse("(^|[^A-Za-z0-9_])cuda[A-Z][A-Za-z0-9_]*[ \t]*\\(", "no CUDA runtime call in a kernel file: launch() or core/cuda")
  }')
if [ -n "$found" ]; then
  echo "$found"
  exit 1
fi
echo "${#files[@]} kernel files can be compiled for the host"
