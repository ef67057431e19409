#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Wrong input to `duet`: each gives one line on standard error that names the value and what is allowed, a status, and
# leaves no file.
source "$(dirname "$0")/common.bash"

npy x.npy '<f4' '(2, 2)' "$(f32 1 1 0 0)"
npy flat.npy '<f4' '(4,)' "$(f32 1 1 0 0)"
npy one.npy '<f4' '(1,)' "$(f32 1)"
npy cube.npy '<f4' '(2, 2, 1)' "$(f32 1 1 0 0)"
npy whole.npy '<i4' '(2, 2)' "$(i32 1 1 0 0)"
softmax="op softmax --impl reference"

# Command line.
refuses 2 'subcommand'
refuses 2 "'no_such' is not one of op list" no_such
refuses 2 'no-flag' --no-flag
refuses 2 'no-such-flag' op softmax --no-such-flag
refuses 2 "no_such_op.*softmax" op no_such_op --describe
refuses 2 'op is expected' op
refuses 2 "--impl ''.*reference" op softmax --in x=x.npy --out y=y.npy
refuses 2 "cpu.no_such.*reference" op softmax --impl cpu.no_such --in x=x.npy --out y=y.npy
refuses 2 'threads' op softmax --describe --threads x
refuses 2 'seed' op softmax --describe --seed -1
refuses 2 "x.npy' does not read name=value" $softmax --in x.npy --out y=y.npy
refuses 2 'given twice' $softmax --in x=x.npy --in x=x.npy --out y=y.npy
refuses 2 'threads 100000 is not within 1 ..' op relu --describe --threads 100000
refuses 2 'threads: Value 0 not in range 1 to' $softmax --in x=x.npy --out y=y.npy --threads 0
refuses 2 'threads: Value -1 not in range 1 to' op softmax --describe --threads=-1
refuses 2 "threads: '0x1' is not a whole number in decimal digits" op softmax --describe --threads=0x1
refuses 2 "seed: '0x10' is not a whole number in decimal digits" op softmax --describe --seed 0x10
does '"threads"|"op"' op softmax --describe --threads=01

# Messages show what was typed, but stay one short line without control characters.
refuses 2 "'no\\\\x1b\[31m\\\\nsuch\\\\xff\\\\u202e'.*unknown|no.*such" op $'no\e[31m\nsuch\xff\u202e' --describe
grep -q 'no\\x1b\[31m\\nsuch\\xff\\u202e' stderr || fail "not escaped: $(cat stderr)"
long=$(head -c 100000 /dev/zero | tr '\0' '(')
for arguments in "op $long --describe" "op softmax --describe --attr $long" "op softmax --describe --case $long" \
    "op softmax --describe --threads $long" "list --filter $long" "list --device $long" "report $long -o out" "$long" "train $long"; do
  refuses 2 '\(\(\(' $arguments
  [ "$(wc -c < stderr)" -lt 3000 ] || fail "a message of $(wc -c < stderr) bytes: $(head -c 100 stderr)"
done

