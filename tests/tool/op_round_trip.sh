#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# duet op: reads .npy files and writes .npy files, by the reference and by the implementations of softmax built here. Every
# implementation of every op: tests/cli/op_test.cpp.
source "$(dirname "$0")/common.bash"

npy x.npy '<f4' '(3, 4)' "$(f32 0 0 0 0 1 1 1 1 -1 -1 -1 -1)"
quarters=$(for i in 1 2 3 4 5 6; do f32 0.25 0.25; done)
npy quarter.npy '<f4' '(3, 4)' "$quarters"
built() { "$duet" list --device cpu --scale test --filter "^$1/" 2> /dev/null | sed -n 's/^  \(cpu\.[a-z]*\) *$/\1/p'; }
for implementation in reference $(built softmax); do
  does 'y -> y.npy' op softmax --impl "$implementation" --in x=x.npy --out y=y.npy
  same y.npy quarter.npy
  does 'check: passed.*12 elements of 3 slices' op softmax --impl "$implementation" --in x=x.npy --check
done

# Two inputs; dimensions from the files, given, and both.
npy a.npy '<f4' '(3,)' "$(f32 1 0 2)"
npy b.npy '<f4' '(3,)' "$(f32 1 0 1)"
npy sum.npy '<f4' '(3,)' "$(f32 2 0 3)"
for dimensions in "" "--attr n=3"; do
  does 'c -> c.npy' op add --impl reference $dimensions --in a=a.npy --in b=b.npy --out c=c.npy
  same c.npy sum.npy
done

# bf16 is stored as f4; 64-bit whole numbers that fit are narrowed; an older result is replaced.
does 'c -> c.npy' op add --impl reference --attr dtype=bf16 --in a=a.npy --in b=b.npy --out c=c.npy
same c.npy sum.npy
npy x2.npy '<f4' '(2, 2)' "$(f32 1 1 0 0)"
npy label.npy '<i8' '(2,)' "$(i32 1 0 0 0)"
does 'lse' op cross_entropy --impl reference --in x=x2.npy --in label=label.npy --out loss=loss.npy --out lse=lse.npy

# A tensor without elements gives an empty result.
npy empty.npy '<f4' '(0, 7)' ''
does 'y -> y.npy' op softmax --impl reference --in x=empty.npy --out y=y.npy
same y.npy empty.npy

# Drawn inputs, with the label of a job as in a reproduction line; the same seed draws the same.
does 'check: passed' op softmax --impl reference --case f32/rows:5/cols:33 --check
does 'y ->' op softmax --impl reference --attr rows=5 --attr cols=33 --seed 7 --out y=first.npy
does 'y ->' op softmax --impl reference --attr rows=5 --attr cols=33 --seed 7 --out y=second.npy
same first.npy second.npy
does 'y ->' op softmax --impl reference --attr rows=5 --attr cols=33 --seed 8 --out y=third.npy
! cmp -s first.npy third.npy || fail "another seed draws the same"

# Inputs that are not independent of each other, such as the row starts of a sparse matrix, are drawn so that they are
# valid: a row of three ones times a vector of ones.
npy ones3.npy '<f4' '(3,)' "$(f32 1 1 1)"
npy ones4.npy '<f4' '(4, 1)' "$(f32 1 1 1 1)"
npy three.npy '<f4' '(1, 1)' "$(f32 3)"
does 'c -> c.npy' op spmm --impl reference --attr m=1 --attr k=4 --attr n=1 --attr nnz=3 --seed 1 \
  --in value=ones3.npy --in b=ones4.npy --out c=c.npy
same c.npy three.npy

# A bound of a row counts as the nearest number in [0, nnz], and a row that descends is empty, by every implementation.
npy rows.npy '<i4' '(3,)' "$(i32 1 9 -2)"
npy cols.npy '<i4' '(3,)' "$(i32 3 0 1)"
npy two_none.npy '<f4' '(2, 1)' "$(f32 2 0)"
for implementation in reference $(built spmm); do
  does 'c -> c.npy' op spmm --impl "$implementation" --in value=ones3.npy --in col=cols.npy --in row=rows.npy \
    --in b=ones4.npy --out c=c.npy
  same c.npy two_none.npy
done

# Whole numbers that index no tensor may have any value, whatever the extents of the others: a flip of -1 mirrors, a
# crop may leave the image, and a step may exceed what is drawn.
npy images.npy '|u1' '(2, 2, 2, 1)' '\xff\x00\x00\x00\xff\x00\x00\x00'
npy flip.npy '<i4' '(2,)' "$(i32 -1 0)"
npy top.npy '<i4' '(2,)' "$(i32 0 1)"
npy left.npy '<i4' '(2,)' "$(i32 0 0)"
npy mean.npy '<f4' '(1,)' "$(f32 0)"
npy std.npy '<f4' '(1,)' "$(f32 1)"
npy crops.npy '<f4' '(2, 1, 2, 2)' "$(f32 0 1 0 0 0 0 0 0)"
does 'y -> y.npy' op augment --impl reference --attr ho=2 --attr wo=2 --in x=images.npy --in top=top.npy \
  --in left=left.npy --in flip=flip.npy --in mean=mean.npy --in std=std.npy --out y=y.npy
same y.npy crops.npy
npy step.npy '<i4' '(1,)' "$(i32 1500)"
npy next_step.npy '<i4' '(1,)' "$(i32 1501)"
does 'step -> stepped.npy' op adam --impl reference --attr n=1000 --seed 1 --in step=step.npy --out step=stepped.npy
same stepped.npy next_step.npy
npy offset.npy '<i4' '(1,)' "$(i32 2000000)"
does 'check: passed' op dropout --impl reference --attr n=1048576 --seed 1 --in offset=offset.npy --check

# inout: the file is read, the result goes elsewhere.
npy g.npy '<f4' '(2,)' "$(f32 1 1)"
npy lr.npy '<f4' '(1,)' "$(f32 1)"
npy p.npy '<f4' '(2,)' "$(f32 2 3)"
npy v.npy '<f4' '(2,)' "$(f32 0 0)"
npy p_want.npy '<f4' '(2,)' "$(f32 1 2)"
does 'p -> p_new.npy' op sgd --impl reference --in g=g.npy --in lr=lr.npy --in p=p.npy --in v=v.npy --out p=p_new.npy
same p_new.npy p_want.npy

does '^softmax$' op --list
does '"op": "softmax"' op softmax --describe
finish
