#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# layers.sh [repository]: does every include follow the arrows, and is CUDA used only where it is allowed?
#   core <- ops <- {cpu_ref, kernels, models}; core <- simt <- kernels; core <- softgpu; models <- {bench, cli, tests}
#   results <- {bench, reports, cli}; reports <- {bench, cli}; bench <- cli
# The table below is exact: a permission that nothing uses is removed.
set -euo pipefail
checks=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${1:-$checks/../..}"
folders=()
for folder in core ops cpu_ref kernels simt softgpu models bench results reports cli tests; do
  [ ! -d $folder ] || folders+=($folder)
done
mapfile -t files < <(find "${folders[@]}" -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) | sort)

found=$(awk -f "$checks/code.awk" "${files[@]}" | awk '
  BEGIN {
    # Which folder may include which. core/cuda exists only in builds with CUDA, so only what is compiled there may use it.
    may["core"] = "core"
    may["core/cuda"] = "core core/cuda"
    may["ops"] = "core ops"
    may["cpu_ref"] = "core ops cpu_ref"
    may["simt"] = "core core/cuda simt"
    may["softgpu"] = "core softgpu"  # stands in for the CUDA runtime; only linked, never included
    may["tests/softgpu"] = "core ops simt softgpu models bench results"
    may_file["tests/softgpu"] = "tests/results/fixture.h"
    may["kernels"] = "core core/cuda ops simt kernels"
    may["models"] = "core ops models"
    may["bench"] = "core models results bench"  # no ops folder: it names no op; of reports, what a terminal shows
    may_file["bench"] = "reports/report.h reports/format.h reports/gate/program.h"
    may["results"] = "results"  # and of core two plain headers: errors, and a ceiling as the devices measure it
    may_file["results"] = "core/error.h core/ceiling.h"
    may["reports"] = "results reports"  # and of core what needs no other of its files
    may_file["reports"] = "core/error.h"
    may["cli"] = "core models bench results reports simt cli"
    may["tests"] = "core ops cpu_ref models bench results reports simt cli tests"
    may["tests/core/cuda"] = "core core/cuda kernels tests/cudnn"
    may["tests/cudnn"] = "core core/cuda kernels tests/cudnn"
  }
  function folder(path) { if (match(path, /^((tests\/)?core\/cuda|tests\/(softgpu|cudnn))\//)) return substr(path, 1, RLENGTH - 1); sub(/\/.*/, "", path); return path }
  {
    split($0, part, ":")
    file = part[1]; at = file ":" part[2]
    code = substr($0, length(at) + 2)
    here = folder(file)
    cuda_allowed = here == "core/cuda" || here == "tests/core/cuda" || here == "tests/cudnn" || here == "kernels" || here == "simt" || here == "softgpu"
    if (match(code, /^[ \t]*#[ \t]*include[ \t]*["<][^">]*/)) {
      target = substr(code, RSTART, RLENGTH); sub(/^[^"<]*["<]/, "", target)
      there = folder(target)
      if (there in may) {
        if (index(" " may[here] " ", " " there " ") == 0 && index(" " may_file[here] " ", " " target " ") == 0)
          print at ": " here " may not include " target
      } else if (code ~ /"/) {
        print at ": \"" target "\" does not start at the repository root"
      }
      if (!cuda_allowed && code ~ /<(cuda|cublas|cudnn|cooperative_groups|cub\/|mma\.h)/) print at ": CUDA header " target
    } else if (!cuda_allowed && match(code, /(^|[^A-Za-z0-9_])(cuda|cublas|cudnn)[A-Z][A-Za-z0-9_]*[ \t]*\(/)) {
      print at ": CUDA call outside core/cuda, kernels, simt and softgpu: " substr(code, RSTART, RLENGTH - 1)
    }
    if (code ~ /__(global|device)__/ && code !~ /^[ \t]*#/) {  # a macro for functions of both sides is no device code
      if (file ~ /\.cpp$/) print at ": device code belongs in a .cu file"
      else if (!cuda_allowed) print at ": device code in " here
    }
  }')

# .cu only where there is device code, or a kernel header that holds some: nvcc takes several times as long as the host
# compiler. Those that compose other implementations are .cu because these are compiled for the host as well.
for file in "${files[@]}"; do
  case $file in
    *_unfused.cu) ;;
    *.cu) grep -qE '__(global|device)__|^#include "kernels/' "$file" || found+=$'\n'"$file: no device code, so it should be a .cpp" ;;
  esac
done
if [ -n "$found" ]; then
  sed '/^$/d' <<< "$found"
  exit 1
fi
echo "${#files[@]} files follow the arrows"
