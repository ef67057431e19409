#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The defaults of duet train learn: each model reaches what chance does not give. Where that takes long, one epoch and a
smaller model have to do; rate, batch, schedule and samples are always the defaults. DUET_BIN: the folder of the programs.
"""
import os
import re
import subprocess
import sys
import tempfile

LIMIT_S = 300
DUET = os.path.abspath(os.environ["DUET_BIN"] + "/duet")
# Model: options, the result of the test that is looked at, what it is by chance, its bound, and what it was on an AMD EPYC
# with AVX2, 2026-11-28 (resnet50: with AVX-512, 2026-11-29).
MODELS = {
    "toy": ("", "accuracy", 50, 60, 82.6),
    "mlp": ("", "accuracy", 10, 85, 97.95),
    "mnist_cnn": ("--epochs 1", "accuracy", 10, 80, 94.05),
    "lenet": ("--epochs 1", "accuracy", 10, 20, 30.3),
    "cifar_cnn": ("--epochs 1 --attr width=8", "accuracy", 10, 20, 32.75),
    "image_cnn": ("--epochs 1", "accuracy", 10, 17, 25.3),
    "resnet50": ("", "accuracy", 10, 25, 41.0),
    "imdb_bilstm": ("--attr T=24", "accuracy", 50, 80, 90.35),
    "lstm_scorer": ("--attr T=8 --attr units=32", "accuracy", 50, 80, 100),
    "transformer_small": ("--epochs 1", "accuracy", 4, 80, 100),
    "gpt2": ("--epochs 1 --attr layers=1 --attr width=64 --attr tokens=16 --attr context=16", "perplexity", 256, 5, 2.87),
    "llama": ("--epochs 1 --attr layers=1 --attr width=64 --attr inner=128 --attr tokens=16", "perplexity", 256, 5, 2.63),
    "recommender": ("", "RMSE", 0.88, 0.6, 0.489),
}


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for model, (options, what, chance, bound, _) in MODELS.items():
            try:
                done = subprocess.run([DUET, "train", model, *options.split()], cwd=folder, capture_output=True, text=True,
                                      timeout=LIMIT_S, check=False)
            except subprocess.TimeoutExpired:
                print(f"{model}: FAILED, not done within {LIMIT_S} s", flush=True)
                failures += 1
                continue
            found = re.search(rf"^test .*\b{what} ([0-9.]+)", done.stdout, re.M)
            named = done.stdout.startswith("bilstm f32/batch:64/") if model == "imdb_bilstm" else True
            value = float(found[1]) if done.returncode == 0 and found and named else float("nan")
            learnt = value > bound if bound > chance else value < bound
            print(f"{model}: {what} {value}, {chance} by chance, bound {bound}: {'learnt' if learnt else 'FAILED'}", flush=True)
            if not learnt:
                print(done.stdout, done.stderr)
            failures += not learnt
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