# Attributes.
spmm="op spmm --impl cpu.tuned --seed 1 --threads 1 --check --case"
refuses 2 'tensor col: element 0 is [0-9]+; with checked:0, 0 .. 7 is allowed' $spmm 'm:4 k:8 n:2 nnz:6 checked:0 col=below:60'
refuses 2 'tensor row: element 0 is [0-9]+; with checked:0, 0 .. 0 is allowed' $spmm 'm:4 k:8 n:2 nnz:6 checked:0 row=below:90'
refuses 2 'tensor row: element 4 is 0; with checked:0, 6 .. 6 is allowed' $spmm 'm:4 k:8 n:2 nnz:6 checked:0 row=0'
refuses 2 "no attribute 'no_such'; known are dtype rows cols" op softmax --describe --attr no_such=1
refuses 2 "'many' is not a whole number" op softmax --describe --attr rows=many
refuses 2 "'1.5' is not a whole number" op softmax --describe --attr rows=1.5
refuses 2 'does not fit 64 bits' op softmax --describe --attr rows=99999999999999999999
refuses 2 "dtype 'f99' is not one of f64 f32" op softmax --describe --attr dtype=f99
refuses 2 'rows=-1.*zero or more' op softmax --describe --attr rows=-1
refuses 2 'rows=-1.*zero or more' $softmax --attr rows=-1 --in x=x.npy --out y=y.npy
refuses 2 'rows=3.*make it 2' $softmax --attr rows=3 --in x=x.npy --out y=y.npy
refuses 2 'expected --attr rows=N, .*or inputs' $softmax
refuses 2 "'1e300' is not a finite number of f32" op sgd --describe --attr momentum=1e300
refuses 2 "'nan' is not a finite number" op sgd --describe --attr momentum=nan
refuses 2 'rope: D must be even, is 7' op rope --describe --attr D=7
refuses 2 'rope: base must lie in 1 to 1e15, is 0.5' op rope --describe --attr base=0.5
refuses 2 'quantise: lo and hi: -128 <= lo <= hi <= 127, are 5 and 3' op quantise --describe --attr lo=5 --attr hi=3
refuses 2 'quantise: lo and hi: -128 <= lo <= hi <= 127, are -129 and 127' op quantise --describe --attr lo=-129
refuses 2 'fake_quantise: lo and hi: -32768 <= lo <= hi <= 65535, are -128 and 65536' op fake_quantise --describe --attr hi=65536
refuses 2 'strided_copy: stride: 1 or more, is 0' op strided_copy --describe --attr stride=0
refuses 2 'strided_copy: offset: 0 or more, is -1' op strided_copy --describe --attr offset=-1
refuses 2 'overflows; at most 2\^50 elements' op strided_copy --describe --attr n=4000000000 --attr stride=4000000000
refuses 2 'strided_copy: offset \+ \(n - 1\) stride overflows; at most 2\^50 elements' op strided_copy --describe --attr n=1 --attr offset=9223372036854775807
refuses 2 'gather: rows: below 2\^31, an index is an i32; is 3000000000' op gather --describe --attr rows=3000000000 --attr cols=1 --attr n=1
refuses 2 'max: axis must be 0 or 1, is 2' op max --describe --attr axis=2
refuses 2 'max: cols must be at least 1 where there are rows, is 0' op max --describe --attr rows=2 --attr cols=0
refuses 2 'argmax: rows must be at least 1 where there are columns, is 0' op argmax --describe --attr cols=2 --attr axis=0
refuses 2 'argmax: cols must be at most 2147483647, as index is i32; is 2147483648' op argmax --describe --attr rows=1 --attr cols=2147483648
refuses 2 'top_k: k must lie in 1 to cols, 3; is 4' op top_k --describe --attr rows=2 --attr cols=3 --attr k=4
refuses 2 'top_k: k must lie in 1 to cols, 3; is 0' op top_k --describe --attr rows=2 --attr cols=3 --attr k=0
refuses 2 'accuracy: k must lie in 1 to cols, 3; is 4' op accuracy --describe --attr rows=2 --attr cols=3 --attr k=4
refuses 2 'prune: sparsity must lie in 0 to 1, is 1.5' op prune --describe --attr scheme=magnitude --attr sparsity=1.5
npy fraction.npy '<f4' '(2,)' "$(f32 1 0.25)"
refuses 2 'tensor x: element 1 is 0.25; whole numbers from -65536 to 65536 are allowed' op study/occupancy --impl reference --attr chains=1 --in x=fraction.npy --out y=y.npy
refuses 2 'width: 4, 8 or 16 bytes, is 2' op study/coalescing --describe --attr n=8 --attr width=2
refuses 2 'prune: sparsity: 2:4 keeps half of the elements, so 0.5 is allowed, is 0.9' op prune --describe --attr sparsity=0.9
refuses 2 'im2col: stride_h, stride_w: 1 or more' op im2col --describe --attr stride_h=0
refuses 2 'augment: 3000000000: extents of images stay below 2\^31' op augment --describe --attr h=3000000000
refuses 2 'affine: 2000000: height and width are 2\^20 at most' op affine --describe --attr w=2000000
refuses 2 'l2_normalise: eps must be at least 1e-15, is 0' op l2_normalise --describe --attr eps=0
refuses 2 'distill: T must lie in 0.01 to 1000, is 0' op distill --describe --attr T=0
refuses 2 'distill_backward: alpha must lie in 0 to 1, is 1.5' op distill_backward --describe --attr alpha=1.5
refuses 2 'distill: cols must be at least 1 where there are rows, is 0' op distill --describe --attr rows=2

