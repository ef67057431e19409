#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/bundle and the gpu_day_one that it packs, with programs that stand in for Duet's: a stage that fails, one that
# hangs, a machine without a GPU, an archive that has everything. DUET_SOURCE: the repository.
set -uo pipefail
source_dir=${DUET_SOURCE:?the repository}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
fail() {
  printf 'FAILED: %.1500s\n' "$*"
  failures=$((failures + 1))
}
has() { # FILE PATTERN
  grep -qE -- "$2" "$1" || fail "no match of '$2' in $1: $(cat "$1")"
}

# A build folder: scripts, and one program with libraries.
mkdir -p build/bin
cat > build/bin/duet << 'DUET'
#!/bin/sh
case "$1" in
  list) echo 'softmax (norm): y = exp(x)'; echo '  cpu.tuned'; echo 'add (elementwise): y = a + b' ;;
  *) echo "duet $*" ;;
esac
DUET
printf '#!/bin/sh\necho "bench_all of Duet, a stand-in"\n' > build/bin/bench_all
chmod +x build/bin/duet build/bin/bench_all
cp "$(command -v xz)" build/bin/duet_op_tests || { echo 'skipped: no xz'; exit 77; }

bundle() { bash "$source_dir/tools/bundle" "$@" > stdout 2> stderr; }
bundle out/b --build build --archive || fail "bundle: $(cat stderr)"
[ -e out/b/lib/liblzma.so.5 ] || fail "the library of a program is missing: $(ls out/b/lib)"
[ ! -e out/b/lib/libcupti.so.13 ] || fail 'CUPTI from nowhere'
ls out/b/lib | grep -qE '^(libc\.so|ld-linux|libcuda\.so|libm\.so)' && fail "glibc or the driver is in it: $(ls out/b/lib)"
has out/b/suites/families.txt '^norm softmax$'
has out/b/glibc.txt '^2\.[0-9]+$'
has out/b/build.txt 'a stand-in'
[ "$(out/b/duet hello)" = 'duet hello' ] || fail 'the start of a program'
mkdir toolkit
touch toolkit/libcupti.so.13 toolkit/libnvperf_host.so toolkit/libnvperf_target.so
ln -s libcupti.so.13 toolkit/libcupti.so
echo "DUET_cupti_LIBRARY:FILEPATH=$work/toolkit/libcupti.so" > build/CMakeCache.txt
bundle out/counters --build build || fail "bundle: $(cat stderr)"
[ -e out/counters/lib/libcupti.so.13 ] && [ -e out/counters/lib/libnvperf_host.so ] && [ -e out/counters/lib/libnvperf_target.so ] ||
  fail "CUPTI is missing: $(ls out/counters/lib)"
rm -r out/counters build/CMakeCache.txt
tar -tzf out/b.tar.gz > listed; has listed '^b/gpu_day_one$'
bundle out/b --build build || fail "a bundle is replaced: $(cat stderr)"
mkdir other && touch other/mine
bundle other --build build && fail 'a folder of something else was replaced'
has stderr 'exists and is no bundle'
[ -e other/mine ] || fail 'a file was deleted'
bundle out/c --build nowhere && fail 'a build that is not there'
has stderr 'nowhere/bin/bench_all is not built'
bundle --frobnicate && fail 'an unknown option'
[ "$(ls out)" = "$(printf 'b\nb.tar.gz')" ] || fail "left behind: $(ls out)"

day_one() { DUET_DAY_ONE_LIMIT=${limit:-20} out/b/gpu_day_one "$@" > stdout 2> stderr; }
day_one --dry-run --out d || fail "--dry-run: $(cat stderr)"
for stage in doctor gpu tests_norm tests_elementwise sanitizer smoke quick report profile counters; do has stdout "^$stage +[0-9]+ s  "; done
has stdout "softmax.cuda"
has stdout '^10 stages, at most 20 minutes; the archive: d.tar.gz'
[ ! -e d ] || fail '--dry-run left files'
touch out/b/bench_all_softgpu && chmod +x out/b/bench_all_softgpu
day_one --softgpu --dry-run || fail "--softgpu: $(cat stderr)"
rm out/b/bench_all_softgpu
has stdout '^smoke .*/bench_all_softgpu --scale smoke --filter'
has stdout '^6 stages'
grep -qE '^(quick|report|profile|counters) ' stdout && fail 'stages that need times, on the software GPU'
for wrong in '--minutes 0' '--gpu x;y' '--only none' '--frobnicate'; do
  day_one $wrong
  [ $? = 2 ] || fail "$wrong: not refused"
