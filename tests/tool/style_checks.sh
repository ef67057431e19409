#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the style checks: each `plant` line adds one violation to a clean folder, which the check must find.
set -euo pipefail
checks=${DUET_SOURCE:?}/tools/checks
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{build-cpu,core/cuda,ops,cpu_ref,kernels,models,bench,results,reports,tests/core}
cp "$DUET_SOURCE/.clang-format" "$work/"
spdx='// SPDX-License-Identifier: Apache-2.0\n'
printf "$spdx#pragma once\n" > "$work/core/tensor.h"
printf "$spdx"'#include "core/tensor.h"  // cudaMalloc(\n\n__global__ void f() { /* <<< asm */\n}\n' > "$work/kernels/clean.cu"
bad=0

plant() { # check, file, code: the check must pass without and fail with it, naming the file
  local out
  if ! out=$(bash "$checks/$1.sh" "$work"); then echo "$1 fails on clean code: $out"; bad=1; fi
  printf '%b\n' "$3" > "$work/$2"
  if out=$(bash "$checks/$1.sh" "$work" 2>&1) || [[ $out != *"$2"* ]]; then echo "$1 passes $2: $3"; bad=1; fi
  rm "$work/$2"
}
accept() { # check, file, code: the check passes with it
  local out
  printf '%b\n' "$3" > "$work/$2"
  if ! out=$(bash "$checks/$1.sh" "$work"); then echo "$1 refuses $2: $3: $out"; bad=1; fi
  rm "$work/$2"
}

plant layers core/x.h '#include "ops/softmax.h"'
plant layers core/x.cpp '#include "core/cuda/gpu.h"'
plant layers ops/x.h '#include "cpu_ref/softmax.h"'
plant layers cpu_ref/x.cpp '#include "kernels/softmax.h"'
plant layers models/x.cpp '#include "kernels/softmax.h"'
plant layers tests/core/x.cpp '#include "core/cuda/gpu_context.h"'
plant layers bench/x.cpp '#include "ops/softmax.h"'
plant layers reports/x.cpp '#include "core/tensor.h"'
plant layers results/x.cpp '#include "core/tensor.h"'
plant layers results/x.cpp '#include "reports/report.h"'
plant layers ops/x.h '#include "softmax.h"'
plant layers models/x.cpp '#include <cuda_runtime.h>'
plant layers bench/x.cpp 'void f() { cudaDeviceSynchronize(); }'
plant layers kernels/x.cpp '__global__ void f();'
plant layers kernels/x.cu 'void f();'
plant kernels kernels/x.cu 'void g() { f<<<1, 32>>>(); }'
plant kernels kernels/x.cu '__global__ void f() { __shared__ float tile[32]; }'
plant kernels kernels/x.cu '__device__ void f() { asm volatile("membar.gl;"); }'
plant kernels kernels/x.cuh '#include <cooperative_groups.h>'
plant kernels kernels/x.cu 'void f() { cudaMemset(0, 0, 0); }'

plant words core/x.h 'struct OldFile;'
plant words core/x.h 'void f();  // Nobody calls this.'
plant words kernels/x.cuh 'constexpr int kMostThreads = 1;'
plant words README.md 'every primitive'
plant words CONTRIBUTING.md 'culprit'
plant words core/x.cpp '// compared with the oracle'
plant words core/obstacle.h '#pragma once'
accept words README.md 'The reference is an oracle: slow and right.'
accept words core/x.h 'int skill_most = 1;  // prejudice apart'

plant sources core/x.h '#pragma once'
accept sources build-cpu/x.cmake 'generated'
accept words build-cpu/x.cpp '// compared with the oracle'
plant sources core/x.cpp "\n$spdx"
plant sources core/x.cpp "$spdx$(printf '// %0120d' 0)"
plant sources core/x.py '#!/usr/bin/env python3'
accept sources core/x.py '#!/usr/bin/env python3\n# SPDX-License-Identifier: Apache-2.0'
accept sources core/x.cpp "$spdx$(printf '// %0117d' 0)"

# clang-tidy looks at what differs from the last commit, with the flags of a build.
repository() { git -C "$work" -c user.name=test -c user.email=test@localhost "$@"; }
export DUET_BUILD=$work/build
if command -v git > /dev/null && command -v clang-tidy-14 > /dev/null; then
  cp "$DUET_SOURCE/.clang-tidy" "$work/"
  mkdir "$work/build"
  printf 'build/\n' > "$work/.gitignore"
  printf '%s\n' '[{"directory": "'"$work"'",' '  "command": "c++ -std=c++20 -I. -c core/x.cpp",' \
    '  "file": "'"$(cd "$work" && pwd -P)"'/core/x.cpp"}]' > "$DUET_BUILD/compile_commands.json"
  repository init -q
  repository add .
  repository commit -q -m 'core: start'
  plant tidy core/x.cpp "${spdx}int f(int a) {\n  a = 1, a += 2;\n  return a;\n}"
  plant tidy core/x.cpp "${spdx}int badName() { return 1; }"
  plant tidy core/x.cpp "${spdx}struct A { virtual void f(); };\nstruct B : A { void f(); };"
  plant tidy core/x.cpp "${spdx}int f(long a) {\n  int b = a;\n  return b;\n}"
  accept tidy core/x.cpp "${spdx}constexpr int kTwo = 2;\nint f(int a) {\n  for (int i = 0; i < a; ++i, ++a) a += kTwo;\n  return a;\n}"
  # A header by the source that includes it.
  printf "$spdx"'#include "core/x.h"\n' > "$work/core/x.cpp"
  printf "$spdx#pragma once\n" > "$work/core/x.h"
  repository add .
  repository commit -q -m 'core: add x'
  repository commit -q --allow-empty -m 'core: nothing'
  plant tidy core/x.h "${spdx}#pragma once\ninline int badName() { return 1; }"
else
  echo "no git or no clang-tidy 14: style.tidy is not tested"
fi

printf '__global__ void f() {}\n' > "$work/kernels/clean.cu"
if bash "$checks/format.sh" "$work" > /dev/null 2>&1; then plant format core/x.h 'int  x ;'; fi
exit $bad