# Sizes: refused before anything is allocated.
refuses 2 'overflow' op softmax --describe --attr rows=9223372036854775807 --attr cols=9223372036854775807
refuses 2 'x \(1000000, 1000000\) takes 4000 GB.* of memory are available' $softmax --case f32/rows:1000000/cols:1000000

# Tensors and files.
refuses 2 "no input of this name; it has x" $softmax --in z=x.npy --out y=y.npy
refuses 2 "no input of this name; it has x" $softmax --in y=x.npy --out y=y.npy
refuses 2 "no output of this name; it has y" $softmax --in x=x.npy --out x=y.npy
refuses 2 'tensor x: expected --in x=FILE' $softmax --attr rows=2 --attr cols=2 --out y=y.npy
refuses 2 'tensor p: expected --in p=FILE' op sgd --impl reference --attr n=4 --in g=flat.npy --in v=flat.npy --in lr=one.npy --out p=y.npy
refuses 2 'x has rank 1; at least 2' $softmax --in x=flat.npy --out y=y.npy
refuses 2 'tensor x: expected shape \(2, 2\), got \(2, 2, 1\)' $softmax --in x=cube.npy --out y=y.npy
refuses 2 'tensor b: expected shape \(4,\), got \(2, 2\)' op add --impl reference --in a=flat.npy --in b=x.npy --out c=c.npy
npy value.npy '<f4' '(2,)' "$(f32 1 1)"
npy col.npy '<i4' '(2,)' "$(i32 0 7)"
npy row.npy '<i4' '(3,)' "$(i32 0 1 2)"
refuses 2 'tensor col: element 1 is 7; 0 .. 1 is allowed' op spmm --impl reference --in value=value.npy --in col=col.npy --in row=row.npy --in b=x.npy --out c=y.npy
refuses 2 'nnz 5: at most m \* k = 4' op spmm --impl reference --attr m=2 --attr k=2 --attr n=1 --attr nnz=5 --seed 1
refuses 2 'k 12: a multiple of 8' op gemm_2_4 --impl reference --attr m=1 --attr n=1 --attr k=12 --seed 1
refuses 2 'in 131072: at most 131071' op linear_int8 --impl reference --attr n=1 --attr in=131072 --attr out=1 --seed 1
refuses 2 'replicas 0: 1 or more' op all_reduce --impl reference --attr replicas=0 --attr n=1 --seed 1
refuses 2 'tensor x: expected f32 \(f2 f4 f8 in the file\), got i4' $softmax --in x=whole.npy --out y=y.npy
refuses 2 'cannot read missing.npy: No such file' $softmax --in x=missing.npy --out y=y.npy
refuses 2 'cannot read .*regular' $softmax --in x=. --out y=y.npy
npy label.npy '<i4' '(2,)' "$(i32 0 2)"
refuses 2 'tensor label: element 1 is 2; 0 .. 1 is allowed' op cross_entropy --impl reference --in x=x.npy --in label=label.npy --out loss=y.npy

# .npy files; the unit tests have the rest.
head -c 100 x.npy > cut_header.npy
head -c 140 x.npy > cut_data.npy
: > nothing.npy
echo '{"not": "an array"}' > other.npy
npy fat.npy '<f4' '(4294967296, 4294967296)' ''
npy negative.npy '<f4' '(-2, 2)' "$(f32 1 1 0 0)"
npy swapped.npy '>f4' '(2, 2)' "$(f32 1 1 0 0)"
npy complex.npy '<c8' '(2,)' "$(f32 1 1 0 0)"
for file in cut_header.npy:truncated cut_data.npy:truncated nothing.npy:NUMPY other.npy:NUMPY fat.npy:overflows \
    negative.npy:negative swapped.npy:big-endian complex.npy:allowed; do
  refuses 2 "${file%:*}: .*${file#*:}" $softmax --in x="${file%:*}" --out y=y.npy
done
npy two_lines.npy $'<f\n4' '(2,)' "$(f32 1 1)"
refuses 2 "type '<f\\\\n4' is not read" $softmax --in x=two_lines.npy --out y=y.npy
sed "s/'fortran_order': False/'fortran_order': True /" x.npy > columns.npy
refuses 2 'column-major' $softmax --in x=columns.npy --out y=y.npy

