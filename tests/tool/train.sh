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
does 'test accuracy [0-9.]+ %  precision [0-9.]+ recall [0-9.]+ F1 [0-9.]+ with the parameters of epoch [12]' train toy $small --epochs 2 --checkpoint toy.safetensors
grep -qE 'epoch  2  loss 0\.[0-9]+  validation accuracy [0-9.]+ %' stdout || fail "no line for epoch 2: $(cat stdout)"
[ "$(wc -l < stdout)" = 4 ] || fail "not four lines: $(cat stdout)"
[ -s toy.safetensors ] || fail "no checkpoint"
does '^epoch  3 ' train toy $small --epochs 3 --resume toy.safetensors
grep -q '^epoch  1 ' stdout && fail "a resumed training started again"
does 'no better for 1 epoch\(s\): stopped' train toy $small --epochs 50 --lr 1e-12 --patience 1

# A few images in CIFAR-10's format.
command -v python3 > /dev/null || { echo "skipped: no python3"; exit 77; }
mkdir tiny
python3 -c '
import random
dice = random.Random(1)
for name, count in (("data_batch_1", 40), ("test_batch", 10)):
    open(f"tiny/{name}.bin", "wb").write(b"".join(bytes([i % 10]) + dice.randbytes(3072) for i in range(count)))'

# Mixed precision in f16, clipped: the printed loss is not scaled, and the scale is part of the checkpoint.
mixed="--data tiny --attr mixed=1 --attr dtype=f16 --threads 1 --batch 20"
does '^lenet f16/batch:20/layout:nhwc/mixed:1 on ' train lenet $mixed --lr 0.01 --clip 1 --epochs 1 --checkpoint half.safetensors
grep -qE '^epoch  1  loss [0-3]\.[0-9]+  validation accuracy [0-9.]+ %' stdout || fail "a scaled loss: $(cat stdout)"
grep -aq '"loss_scale":' half.safetensors || fail "no loss scale in the checkpoint"
grep -aq '"clip":"1"' half.safetensors || fail "no norm in the checkpoint"
does '^epoch  2  loss [0-3]\.' train lenet $mixed --epochs 2 --resume half.safetensors

# What a checkpoint says of augmentation holds until an option says otherwise.
does '^epoch  1 ' train lenet $mixed --augment --epochs 1 --checkpoint changed.safetensors
for option in '' --augment --no-augment; do
  does '^epoch  2 ' train lenet $mixed --epochs 2 --resume changed.safetensors $option --checkpoint resumed.safetensors
  expected=1
  [ "$option" = --no-augment ] && expected=0
  [ "$(grep -ac '"augment":"1"' resumed.safetensors)" = "$expected" ] || fail "augmentation after a resumption with '$option'"
done

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

# A teacher's parameters are those of its checkpoint, and stay so; a training that is resumed has them.
images="cifar_cnn --threads 1 --batch 8 --data tiny" distilled="--attr width=4 --attr compress=distilled"
does 'test accuracy' train $images --attr width=8 --epochs 1 --checkpoint teacher.safetensors
does 'test accuracy' train $images $distilled --epochs 1 --teacher teacher.safetensors --checkpoint student.safetensors
does 'test accuracy' train $images --epochs 3 --resume student.safetensors --checkpoint student2.safetensors
python3 -c '
import json, struct
def tensors(path):
    data = open(path, "rb").read()
    size, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    return {n: data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]] for n, t in header.items() if n[0] != "_"}
teacher = tensors("teacher.safetensors")
for path in ("student.safetensors", "student2.safetensors"):
    got = {n: t for n, t in tensors(path).items() if n.startswith("teacher.")}
    assert len(got) == 10 and all(t == teacher[n[8:]] for n, t in got.items()), path' || fail "other parameters than the teacher's"