done

# Everything works; the tests of a family fail, and smoke hangs.
cat > bench << 'BENCH'
#!/bin/sh
for a; do case $a in --json=*) echo '{}' > "${a#*=}" ;; esac; done
case "$*" in *"--scale smoke --json"*) echo begun; trap '' INT; sleep 60 ;; esac
echo "bench $*"
BENCH
cat > tests << 'TESTS'
#!/bin/sh
case "$*" in *softmax*) echo 'softmax is wrong'; exit 1 ;; esac
echo 'all passed'
TESTS
chmod +x bench tests
export DUET_DAY_ONE_BENCH=$work/bench DUET_DAY_ONE_TESTS=$work/tests DUET_DAY_ONE_KILL_AFTER=1
limit=2 day_one --out "$PWD/d"
[ $? = 1 ] || fail "a failed stage: status $?: $(cat stdout stderr)"
has d/summary.txt 'tests_norm +FAILED with status 1'
has d/summary.txt 'tests_elementwise +ok'
has d/summary.txt 'smoke +not finished within 2 s'
has d/summary.txt 'quick +ok'
has d/summary.txt 'profile +ok'
has d/summary.txt 'not ok: tests_norm smoke'
has d/tests_norm.log 'softmax is wrong'
has d/smoke.log '^begun'
tar -tzf d.tar.gz > listed || fail 'the archive'
[ "$(head -3 listed | tr '\n' ' ')" = 'summary.txt tests_norm.log smoke.log ' ] || fail "the most telling first: $(cat listed)"
for file in doctor.log quick.json profile.log; do has listed "^$file$"; done
[ ! -e d/mps.log ] || fail 'MPS from nowhere'

# With MPS, tests run in several processes, all of which count; it runs during the tests alone, and ends with them.
mkdir path
cat > path/nvidia-cuda-mps-control << 'MPS'
#!/bin/sh
[ -d "$CUDA_MPS_PIPE_DIRECTORY" ] || exit 1
case "$*" in -d) echo begins >> "$MPS_LOG" ;; *) read -r word; echo "$word" >> "$MPS_LOG" ;; esac
MPS
cat > path/nproc << 'NPROC'
#!/bin/sh
echo 3
NPROC
cat > tests << 'TESTS'
#!/bin/sh
[ -n "$CUDA_MPS_PIPE_DIRECTORY" ] || exit 1
case "$*" in *softmax*"--shard 1/3"*) echo 'softmax is wrong'; exit 1 ;; esac
echo "$*"
TESTS
printf '#!/bin/sh\necho "$CUDA_MPS_PIPE_DIRECTORY$DUET_TEST_JOBS bench $*"\n' > bench
chmod +x path/*
MPS_LOG=$work/mps_log PATH=$work/path:$PATH day_one --out "$PWD/m"
[ $? = 1 ] || fail "tests with MPS: $(cat stdout stderr)"
[ "$(tr '\n' ' ' < mps_log)" = 'begins quit ' ] || fail "MPS: $(cat mps_log)"
has m/summary.txt 'MPS: tests of a family run in 3 processes'
has m/summary.txt 'tests_norm +FAILED with status 1'
has m/summary.txt 'tests_elementwise +ok'
[ "$(grep -c -- '--shard [012]/3' m/tests_elementwise.log)" = 3 ] || fail "shards: $(cat m/tests_elementwise.log)"
has m/quick.log '^ bench'
MPS_LOG=/dev/null/x PATH=$work/path:$PATH day_one --out "$PWD/m2" --only tests,gpu
has m2/summary.txt '^MPS: '
grep -q 'in 3 processes' m2/summary.txt && fail 'MPS that did not start is used'

# No GPU: the stages behind it are left out.
printf '#!/bin/sh\necho "bench_all: --device gpu: no CUDA driver"; exit 77\n' > bench
day_one --out n
[ $? = 77 ] || fail "without a GPU: $(cat stdout stderr)"
has n/summary.txt 'gpu +skipped: bench_all: --device gpu: no CUDA driver'
has n/summary.txt 'there is no GPU to use'
grep -q tests_norm n/summary.txt && fail 'tests ran without a GPU'
tar -tzf n.tar.gz > /dev/null || fail 'the archive without a GPU'

# A machine whose glibc is older.
echo 9.99 > out/b/glibc.txt
day_one --out g
[ $? = 77 ] || fail 'an older glibc'
has stderr 'the bundle needs 9.99'
[ ! -e g ] || fail 'left files'
[ "$failures" = 0 ] || exit 1
echo passed