# Output files: a missing folder, a folder in place of the file, a folder without write permission.
refuses 2 'cannot write missing/y.npy: No such file' $softmax --in x=x.npy --out y=missing/y.npy
mkdir folder
refuses 2 'cannot write folder' $softmax --in x=x.npy --out y=folder
if [ "$(id -u)" != 0 ]; then
  mkdir locked && chmod 500 locked
  refuses 2 'cannot write locked/y.npy: Permission denied' $softmax --in x=x.npy --out y=locked/y.npy
fi
# The second of two results cannot be written: the first does not appear either.
npy labels.npy '<i4' '(2,)' "$(i32 0 1)"
refuses 2 'cannot write missing' op cross_entropy --impl reference --in x=x.npy --in label=labels.npy --out loss=y.npy --out lse=missing/l.npy

# list
refuses 2 "'\[' is not a regular expression" list --filter '['
refuses 2 "'.*\(' is not a regular expression" list --filter "$long"  # an engine that recurses would overflow its stack
refuses 2 "matches no job" list --filter "${long//(/a}"
refuses 2 "matches no job" list --filter '(.*)*$^'
refuses 2 "filter 'no/such/job'.* matches no job" list --filter no/such/job
refuses 2 'device' list --device tpu
refuses 2 'scale: tiny not in' list --scale tiny
refuses 2 'filter excludes --missing|missing excludes' list --missing --filter add
refuses 2 'OP requires --bounds' doctor unexpected

# report
echo '{"context": {}, "benchmarks": [' > cut.json
echo '[1, 2' > malformed.json
echo '{"duet": {"schema": 99}}' > newer.json
refuses 2 'missing.json' report missing.json -o out
refuses 2 'cut.json' report cut.json -o out
refuses 2 'malformed.json' report malformed.json -o out
refuses 2 'newer.json' report newer.json -o out
refuses 2 'out' report cut.json
mkfifo pipe
refuses 2 'pipe: is not a regular file' report pipe -o out  # reading it would wait for ever
refuses 2 '/dev/zero: is not a regular file' report /dev/zero -o out
refuses 2 'folder: is not a regular file' report folder -o out
[ ! -e out ] || fail "a refused report left its folder"
run_file=$DUET_SOURCE/tests/results/schema_1.json
refuses 2 "x.npy: is not a folder" report "$run_file" -o x.npy
refuses 2 "'': no folder" report "$run_file" -o ''
refuses 2 '--json - and --markdown -: only one' compare "$run_file" "$run_file" --json - --markdown -
refuses 2 '--json - and --markdown -: only one' gate --base-json "$run_file" --head-json "$run_file" --json - --markdown -
refuses 2 'noise.json: cannot' gate --base-json "$run_file" --head-json "$run_file" --noise noise.json
refuses 2 'is the file .* again' gate --base-json "$run_file" --head-json "$run_file"

# export, project
refuses 2 "format 'xml' is not one of gbench bencher" export cut.json --format xml
for file in missing.json cut.json malformed.json newer.json pipe; do
  refuses 2 "$file" export "$file" --format csv -o out.csv
  refuses 2 "$file" export "$file" --format junit
  refuses 2 "$file" project "$file" --gpu l4 -o out
  refuses 2 "$file" project cut.json --gpu l4 --gpus "$file"
done
refuses 2 'format is required' export cut.json
refuses 2 'gpu is required' project cut.json
refuses 2 "GPU 'h100' is not one of t4 .* h100-sxm h100-pcie" project cut.json --gpu h100
refuses 2 "GPU 'l4' is given twice" project cut.json --gpu l4 --gpu l4
refuses 2 'launch-us' project cut.json --gpu l4 --launch-us -1
refuses 2 'launch-us nan' project cut.json --gpu l4 --launch-us nan
echo '{"launch": {"us": -2, "definition": "d", "source": "s"}, "sources": {"s": "t"}}' > gpus.json
refuses 2 'gpus.json: launch.us: -2 is not a number of at least 0' project cut.json --gpu l4 --gpus gpus.json
[ ! -e out ] || fail "a refused projection left its folder"
finish
