#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Do the style checks see what they are there for? Each line plants one violation in a copy that is clean.
set -euo pipefail
checks=${DUET_SOURCE:?}/tools/checks
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{core/cuda,ops,cpu_ref,kernels,models,bench,results,reports,tests/core}
cp "$DUET_SOURCE/.clang-format" "$work/"
printf '#pragma once\n' > "$work/core/tensor.h"
printf '#include "core/tensor.h"  // cudaMalloc(\n\n__global__ void f() { /* <<< asm */\n}\n' > "$work/kernels/clean.cu"
bad=0

plant() { # check, file, code: the check must pass without and fail with it, naming the file
  local out
  if ! out=$(bash "$checks/$1.sh" "$work"); then echo "$1 fails on clean code: $out"; bad=1; fi
  printf '%b\n' "$3" > "$work/$2"
  if out=$(bash "$checks/$1.sh" "$work" 2>&1) || [[ $out != *"$2"* ]]; then echo "$1 passes $2: $3"; bad=1; fi
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
printf '__global__ void f() {}\n' > "$work/kernels/clean.cu"
if bash "$checks/format.sh" "$work" > /dev/null 2>&1; then plant format core/x.h 'int  x ;'; fi
exit $bad
