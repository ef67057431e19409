#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# duet train: its output, its checkpoints, and what it refuses.
source "$(dirname "$0")/common.bash"
small="--threads 1 --batch 50"

# --help names the models, the options and the data.
does '--checkpoint' train --help
for word in mnist_cnn cifar_cnn bilstm --resume --patience CIFAR-10; do
  grep -q -- "$word" stdout || fail "train --help does not mention $word"
done

# Training, a checkpoint, and resuming from it.
does 'test accuracy [0-9.]+ % with the parameters of epoch [12]' train toy $small --epochs 2 --checkpoint toy.safetensors
grep -qE 'epoch  2  loss 0\.[0-9]+  validation accuracy [0-9.]+ %' stdout || fail "no line for epoch 2: $(cat stdout)"
[ "$(wc -l < stdout)" = 4 ] || fail "not four lines: $(cat stdout)"
[ -s toy.safetensors ] || fail "no checkpoint"
does '^epoch  3 ' train toy $small --epochs 3 --resume toy.safetensors
grep -q '^epoch  1 ' stdout && fail "a resumed training started again"
does 'no better for 1 epoch\(s\): stopped' train toy $small --epochs 50 --lr 1e-12 --patience 1

# Mixed precision in f16: the printed loss is not scaled, and the scale is part of the checkpoint.
mixed="--attr mixed=1 --attr dtype=f16 --threads 1 --batch 20"
does '^lenet f16/batch:20/mixed:1 on ' train lenet $mixed --lr 0.01 --epochs 1 --checkpoint half.safetensors
grep -qE '^epoch  1  loss [0-3]\.[0-9]+  validation accuracy [0-9.]+ %' stdout || fail "a scaled loss: $(cat stdout)"
grep -aq '"loss_scale":' half.safetensors || fail "no loss scale in the checkpoint"
does '^epoch  2  loss [0-3]\.' train lenet $mixed --epochs 2 --resume half.safetensors

# Checkpoints that do not fit or are malformed.
refuses 2 "toy'.*not of mlp" train mlp $small --resume toy.safetensors
refuses 2 'seed 1, not 2' train toy $small --seed 2 --epochs 9 --resume toy.safetensors
refuses 2 'checkpoint has [12] already' train toy $small --epochs 1 --resume toy.safetensors
refuses 2 'none.safetensors: cannot be read' train toy $small --resume none.safetensors
head -c 100 toy.safetensors > cut.safetensors
refuses 2 'cut.safetensors: a header of .*truncated' train toy $small --resume cut.safetensors
refuses 2 'cannot write no/c.safetensors' train toy $small --checkpoint no/c.safetensors

# Data.
mkdir cifar
printf 'not an image' > cifar/data_batch_1.bin
refuses 2 'data_batch_1.bin: 12 bytes; one or more records of 3073 bytes' train lenet --threads 1 --data cifar
refuses 2 "'none' is not a directory" train cifar_cnn --threads 1 --data none
refuses 2 'no reader of files for model toy' train toy $small --data cifar
refuses 2 'no reader of files for model imdb_bilstm' train imdb_bilstm --threads 1 --data cifar
refuses 2 'T 0: 1 to 65536' train imdb_bilstm $small --attr T=0
refuses 2 'T 65537: 1 to 65536' train imdb_bilstm $small --attr T=65537
refuses 2 'T -1: 1 to 65536' train imdb_bilstm $small --attr T=-1

refuses 2 'cifar: cannot be read as a file' train gpt2 --threads 1 --data cifar

# A checkpoint is written even if no epoch was better. Output that cannot be written is an error.
does 'no epoch was better than the parameters of epoch 0, which same.safetensors holds' \
  train toy $small --epochs 1 --lr 1e-12 --checkpoint same.safetensors
[ -s same.safetensors ] || fail "no checkpoint of the best parameters"
"$duet" train toy $small --epochs 1 > /dev/full 2> stderr && fail "a full disk was not noticed"
grep -q 'standard output cannot be written' stderr || fail "a full disk: $(cat stderr)"

# Attributes are checked together, in any order. They change the small gpt2 that is trained by default: windows of 64
# tokens. Where there are no data, nothing is planned first.
refuses 2 'mixed: master parameters go with bf16 or f16, not f32' train lenet --threads 1 --attr mixed=1
refuses 2 '4218 samples are fewer than the batch of 99999' train gpt2 --threads 1 --attr layers=2 --batch 99999
refuses 2 '8437 samples are fewer than the batch of 99999' train gpt2 --threads 1 --attr tokens=32 --batch 99999
timeout 10 "$duet" train resnet50 --threads 1 > stdout 2> stderr
[ $? = 2 ] || fail "resnet50 was planned before its data were looked for: $(cat stderr)"
grep -q 'model resnet50 takes 150528 features a sample, for which there are no data' stderr || fail "resnet50: $(cat stderr)"

# The defaults of imdb_bilstm learn, here on shorter reviews.
does '^bilstm f32/batch:64/' train imdb_bilstm --attr T=24
[ "$(sed -n 's/^test accuracy \([0-9]*\).*/\1/p' stdout)" -ge 80 ] || fail "imdb_bilstm learnt nothing: $(cat stdout)"

# Options.
refuses 2 "'no_model' is unknown; known are .*bilstm.*lenet" train no_model
refuses 2 'epochs: Value 0 not in range 1 to' train toy $small --epochs 0
refuses 2 'validation 1; a fraction' train toy $small --validation 1
refuses 2 'patience: Value -1 not in range 0 to' train toy $small --patience -1
refuses 2 'lr 0;' train toy $small --lr 0
refuses 2 'batch: Value 0 not in range 1' train toy --threads 1 --batch 0
refuses 2 "epochs: '0x3' is not a whole number" train toy $small --epochs 0x3
refuses 2 '8100 samples are fewer than the batch of 9000' train toy --threads 1 --batch 9000
finish