does 'class [0-9]' predict cifar_cnn student.safetensors --index 0 --data tiny --threads 1
refuses 2 "teacher toy.safetensors: the checkpoint is of model 'toy', not of cifar_cnn" train $images $distilled --teacher toy.safetensors
refuses 2 "teacher teacher.safetensors: the checkpoint's width is 8, the teacher's 64" train $images --attr compress=distilled --teacher teacher.safetensors
refuses 2 "teacher student.safetensors: the checkpoint's compress is distilled, the teacher's none" train $images --attr width=2 --attr compress=distilled --teacher student.safetensors
refuses 2 'teacher teacher.safetensors: model toy f32/batch:50 has no teacher' train toy $small --teacher teacher.safetensors
refuses 2 'teacher teacher.safetensors: model cifar_cnn f32/batch:8/width:4 has no teacher' train $images --attr width=4 --teacher teacher.safetensors
refuses 2 'teacher none.safetensors: .*cannot be read' train $images $distilled --teacher none.safetensors
head -c 5000 teacher.safetensors > short.safetensors
refuses 2 'teacher short.safetensors: .*(truncated|outside)' train $images $distilled --teacher short.safetensors
refuses 2 'teacher teacher.safetensors: a training that is resumed has the teacher of its checkpoint' train $images --epochs 9 --resume student.safetensors --teacher teacher.safetensors
refuses 2 'teacher teacher.safetensors: model toy f32/batch:50 has no teacher' train toy $small --epochs 9 --resume toy.safetensors --teacher teacher.safetensors
refuses 2 'width 0: 1 to 4096 are allowed' train $images --attr width=0
refuses 2 'width 4096: 1 to 2048 are allowed' train $images --attr width=4096 --attr compress=distilled
cp teacher.safetensors kept.safetensors
refuses 2 'teacher and --checkpoint name one file' train $images $distilled --teacher teacher.safetensors --checkpoint teacher.safetensors
cmp -s teacher.safetensors kept.safetensors || fail "the teacher's file was written"

# A checkpoint is written even if no epoch was better. Output that cannot be written is an error.
does 'no epoch was better than the parameters of epoch 0, which same.safetensors holds' \
  train toy $small --epochs 1 --lr 1e-12 --checkpoint same.safetensors
[ -s same.safetensors ] || fail "no checkpoint of the best parameters"
"$duet" train toy $small --epochs 1 > /dev/full 2> stderr && fail "a full disk was not noticed"
grep -q 'standard output cannot be written' stderr || fail "a full disk: $(cat stderr)"

# Attributes are checked together, in any order. They change the small gpt2 that is trained by default: windows of 64
# tokens. Where there are no data, nothing is planned first.
refuses 2 'mixed: master parameters go with bf16 or f16, not f32' train lenet --threads 1 --attr mixed=1
refuses 2 '4218 samples are fewer than the batch of 4219' train gpt2 --threads 1 --attr layers=2 --attr width=16 --attr heads=2 --batch 4219
refuses 2 '8437 samples are fewer than the batch of 8438' train gpt2 --threads 1 --attr tokens=32 --attr width=16 --attr heads=2 --batch 8438
timeout 10 "$duet" train resnet50 --threads 1 --data cifar > stdout 2> stderr
[ $? = 2 ] || fail "resnet50 was planned before its data were looked for: $(cat stderr)"
grep -q 'data cifar: not a folder with a folder of images for each class' stderr || fail "resnet50: $(cat stderr)"

# Schedules, accumulation and clipping: a training that is resumed goes on as it would have, to the bit.
how="--schedule cosine --warm-up 20 --lr 0.02 --accumulate 2 --clip 0.5"
"$duet" train toy $small --epochs 4 $how --checkpoint whole.safetensors --log whole.csv > whole || fail "a schedule"
"$duet" train toy $small --epochs 2 $how --checkpoint cut_off.safetensors > stdout || fail "half a schedule"
head -3 whole.csv | tail -2 | cut -d, -f1,2 | tr '\n' ' ' | grep -q '^1,81 2,162 $' || fail "the log: $(cat whole.csv)"
[ "$(wc -l < whole.csv)" = 5 ] && head -1 whole.csv | grep -q '^epoch,updates,loss,.*validation_f1,learning_rate,seconds,samples_per_s$' ||
  fail "the log: $(cat whole.csv)"
