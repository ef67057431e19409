#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""duet predict on image files, on sequences and for users, checkpoints of another layout, and trainings whose loss is not finite.
DUET_BIN: the folder of the programs. tests/tool/train.sh has what else the two commands do.
"""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import zlib

DUET = os.path.abspath(os.environ["DUET_BIN"] + "/duet")
ORANGE, SKY = (200, 100, 50), (10, 40, 120)
# 8 x 8 of ORANGE, as in tests/models/data/image_test.cpp.
JPEG = bytes.fromhex(
    "ffd8ffdb0043000201010101010201010102020202020403020202020504040304060506060605060606070908060709070606080b08090a"
    "0a0a0a0a06080b0c0b0a0c090a0a0affdb004301020202020202050303050a0706070a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
    "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0affc00011080008000803012200021101031101ffc400150001010000"
    "0000000000000000000000000005ffc40014100100000000000000000000000000000000ffc4001401010000000000000000000000000000"
    "0008ffc40014110100000000000000000000000000000000ffda000c03010002110311003f009e00ae6c3fffd9")
failures = []


def check(condition, message):
    if not condition:
        failures.append(message)
        print("FAILED:", message[:800], flush=True)
    return condition


def run(*args):
    command = [DUET, *args, "--threads", "1"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", "not done within 300 s")


def does(*args):
    """What a command prints that has to succeed."""
    done = run(*args)
    check(done.returncode == 0, f"{args}: {done.returncode}: {done.stderr}")
    return done.stdout


def refuses(pattern, *args):
    done = run(*args)
    check(done.returncode == 2 and not done.stdout, f"{args}: {done.returncode}: {done.stdout}")
    check(re.search(pattern, done.stderr) and done.stderr.count("\n") == 1, f"{args}: no match of '{pattern}': {done.stderr}")


def readable(model, image):
    """False where the library of its format was not there when this program was built."""
    return "this build reads no" not in run("predict", "lenet", model, image).stderr


def predictions(*args):
    out = does("predict", *args, "--json")
    return json.loads(out)["predictions"] if out else []


# --- files -----------------------------------------------------------------------------------------------------------

def ppm(path, colour, side=8):
    with open(path, "wb") as file:
        file.write(b"P6\n%d %d\n255\n" % (side, side) + bytes(colour) * side * side)


def png(path, colour, side=8):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress((b"\0" + bytes(colour) * side) * side)) + chunk(b"IEND", b""))


def npy(path, planes, side):
    """An image whose planes have one value each, channels first, as 32-bit numbers from 0 to 1."""
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(planes)}, {side}, {side}), }}".ljust(117) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() +
                   b"".join(struct.pack("<f", plane / 255) * side * side for plane in planes))


def image_folder():
    """<class>/<number>.ppm: two colours, each a little lighter or darker from image to image."""
    for name, colour in (("orange", ORANGE), ("sky", SKY)):
        os.makedirs(f"photos/{name}")
        for i in range(40):
            ppm(f"photos/{name}/{i:02}.ppm", [c + i % 10 - 5 for c in colour])


# --- tests -----------------------------------------------------------------------------------------------------------

def images():
    image_folder()
    for layout in ("nchw", "nhwc"):
        model = f"{layout}.safetensors"
        out = does("train", "lenet", "--data", "photos", "--attr", f"layout={layout}", "--batch", "8", "--epochs", "8", "--lr",
                   "0.02", "--checkpoint", model)
        check("test accuracy 100.00 %" in out, f"two colours are not told apart: {out}")
        ppm("o.ppm", ORANGE), png("s.png", SKY), png("o.png", ORANGE), npy("o.npy", ORANGE, 32)
        with open("o.jpg", "wb") as file:
            file.write(JPEG)
        want = [("o.ppm", "orange"), ("o.npy", "orange")]
        want += [("s.png", "sky"), ("o.png", "orange")] if readable(model, "o.png") else []
        want += [("o.jpg", "orange")] if readable(model, "o.jpg") else []
        got = predictions("lenet", model, *(name for name, _ in want))
        if not check([(p["input"], p["name"]) for p in got] == want, f"images in {layout}: {got}"):
            continue
        of = {p["input"]: {t["class"]: t["probability"] for t in p["top"]} for p in got}
        check(of["o.ppm"] == of.get("o.png", of["o.ppm"]), f"PPM and PNG of one image: {of}")
        check(all(abs(of["o.ppm"][c] - of["o.npy"][c]) < 1e-5 for c in (0, 1)), f"an image and its numbers: {of}")
        check(all(abs(of["o.ppm"][c] - of.get("o.jpg", of["o.ppm"])[c]) < 0.1 for c in (0, 1)), f"PPM and JPEG: {of}")
        ppm("s.ppm", SKY)
        text = does("predict", "lenet", model, "s.ppm", "--top", "2")
        check(re.fullmatch(r"s\.ppm: class 1 \(sky\), [0-9.]+ %\n +[0-9.]+ %  1 \(sky\)\n +[0-9.]+ %  0 \(orange\)\n", text), text)
        held_out = predictions("lenet", model, "--data", "photos", *(w for i in range(8) for w in ("--index", str(i))))
        check([p["class"] for p in held_out] == [p["label"] for p in held_out], f"images of the test: {held_out}")
        check({p["name"] for p in held_out} == {"orange", "sky"}, f"names of the test's images: {held_out}")
    refuses("photos: cannot be read as a file", "predict", "lenet", "nchw.safetensors", "photos")
    refuses("none.png: cannot be read as a file", "predict", "lenet", "nchw.safetensors", "none.png")
    with open("text.png", "w", encoding="ascii") as file:
        file.write("no image")
    refuses("text.png: neither a PNG", "predict", "lenet", "nchw.safetensors", "text.png")
    if not readable("nchw.safetensors", "s.png"):
        return
    with open("cut.png", "wb") as file:
        with open("s.png", "rb") as whole:
            file.write(whole.read()[:60])
    refuses("cut.png: a PNG image that cannot be", "predict", "lenet", "nchw.safetensors", "cut.png")


def digits():
    """A model of digits takes the grey of a colour image."""
    does("train", "mlp", "--epochs", "1", "--checkpoint", "digits.safetensors")
    ppm("grey.ppm", ORANGE, 28)
    npy("grey.npy", [.299 * ORANGE[0] + .587 * ORANGE[1] + .114 * ORANGE[2]], 28)
    got = [p["top"] for p in predictions("mlp", "digits.safetensors", "grey.ppm", "grey.npy")]
    same = [abs(a["probability"] - b["probability"]) < 1e-4 and a["class"] == b["class"] for a, b in zip(got[0], got[-1])]
    check(len(same) == 5 and all(same), f"an image and its grey: {got}")


def layouts():
    """After images(). What was trained in a layout is served in it, and in no other."""
    for made, other in (("nchw", "nhwc"), ("nhwc", "nchw")):
        why = f"the checkpoint's layout is {made}, the model's {other}: filters are stored in another order"
        refuses(why, "train", "lenet", "--data", "photos", "--epochs", "9", "--batch", "8", "--resume", made + ".safetensors", "--attr",
                "layout=" + other)
        refuses(why, "predict", "lenet", made + ".safetensors", "o.ppm", "--attr", "layout=" + other)
        out = does("train", "lenet", "--data", "photos", "--epochs", "5", "--resume", made + ".safetensors")
        check(("layout:nhwc" in out) == (made == "nhwc"), f"resumed in another layout: {out}")


def sequences():
    small = [w for a in ("tokens=4", "layers=1", "heads=2", "width=32", "inner=32") for w in ("--attr", a)]
    out = does("train", "transformer_small", *small, "--epochs", "1", "--lr", "0.005", "--checkpoint", "pairs.safetensors")
    found = re.search(r"^test accuracy (\S+) %", out, re.M)
    if not check(found, f"no accuracy: {out}"):
        return
    accuracy = float(found[1])
    check(accuracy > 60, f"nothing learnt: {out}")
    # Decoded letter by letter, answers agree with the labels about as the evaluation says, which reads the labels.
    got = predictions("transformer_small", "pairs.safetensors", *(w for i in range(50) for w in ("--index", str(i))))
    letters = [(a, b) for p in got for a, b in zip(p["text"], p["label"])]
    right = 100 * sum(a == b for a, b in letters) / max(1, len(letters))
    check(len(got) == 50 and len(letters) == 200 and abs(right - accuracy) < 20, f"{right} % of letters, {accuracy} % trained")
    check(all(p["label"] == p["source"][::-1] for p in got), f"labels: {got}")
    first = got[0]
    asked = predictions("transformer_small", "pairs.safetensors", "--prompt", first["source"])
    check(len(asked) == 1 and asked[0]["text"] == first["text"] and "label" not in asked[0], f"{asked}, and {first}")
    text = does("predict", "transformer_small", "pairs.safetensors", "--prompt", first["source"])
    check(text == f"--prompt: {first['source']} -> {first['text']}\n", text)
    refuses("--prompt: 5 tokens; the model takes up to 4", "predict", "transformer_small", "pairs.safetensors", "--prompt", "abcde")
    refuses("'1' in 'a1': letters a to z are allowed", "predict", "transformer_small", "pairs.safetensors", "--prompt", "a1")


def losses_that_are_not_finite():
    """The program names step and tensor, and leaves the checkpoint as it is."""
    why = (r"^duet: the loss is (NaN|infinite) in step \d+ \(epoch \d+, batch \d+\), where .+ is the first tensor that is "
           r"not finite: a lower learning rate may help")
    toy = ["train", "toy", "--batch", "50"]
    done = run(*toy, "--epochs", "2", "--lr", "1e30", "--checkpoint", "never.safetensors")
    check(done.returncode == 2 and re.search(why + "$", done.stderr, re.M), f"{done.returncode}: {done.stderr}")
    check(not os.path.exists("never.safetensors"), "a checkpoint of no epoch")
    does(*toy, "--epochs", "1", "--checkpoint", "good.safetensors")
    with open("good.safetensors", "rb") as file:
        good = file.read()
    done = run(*toy, "--epochs", "2", "--lr", "1e30", "--resume", "good.safetensors", "--checkpoint", "good.safetensors")
    check(done.returncode == 2 and re.search(why, done.stderr), f"{done.returncode}: {done.stderr}")
    check("in step 16" in done.stderr and "(epoch 2, batch" in done.stderr, done.stderr)
    with open("good.safetensors", "rb") as file:
        check(file.read() == good, "the checkpoint has changed")
    check("class" in does("predict", "toy", "good.safetensors", "--index", "0"), "the last good checkpoint is not served")
    # A rate that rises: the first epoch is good, and then the parameters grow without bound.
    done = run("train", "recommender", "--attr", "factors=4", "--epochs", "8", "--schedule", "constant", "--warm-up", "1200",
               "--lr", "0.2", "--checkpoint", "rising.safetensors")
    held = re.search(why + r"; rising\.safetensors holds epoch (\d+)$", done.stderr, re.M)
    check(done.returncode == 2 and held, f"{done.returncode}: {done.stdout}{done.stderr}")
    if held:
        out = does("train", "recommender", "--epochs", str(int(held[2]) + 1), "--schedule", "constant", "--lr", "0.001", "--resume",
                   "rising.safetensors")
        check(f"epoch {int(held[2]) + 1:2} " in out, f"the last good checkpoint goes on: {out}")


def tensors(path):
    """Of a checkpoint in f32: name -> values in order."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header, body = json.loads(file.read(size)), file.read()
    return {name: struct.unpack(f"<{(e['data_offsets'][1] - e['data_offsets'][0]) // 4}f", body[slice(*e["data_offsets"])])
            for name, e in header.items() if name != "__metadata__" and e["dtype"] == "F32"}


