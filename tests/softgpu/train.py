#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""duet train --device gpu on the CUDA device in software (duet_train_softgpu). DUET_BIN: the folder of the programs.

Small sets of made-up digits, images and text, in the formats of MNIST, CIFAR-10 and plain text. Training on the CPU from
the same seed must give the same losses, accuracies and parameters, but for roundings.
"""
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

BIN = os.environ.get("DUET_BIN", "build/bin")
PROGRAM = BIN + "/duet_train_softgpu"
failures = []


def check(condition, message):
    if not condition:
        failures.append(message)
        print("FAILED:", message, flush=True)
    return condition


def image(label, pixels, dice):
    """A noisy image whose bright stripe depends on the label, so that an epoch learns something."""
    stripe = range(label * pixels // 10, (label + 1) * pixels // 10)
    return bytes(min(255, dice.randrange(40) + (200 if p in stripe else 0)) for p in range(pixels))


def digits(folder, dice):
    for stem, count in (("train", 40), ("t10k", 16)):
        labels = bytes(i % 10 for i in range(count))
        with open(f"{folder}/{stem}-images-idx3-ubyte", "wb") as file:
            file.write(struct.pack(">IIII", 0x803, count, 28, 28) + b"".join(image(l, 784, dice) for l in labels))
        with open(f"{folder}/{stem}-labels-idx1-ubyte", "wb") as file:
            file.write(struct.pack(">II", 0x801, count) + labels)
    return folder


def images(folder, dice):
    for name, count in (("data_batch_1", 20), ("test_batch", 8)):
        with open(f"{folder}/{name}.bin", "wb") as file:
            for i in range(count):
                file.write(bytes([i % 2]) + image(i % 2, 3072, dice))  # two classes: four steps can tell them
    return folder


def text(folder, dice):
    words = ["the ", "cat ", "dog ", "sees ", "a ", "bird. "]
    path = folder + "/text.txt"
    with open(path, "w", encoding="ascii") as file:
        file.write("".join(dice.choice(words) for _ in range(120)))
    return path


MODELS = {  # what: the model, its data, options
    "mlp": ("mlp", digits, ["--batch", "8", "--epochs", "2"]),
    "clipped mlp with a scaled loss": ("mlp", digits, ["--batch", "8", "--epochs", "2", "--attr", "dtype=f16", "--attr",
                                                       "mixed=1", "--clip", "0.5"]),
    "lenet": ("lenet", images, ["--batch", "4", "--epochs", "2", "--lr", "0.05"]),
    "gpt2": ("gpt2", text, ["--batch", "2", "--epochs", "2", "--attr", "tokens=16", "--attr", "context=16", "--attr",
                    "layers=2", "--attr", "heads=2", "--attr", "width=32"]),
}


def run(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=280, check=False)


def parameters(path):
    """Name -> values of the f32 tensors of a checkpoint (safetensors), and its metadata."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__")
    values = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if entry["dtype"] == "F32":
            values[name] = struct.unpack_from(f"<{(end - begin) // 4}f", data, 8 + size + begin)
    return values, metadata


def trained(what, device, data, folder):
    """Loss and validation accuracy of each epoch, test accuracy, and the checkpoint."""
    model, _, extra = MODELS[what]
    path = f"{folder}/{what}.{device}.safetensors"
    done = run("train", model, "--device", device, "--threads", "1", "--data", data, "--checkpoint", path,
               "--validation", "0.2", *extra)
    if not check(done.returncode == 0, f"{what} on {device}: {done.returncode}: {done.stdout}{done.stderr}"):
        return None
    check(("software GPU" in done.stdout) == (device == "gpu"), f"{what}: not on {device}: {done.stdout}")
    check(done.stderr == "", f"{what} on {device}: {done.stderr}")
    epochs = [(float(loss), float(accuracy)) for loss, accuracy in
              re.findall(r"^epoch +\d+  loss (\S+) .*validation accuracy (\S+) %", done.stdout, re.M)]
    test = re.search(r"^test accuracy (\S+) %", done.stdout, re.M)
    check(epochs and test, f"{what} on {device}: {done.stdout}")
    return epochs, test and test[1], *parameters(path)


def compare(model, folder):
    make = MODELS[model][1]
    os.mkdir(f"{folder}/{model}")
    data = make(f"{folder}/{model}", random.Random(1))
    cpu, gpu = (trained(model, device, data, folder) for device in ("cpu", "gpu"))
    if not cpu or not gpu:
        return
    for number, ((loss, accuracy), (gpu_loss, gpu_accuracy)) in enumerate(zip(cpu[0], gpu[0], strict=True), 1):
        check(abs(loss - gpu_loss) <= 2e-4 * loss + 1e-4, f"{model}, epoch {number}: loss {gpu_loss}, CPU {loss}")
        check(accuracy == gpu_accuracy, f"{model}, epoch {number}: accuracy {gpu_accuracy}, CPU {accuracy}")
    check(cpu[1] == gpu[1], f"{model}: test accuracy {gpu[1]}, CPU {cpu[1]}")
    check(cpu[3] == gpu[3] and cpu[3]["epochs"] != "0", f"{model}: checkpoints of {gpu[3]}, CPU {cpu[3]}")
    check(cpu[2].keys() == gpu[2].keys() and len(cpu[2]) >= 4, f"{model}: tensors {sorted(gpu[2])}, {sorted(cpu[2])}")
    worst = 0
    for name, want in cpu[2].items():
        scale = max(map(abs, want)) or 1
        worst = max(worst, max(abs(a - b) for a, b in zip(want, gpu[2][name], strict=True)) / scale)
        check(worst <= 5e-3, f"{model}: {name} differs by {worst:.2g} of its largest value")
    print(f"{model}: losses {[loss for loss, _ in gpu[0]]}; parameters within {worst:.1g} of the CPU's")


def main():
    for args in (("doctor",), ("list",), ()):
        done = run(*args)
        check(done.returncode == 2 and "train alone" in done.stderr, f"{args}: {done.returncode}: {done.stderr}")
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            compare(model, folder)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