[ "$(tail -1 whole.csv | cut -d, -f9)" = 0 ] || fail "a cosine does not end at 0: $(tail -1 whole.csv)"
"$duet" train toy $small --epochs 3 --checkpoint c3.safetensors --log j.jsonl > three || fail "three epochs"
"$duet" train toy $small --epochs 2 --checkpoint c2.safetensors --log k.jsonl > stdout || fail "two epochs"
"$duet" train toy $small --epochs 3 --resume c2.safetensors --checkpoint c3b.safetensors --log k.jsonl > stdout || fail "the third"
cmp -s c3.safetensors c3b.safetensors || fail "a resumed training gives other parameters"
[ "$(sed 's/"learning_rate.*//' j.jsonl)" = "$(sed 's/"learning_rate.*//' k.jsonl)" ] || fail "logs: $(cat j.jsonl k.jsonl)"
# A log that is ahead of the checkpoint loses the epochs that are trained again; what is no epoch stays.
"$duet" train toy $small --epochs 3 --resume c2.safetensors --log k.jsonl > stdout || fail "the third again"
[ "$(wc -l < k.jsonl)" = 3 ] || fail "epochs are repeated: $(cat k.jsonl)"
"$duet" train toy $small --epochs 6 --resume c2.safetensors --log whole.csv > stdout || fail "four epochs"
[ "$(cut -d, -f1 whole.csv | tr '\n' ' ')" = 'epoch 1 2 3 4 5 6 ' ] || fail "epochs of the log: $(cat whole.csv)"
# A model that updates its parameters in the forward pass follows the schedule as well.
how="--schedule inverse_sqrt --warm-up 50"
"$duet" train recommender --threads 1 --epochs 2 $how --checkpoint r2.safetensors > stdout || fail "two epochs of ratings"
"$duet" train recommender --threads 1 --epochs 1 $how --checkpoint r1.safetensors > stdout || fail "an epoch of ratings"
"$duet" train recommender --threads 1 --epochs 2 --resume r1.safetensors --checkpoint r1b.safetensors > stdout || fail "the second"
cmp -s r2.safetensors r1b.safetensors || fail "a resumed recommender gives other parameters"

# A resumed training has the batch, the validation samples and the task that it had, unless an option says otherwise.
"$duet" train toy --threads 1 --epochs 1 --batch 64 --validation 0.3 --checkpoint b.safetensors > first || fail "a batch of 64"
"$duet" train toy --threads 1 --epochs 2 --resume b.safetensors > stdout || fail "its second epoch"
[ "$(head -1 first)" = "$(head -1 stdout)" ] || fail "resumed otherwise: $(head -1 first) and $(head -1 stdout)"
"$duet" train toy --threads 1 --epochs 2 --resume b.safetensors --batch 32 > stdout || fail "another batch"
grep -q 'batch:32' stdout || fail "--batch is not taken: $(head -1 stdout)"
echo kept > kept.csv
refuses 2 'data /nope' train toy $small --data /nope --log kept.csv
[ "$(cat kept.csv)" = kept ] || fail "--log was emptied before the data were read"
refuses 2 'log and --checkpoint name one file' train toy $small --log x.csv --checkpoint x.csv
refuses 2 'impl-preference goes with --choose order' train toy $small --choose measured --impl-preference cpu.tuned
cp k.jsonl later.jsonl
refuses 2 'epochs 2: the checkpoint has 2 already' train toy $small --epochs 2 --resume c2.safetensors --log later.jsonl
refuses 2 'seed 1, not 2' train toy $small --epochs 9 --seed 2 --resume c2.safetensors --log later.jsonl
refuses 2 'warm-up 99999: the training has 162 updates' train toy $small --epochs 1 --warm-up 99999 --log later.jsonl
refuses 2 'warm-up 99999: the training has 162 updates' train toy $small --epochs 1 --warm-up 99999 --log new.csv
refuses 2 "log x.txt: a name that ends in" train toy $small --log x.txt
refuses 2 'log no/x.csv: cannot be written' train toy $small --log no/x.csv
refuses 2 'warm-up 99999: the training has 162 updates' train toy $small --epochs 1 --warm-up 99999
refuses 2 'schedule: linear not in' train toy $small --schedule linear
refuses 2 'accumulate: Value 0 not in range' train toy $small --accumulate 0
refuses 2 'clip nan; a finite number above 0' train toy $small --clip nan
refuses 2 'phase prefill: .*only an inference has phases' train gpt2 --threads 1 --attr phase=prefill
refuses 2 'folded 1: only an inference .*; a step allows 0' train resnet50 --threads 1 --attr folded=1
refuses 2 'model toy takes no images' train toy $small --augment
refuses 2 'parts 2: 1 is allowed, because a checkpoint of a split network is not served' train mlp --threads 1 --batch 48 --attr parts=2 --attr dropout=0
refuses 2 'replicas 2: 1 is allowed, because training on a data set has one batch a step' train toy $small --attr replicas=2
does 'test accuracy' train toy $small --epochs 1 --choose measured --checkpoint chosen.safetensors
grep -aq 'linear_backward f32/[^ ]*:..cpu\.' chosen.safetensors || fail "no implementations in the checkpoint"
does 'test accuracy' train toy $small --epochs 2 --resume chosen.safetensors
refuses 2 'impl-preference goes with --choose order: the checkpoint' train toy $small --epochs 2 --resume chosen.safetensors --impl-preference cpu.tuned
does 'test accuracy' train toy $small --epochs 2 --resume chosen.safetensors --impl-preference cpu.tuned --choose order
sed 's/"implementations":"{/"implementations":"[/' chosen.safetensors > edited.safetensors
refuses 2 'resume edited.safetensors: .*implementations: an object of ops' train toy $small --epochs 2 --resume edited.safetensors
sed 's/:..cpu\.[a-z]/:\\"cpu.X/g' chosen.safetensors > edited.safetensors
does 'test accuracy' train toy $small --epochs 2 --resume edited.safetensors

# interrupts N ARGUMENTS...: a training that gets SIGINT after the line of epoch N.
interrupts() {
  local epoch=$1 pid
  rm -f running
  "$duet" train "${@:2}" > running 2> stderr &
  pid=$!
  for _ in $(seq 1200); do grep -qs "^epoch  $epoch " running && break; sleep 0.02; done
  kill -INT $pid
  wait $pid
  local status=$?
  [ $status = 130 ] || fail "SIGINT, train ${*:2}: status $status: $(cat stderr)"
}
# SIGINT: the program ends after its step with 130, and the checkpoint holds the best epoch that is complete.
interrupts 2 toy $small --epochs 100000 --checkpoint stopped.safetensors
grep -qE 'interrupted: stopped (in|after) epoch .*; stopped.safetensors holds epoch [0-9]+, --resume goes on' stderr || fail "SIGINT: $(cat stderr)"
does 'test accuracy' train toy $small --epochs 100000 --patience 1 --lr 1e-12 --resume stopped.safetensors

# A file that holds another training is not replaced by one that was no better yet.
echo another > other.safetensors
interrupts 2 toy $small --epochs 100000 --lr 1e-12 --checkpoint other.safetensors
grep -q 'no epoch was better, other.safetensors is left as it was' stderr || fail "SIGINT: $(cat stderr)"
[ "$(cat other.safetensors)" = another ] || fail "a checkpoint of another training is lost"

# A signal at any moment after the first checkpoint, maybe while the next one is written: the file is whole.
for signal in INT KILL INT KILL INT KILL; do
  rm -f at_once.safetensors running
  "$duet" train toy $small --epochs 100000 --checkpoint at_once.safetensors > running 2> stderr &
  pid=$!
  for _ in $(seq 600); do [ -e at_once.safetensors ] && break; sleep 0.01; done
  sleep 0.0$RANDOM
  kill -$signal $pid
  wait $pid 2> /dev/null
  does '^sample 0 of drawn points' predict toy at_once.safetensors --index 0 --threads 1
done

# A resumed training goes on with its data, its schedule and as many epochs as were planned, to the bit.
python3 -c 'print("the cat sat on the mat, and the dog did not. " * 6000)' > tale.txt
tale="--attr layers=1 --attr width=16 --attr heads=2 --attr tokens=16 --threads 1 --batch 64 --lr 0.01"
tale="$tale --data tale.txt --epochs 3 --schedule cosine --warm-up 9 --accumulate 2 --clip 1 --impl-preference cpu.openblas,cpu.tuned"
"$duet" train gpt2 $tale --checkpoint tale3.safetensors > stdout || fail "three epochs of a text"
interrupts 1 gpt2 $tale --checkpoint tale.safetensors
cmp -s tale3.safetensors tale.safetensors && fail "the training of a text was not interrupted"
does 'gpt2 .*/tale.txt: 13669 samples' train gpt2 --threads 1 --resume tale.safetensors --checkpoint tale.safetensors
cmp -s tale3.safetensors tale.safetensors || fail "a resumed training of a text gives other parameters"
refuses 2 'epochs 3: the checkpoint has 3 already, as planned; a larger number goes on' train gpt2 --threads 1 --resume tale.safetensors
does 'drawn text' train gpt2 --threads 1 --epochs 4 --data '' --resume tale.safetensors
sed 's/"epochs_planned":"3"/"epochs_planned":"0"/' tale.safetensors > edited.safetensors
refuses 2 'resume edited.safetensors: .*epochs_planned is 0; 1 to' train gpt2 --threads 1 --resume edited.safetensors
sed 's/"impl_preference":"cpu.openblas/"impl_preference":"cpu.openb.../' tale.safetensors > edited.safetensors
refuses 2 "resume edited.safetensors: .*impl_preference 'cpu.openb...': no op has" train gpt2 --threads 1 --resume edited.safetensors
sed 's/"learning_rate":"0.01"/"learning_rate":"-.01"/' tale.safetensors > edited.safetensors
refuses 2 'resume edited.safetensors: .*learning_rate is -0.01; a finite number above 0' train gpt2 --threads 1 --resume edited.safetensors

# A training that begins with the parameters of another one.
does '^epoch  1 ' train toy --threads 1 --epochs 1 --init toy.safetensors --checkpoint tuned.safetensors
grep -q 'batch:50' stdout || fail "--init takes no attributes: $(head -1 stdout)"
refuses 2 'either is allowed' train toy --init toy.safetensors --resume toy.safetensors
refuses 2 'init and --checkpoint name one file' train toy --init toy.safetensors --checkpoint ./toy.safetensors
refuses 2 "init toy.safetensors: the checkpoint is of model 'toy', not of lenet" train lenet --data tiny --batch 20 --threads 1 --init toy.safetensors
refuses 2 'task add: only a model of drawn pairs' train toy $small --task add
refuses 2 'lr 1e.39; a finite number above 0' train toy $small --lr 1e39
refuses 2 'lr 1e-50; a finite number above 0' train toy $small --lr 1e-50
refuses 77 'the step needs [0-9]+ bytes' train lstm_scorer --threads 1 --attr T=65536 --attr features=65536 --batch 100000

# Serving what was trained.
does '^sample 3 of drawn points: class [01], [0-9.]+ %; its label is [01]$' predict toy toy.safetensors --index 3 --threads 1
[ "$(wc -l < stdout)" = 3 ] || fail "a class and two probabilities: $(cat stdout)"
"$duet" predict toy toy.safetensors --index 0 --index 7 --threads 1 --json > answer.json || fail "predict --json"
python3 -c '
import json
d = json.load(open("answer.json"))
assert d["model"] == "toy" and len(d["predictions"]) == 2, d
for p in d["predictions"]:
    assert p["class"] == p["top"][0]["class"] and abs(sum(t["probability"] for t in p["top"]) - 1) < 1e-6, p' || fail "$(cat answer.json)"
npy sample.npy '<f4' '(10,)' "$(f32 0 1 0 0 0 0 0 0 0 0)"
does '^sample.npy: class 1, ' predict toy c3.safetensors sample.npy --threads 1
refuses 2 "toy.safetensors: the checkpoint is of model 'toy', not of lenet" predict lenet toy.safetensors --index 0
refuses 2 'index 2000: drawn points has 2000 samples to test; 0 to 1999' predict toy toy.safetensors --index 2000
refuses 2 'nothing to predict' predict toy toy.safetensors
refuses 2 'replicas 2: only a training step has it' predict toy toy.safetensors --index 0 --attr replicas=2
refuses 2 'model toy continues no text' predict toy toy.safetensors --prompt a
refuses 2 'cut.safetensors: a header of .*truncated' predict toy cut.safetensors --index 0
refuses 2 'sample.npy: 10 elements; a sample of the model has 3072' predict lenet half.safetensors sample.npy
npy last.npy '<f4' '(32, 32, 3)' "$(f32 $(printf '0.25 %.0s' $(seq 3072)))"
npy first.npy '<f4' '(1, 3, 32, 32)' "$(f32 $(printf '0.25 %.0s' $(seq 3072)))"
npy nan.npy '<f4' '(3072,)' "$(printf '\\x00\\x00\\xc0\\x7f%.0s' $(seq 3072))"
refuses 2 'last.npy: shape .32, 32, 3.; 3072 numbers, or .3, 32, 32., channels first' predict lenet half.safetensors last.npy
does '^first.npy: class ' predict lenet half.safetensors first.npy --threads 1
refuses 2 'nan.npy: element 0 is nan' predict lenet half.safetensors nan.npy
refuses 2 'temperature nan; a finite number' predict toy toy.safetensors --index 0 --temperature nan
"$duet" train gpt2 --attr layers=1 --attr width=16 --attr heads=2 --attr tokens=16 --threads 1 --batch 512 --epochs 1 --lr 0.01 \
  --checkpoint text.safetensors > stdout || fail "a small gpt2: $(cat stdout)"
grep -qE 'epoch  1 .*perplexity [0-9.]+' stdout || fail "no perplexity: $(cat stdout)"
"$duet" predict gpt2 text.safetensors --prompt 'the ' --tokens 20 --threads 1 > greedy || fail "a continuation"
[ "$(wc -c < greedy)" = 25 ] && grep -q '^the ' greedy || fail "a continuation: $(cat greedy)"
n=0
for seed in 1 1 2; do
  n=$((n + 1))
  "$duet" predict gpt2 text.safetensors --prompt 'the ' --tokens 20 --temperature 2 --seed $seed --threads 1 --json > drawn.$n || fail "drawn"
done
cmp -s drawn.1 drawn.2 || fail "equal seeds give other texts"
cmp -s drawn.1 drawn.3 && fail "other seeds give equal texts"
# 16-bit tokens of a file give the same continuation as the bytes. The model reads a window of 16.
printf '%s' 'xxxxxxxxxxxxxxxxxxxxthe ' > the.txt
printf 'x\0x\0x\0x\0x\0x\0x\0x\0x\0x\0x\0x\0x\0x\0x\0x\0x\0x\0x\0x\0t\0h\0e\0 \0' > the.bin
drawn='--tokens 20 --temperature 2 --seed 1 --threads 1'
"$duet" predict gpt2 text.safetensors the.bin $drawn > tokens || fail "tokens of a file"
"$duet" predict gpt2 text.safetensors --prompt "$(cat the.txt)" $drawn | tail -c 21 | head -c 20 | od -An -v -tu1 | xargs > bytes
cmp -s tokens bytes || fail "tokens: $(cat tokens) and $(cat bytes)"
"$duet" predict gpt2 text.safetensors --prompt "$(cat the.txt)" $drawn --json > drawn.json || fail "tokens of a text"
python3 -c 'import json, sys; print(*json.load(open("drawn.json"))["tokens"])' | cmp -s - tokens || fail "tokens: $(cat drawn.json)"
does '^  "input": "the.bin",$' predict gpt2 text.safetensors the.bin --tokens 2 --threads 1 --json
printf 't\0h' > odd.bin
printf 't\0\377\0\0\1' > foreign.bin
: > none.bin
refuses 2 'odd.bin: 3 bytes are no 16-bit tokens' predict gpt2 text.safetensors odd.bin
refuses 2 'foreign.bin: token 256 at position 2 is not below the model.s vocabulary of 256' predict gpt2 text.safetensors foreign.bin
refuses 2 'none.bin: 1 token or more' predict gpt2 text.safetensors none.bin
refuses 2 'first.npy: for model gpt2 a file of 16-bit tokens .\.bin. is allowed' predict gpt2 text.safetensors first.npy
refuses 2 'model gpt2 continues a text: give .*either --prompt or one file' predict gpt2 text.safetensors the.bin --prompt 'the '
refuses 2 'model gpt2 continues a text: give .*either --prompt or one file' predict gpt2 text.safetensors the.bin the.bin
refuses 2 'model gpt2 continues a text: give .*either --prompt or one file' predict gpt2 text.safetensors --index 0
# A token that is no byte, 299, again and again.
for n in $(seq 4000); do printf '\053\001'; done > high.bin
"$duet" train gpt2 --attr layers=1 --attr width=16 --attr heads=2 --attr tokens=16 --attr vocabulary=300 --data high.bin \
  --threads 1 --batch 16 --epochs 4 --lr 0.01 --checkpoint high.safetensors > stdout || fail "tokens: $(cat stdout)"
does '^299 299 299 299$' predict gpt2 high.safetensors high.bin --tokens 4 --threads 1
# With this temperature all 300 tokens are about as likely.
refuses 2 'answers with token 2[5-9][0-9]: its tokens are no bytes; a file of' predict gpt2 high.safetensors --prompt a --temperature 1000 --threads 1
for n in $(seq 200); do printf '\007\000'; done > low.bin
"$duet" train gpt2 --attr layers=1 --attr width=16 --attr heads=2 --attr tokens=16 --attr vocabulary=30 --data low.bin \
  --threads 1 --batch 4 --epochs 1 --checkpoint low.safetensors > stdout || fail "few tokens: $(cat stdout)"
refuses 2 'prompt: byte 97 is not below the model.s vocabulary of 30' predict gpt2 low.safetensors --prompt a

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
