#!/usr/bin/env python3
"""Takes the networks of train_networks.py through qtape and compares their accuracy with PyTorch's.

check_accuracy.py QTAPE FOLDER [--work FOLDER] [--threads N] [NAME...]

Each network is imported, calibrated to W8A8 and fine-tuned to W4A4 on the part train, verified at all
levels of arithmetic and converted; integers are scored on the part test. Settings of fine-tuning are
chosen on the part validation. The column «as long» is the float model after as many more epochs as the
W4A4 model. Exits 1 if the float model differs from PyTorch by more than 0.05, or integers are worse by
more than 0.5 (W8A8) or 1.5 points (W4A4, also than «as long»). Needs NumPy.
"""
import argparse
import json
import os
import sys
import tempfile
import time

import numpy as np

import tasks
from running import run

FLOAT, EIGHT, FOUR = 0.05, 0.5, 1.5
# Settings in the order in which they are tried: for 8 bits until one is good enough on the part validation,
# for 4 bits all.
EIGHTS = [("calibrate",), ("calibrate", "--observer", "Mse"),
          ("train", "--epochs", "2", "--lr", "0.0002", "--weight-bits", "8", "--activation-bits", "8")]
TEACHER = "FLOAT"  # stands for the file of the float model
LEARNED = ("train", "--weight-bits", "4", "--activation-bits", "4", "--scales", "LSQ")
LONG = (*LEARNED, "--epochs", "12", "--lr", "0.003", "--scales-lr", "3")
FOURS = [(*LEARNED, "--epochs", "6", "--lr", "0.002"), LONG, (*LONG, "--other-bits", "8"),
         (*LONG, "--other-bits", "8", "--ends-bits", "8", "--mean-bits", "8"),
         (*LEARNED, "--epochs", "24", "--lr", "0.004", "--scales-lr", "3", "--other-bits", "8", "--ends-bits", "8",
          "--mean-bits", "8", "--teacher", TEACHER)]


class Failure(Exception):
    pass


class Network:
    def __init__(self, options, name, work):
        self.tool, self.folder, self.name, self.work, self.threads = options.tool, options.folder, name, work, options.threads
        with open(f"{self.folder}/{name}.json") as file:
            known = json.load(file)
        self.task, self.torch = known["task"], known["scores"]
        self.targets = {part: dict(np.load(f"{self.data(part)}.targets.npz")) for part in ("validation", "test")}

    def data(self, part):
        return f"{self.folder}/{self.task}.{part}"

    def file(self, name):
        return os.path.join(self.work, f"{self.name}.{name}")

    def call(self, command, model, *arguments):
        given = ["--threads", str(self.threads)] if command not in ("import", "convert") else []
        code, text, out = run(self.tool, command, model, *arguments, *given, seconds=3600)
        if code:
            raise Failure(text if ": " in text else out.strip().splitlines()[-1])
        return out

    def on(self, part, prefix="--"):
        return [f"{prefix}input", self.data(part) + ".npz", f"{prefix}labels", self.data(part) + ".targets.npz"]

    def scores(self, model, part):
        self.call("replay", model, *self.on(part), "-o", self.file("y.npz"))
        answers = np.load(self.file("y.npz"))
        return tasks.scores(self.task, [answers[name] for name in answers.files], self.targets[part])

    def imported(self):
        self.call("import", f"{self.folder}/{self.name}.onnx", "-o", self.file("m.json"))
        return self.file("m.json")

    def quantized(self, model, command, *settings):
        """A model with quantizers by one command."""
        path = self.file("q.json")
        watched = self.on("validation", "--test-") if command == "train" else []
        settings = [model if each == TEACHER else each for each in settings]
        self.call(command, model, *self.on("train"), *watched, *settings, "-o", path)
        return path

    def best(self, model, settings, loss=None):
        """Scores of integers on the part test, by the settings that are best on the part validation; the first
        within `loss`, if given, end the search."""
        wanted, found = self.scores(model, "validation"), None
        for each in settings:
            try:
                path = self.quantized(model, *each)
            except Failure:
                if TEACHER not in each:
                    raise
                continue  # a teacher takes scores of classes alone
            lost = max_lost(wanted, self.scores(path, "validation"))
            if found is None or lost < found[0]:
                found = lost, each
                os.replace(path, self.file("best.json"))
            if loss is not None and lost <= loss:
                break
        return self.integers(self.file("best.json")), found[1]

    def as_long(self, model, settings):
        """Scores on the part test of the float model after the epochs of `settings`."""
        epochs = settings[settings.index("--epochs") + 1]
        return self.scores(self.quantized(model, "train", "--float", "--epochs", epochs), "test")

    def integers(self, model):
        """Scores of the integer program on the part test, after a verification on some samples."""
        some = {}
        for end in (".npz", ".targets.npz"):
            some[end] = self.file("some" + end)
            np.savez(some[end], **{k: v[:100] for k, v in np.load(self.data("validation") + end).items()})
        self.call("verify", model, "--input", some[".npz"], "--labels", some[".targets.npz"], "--random", "20")
        self.call("convert", model, "-o", self.file("p.json"))
        return self.scores(self.file("p.json"), "test")


def max_lost(wanted, found):
    return max(wanted[name] - found[name] for name in wanted)


def text(scores):
    return " / ".join(f"{value:.2f}" for value in scores.values())


def check(network):
    """Prints a row; returns what is not as good as required."""
    start, torch, failures = time.time(), network.torch, []
    model = network.imported()
    found = network.scores(model, "test")
    eight, how8 = network.best(model, EIGHTS, EIGHT / 2)
    four, how4 = network.best(model, FOURS)
    longer = network.as_long(model, how4)
    if max(abs(found[name] - torch[name]) for name in torch) > FLOAT:
        failures.append("float")
    failures += ["W8A8"] if max_lost(torch, eight) > EIGHT else []
    failures += ["W4A4"] if max_lost(torch, four) > FOUR else []
    failures += ["W4A4 as long"] if max_lost(longer, four) > FOUR else []
    print(f"| {network.name} | {', '.join(torch)} | {text(torch)} | {text(found)} | {text(eight)} | {text(four)} | {text(longer)} |"
          f" {' '.join(how8)} | {' '.join(how4[5:])} | {', '.join(failures)} | {time.time() - start:.0f} s |", flush=True)
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--work", help="folder for models; by default a temporary one")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_intermixed_args()
    options.tool = os.path.abspath(options.tool)
    known = sorted(f[:-5] for f in os.listdir(options.folder) if f.endswith(".json"))
    failed = []
    print("| network | scores | PyTorch | float | W8A8 | W4A4 | as long | W8A8 by | W4A4 by | not met | time |\n" + "| --- " * 11 + "|")
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.names or known:
            try:
                missed = check(Network(options, name, options.work or temporary))
            except Failure as failure:
                missed = [str(failure)]
                print(f"| {name} | failed: {failure} |", flush=True)
            failed += [name] if missed else []
    print(f"{len(options.names or known)} networks, {len(failed)} not as accurate as required{': ' if failed else ''}{', '.join(failed)}")
    sys.exit(1 if failed else 0)


main()
