# SPDX-License-Identifier: Apache-2.0
# Shared by tools/ci/*: where programs and results are, and what is measured. Sourced from the repository's root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${DUET_CI_OUT:-out/ci}                        # results, for upload
programs=${DUET_CI_PROGRAMS:-build/bin}           # of the commit under test
base_programs=${DUET_CI_BASE_PROGRAMS:-out/ci-base/build/bin}  # of the commit it is compared with
filter=${DUET_CI_FILTER:-'^(gemm|conv2d|attention|softmax|layernorm|cross_entropy|sum|copy|adamw)/'}
scale=${DUET_CI_SCALE:-quick}
budget=${DUET_CI_BUDGET:-10min}                   # of the gate
baseline=${DUET_CI_BASELINE:-out/ci-baseline}     # the cache's folder: runs of the main branch
mkdir -p "$out" "$baseline"
name=$(basename "$0")
say() { printf '%s: %s\n' "$name" "$*"; }
die() { printf '%s: error: %s\n' "$name" "$*" >&2; exit 2; }
usage() { sed -n '3,/^source /{/^source /!s/^# \{0,1\}//p}' "$0"; }
baseline_runs() { find "$baseline" -maxdepth 1 -name 'run-*.json' | sort; }  # oldest first