def items_for_users():
    factors = 4
    does("train", "recommender", "--attr", f"factors={factors}", "--epochs", "1", "--checkpoint", "r.safetensors")
    table = tensors("r.safetensors")
    users, items = len(table["user.bias"]), len(table["item.bias"])

    def ratings(user):
        p, q = table["user.factors"][user * factors:], table["item.factors"]
        return [3.5 + table["user.bias"][user] + table["item.bias"][i] + sum(p[f] * q[i * factors + f] for f in range(factors))
                for i in range(items)]
    asked = [0, users - 1]
    answers = json.loads(does("predict", "recommender", "r.safetensors", "--user", str(asked[0]), "--user", str(asked[1]), "--top", "7",
                              "--json"))["predictions"]
    check([a["user"] for a in answers] == asked, f"users: {answers}")
    for answer in answers:
        of_user = ratings(answer["user"])
        best = sorted(of_user, reverse=True)[:7]
        check(len(answer["top"]) == 7 and len({e["item"] for e in answer["top"]}) == 7, f"items: {answer}")
        for entry, rating in zip(answer["top"], best):
            check(abs(entry["rating"] - rating) < 1e-4 and abs(of_user[entry["item"]] - rating) < 1e-4, f"{entry}, not {rating}")
    out = does("predict", "recommender", "r.safetensors", "--user", "3")
    check(re.match(r"user 3:\n(  \d\.\d\d  item \d+\n){5}$", out), out)
    ask = "predict", "recommender", "r.safetensors"
    refuses(rf"give --user, 0 to {users - 1}, and no other input", *ask)
    refuses(rf"--user {users}: the model has users 0 to {users - 1}", *ask, "--user", str(users))
    refuses("--attr: model recommender is served as it was trained", *ask, "--user", "0", "--attr", "top=3")
    every = json.loads(does(*ask, "--user", "0", "--top", str(items + 1), "--json"))["predictions"][0]["top"]
    check(sorted(e["item"] for e in every) == list(range(items)), "--top beyond the items does not list all")
    refuses("no other input", *ask, "--user", "0", "--index", "0")
    refuses("top 5: only an inference finds items", "train", "recommender", "--attr", "top=5")

    # With a file of ratings, users and items have its numbers, and what a user has rated is left out. Users 10, 20, ...
    # rate three of the items 101, 103, ..., 119, the last one all of them. The model has one item more.
    refuses("--data ratings.csv: the checkpoint was trained on drawn ratings", *ask, "--user", "0", "--data", "ratings.csv")
    rated = {10 * (u + 1): {101 + 2 * ((u + k) % 10) for k in range(10 if u == 9 else 3)} for u in range(10)}
    for name in "ratings.csv", "moved.csv":
        with open(name, "w") as file:
            file.write("userId,movieId,rating,timestamp\n")
            file.writelines(f"{user},{item},{1 + (user + item) % 5},0\n" for user in rated for item in sorted(rated[user]))
    does("train", "recommender", "--attr", f"factors={factors}", "--attr", "users=10", "--attr", "items=11", "--attr",
         "batch=9", "--data", "ratings.csv", "--epochs", "2", "--checkpoint", "f.safetensors")
    table, items = tensors("f.safetensors"), 11
    ask = "predict", "recommender", "f.safetensors", "--data", "ratings.csv"
    for top in 4, 20:
        answers = json.loads(does(*ask, "--user", "20", "--user", "100", "--user", "90", "--top", str(top), "--json"))["predictions"]
        for user, answer in zip((20, 100, 90), answers):
            of_user = [(r, 101 + 2 * i) for i, r in enumerate(ratings(user // 10 - 1)[:10])]
            new = [item for _, item in sorted(of_user, reverse=True) if item not in rated[user]][:top]
            check(answer["user"] == user and [e["item"] for e in answer["top"]] == new, f"{answer}, not {new}")
    out = does(*ask, "--user", "20")
    check(re.match(r"user 20:\n(  -?\d\.\d\d  item 1[01]\d\n){5}$", out), out)
    refuses("--user 15: ratings.csv has no rating of that user; its users are 10 to 100", *ask, "--user", "15")
    refuses("give --user, a number of ratings.csv, and no other input", *ask)
    refuses("nowhere.csv: cannot be read", *ask[:-1], "nowhere.csv", "--user", "10")
    moved = run(*ask[:-1], "moved.csv", "--user", "10")
    check(moved.returncode == 0 and "was trained on" in moved.stderr and "numbered as in moved.csv" in moved.stderr, moved.stderr)
    does("train", "toy", "--batch", "50", "--epochs", "1", "--checkpoint", "toy.safetensors")
    refuses("--user: model toy has no users", "predict", "toy", "toy.safetensors", "--index", "0", "--user", "1")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for test in (images, layouts, digits, sequences, items_for_users, losses_that_are_not_finite):
            test()
        os.chdir("/")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
