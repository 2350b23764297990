#!/usr/bin/env python3
"""Trains twelve small networks by PyTorch, and writes them as ONNX with data and PyTorch's scores.

train_networks.py FOLDER [--data MNIST] [--threads N] [--quick] [NAME...]

FOLDER/TASK.PART.npz and FOLDER/TASK.PART.targets.npz hold inputs and targets of the parts train,
validation and test; FOLDER/NAME.onnx and FOLDER/NAME.json the network, its task and its scores on
the test part in percent. MNIST is a folder of MNIST-format files; without it digits are drawn.
"""
import argparse
import json
import os
import time
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import tasks
from networks import (Chomp, Dense, Fire, Fn, Head, Inverted, Recurrent, Shuffle1, Shuffle2, Shuffle2Down, UNet, conv, conv_bn, seq)

PARTS = {"train": (8000, 1), "validation": (2000, 2), "test": (3000, 3)}


def mobilenet_v3():
    return seq(conv_bn(1, 16, stride=2, act=nn.Hardswish), Inverted(16, 16, 2, act=nn.ReLU, se=True),
               Inverted(16, 24, 3, stride=2, act=nn.Hardswish, se=True), Inverted(24, 24, 3, act=nn.Hardswish, se=True),
               conv_bn(24, 64, 1, nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 64), nn.Hardswish(),
               nn.Dropout(0.1), nn.Linear(64, 10))


def efficientnet():
    gate = {"act": nn.SiLU, "se": True, "gate": nn.Sigmoid}
    return seq(conv_bn(1, 16, stride=2, act=nn.SiLU), Inverted(16, 16, 2, **gate), Inverted(16, 24, 3, stride=2, **gate),
               Inverted(24, 24, 3, **gate), conv_bn(24, 64, 1, nn.SiLU), Head(64, 10))


def shufflenet_v1():
    return seq(conv_bn(1, 24), nn.MaxPool2d(2), Shuffle1(24, 3), Shuffle1(24, 3), conv_bn(24, 48, stride=2), Shuffle1(48, 3),
               Shuffle1(48, 3), Head(48, 10))


def shufflenet_v2():
    return seq(conv_bn(1, 24), nn.MaxPool2d(2), Shuffle2(24), Shuffle2(24), Shuffle2Down(24, 48), Shuffle2(48), Shuffle2(48),
               conv_bn(48, 64, 1), Head(64, 10))


def densenet():
    return seq(conv(1, 16, stride=2, bias=False), Dense(16, 8), Dense(24, 8), nn.BatchNorm2d(32), nn.ReLU(),
               nn.Conv2d(32, 24, 1, bias=False), nn.AvgPool2d(2), Dense(24, 8), Dense(32, 8), Dense(40, 8), nn.BatchNorm2d(48),
               nn.ReLU(), Head(48, 10))


def squeezenet():
    return seq(conv(1, 16, stride=2), nn.ReLU(), Fire(16, 8, 16), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(32, 12, 24),
               Fire(48, 12, 24), nn.Dropout(0.1), nn.Conv2d(48, 10, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Detector(nn.Module):
    """Kinds and boxes of cells of 4 by 4 pixels."""

    def __init__(self):
        super().__init__()
        self.body = seq(conv_bn(1, 12, stride=2), conv_bn(12, 16), conv_bn(16, 24, stride=2), conv_bn(24, 24), conv_bn(24, 24))
        self.kinds, self.boxes = conv(24, 4, 1), conv(24, 4, 1)

    def forward(self, x):
        x = self.body(x)
        return self.kinds(x), self.boxes(x)


def tcn():
    body = seq(Chomp(2, 16, 1), Chomp(16, 16, 2), Chomp(16, 16, 4), Chomp(16, 16, 8), Chomp(16, 16, 16))
    return Fn(lambda m, x: m.fc(m.body(x)[:, :, -1]), body=body, fc=nn.Linear(16, 9))


def gru():
    return Fn(lambda m, x: m.rnn(x[:, 0]), rnn=Recurrent(nn.GRU, inputs=tasks.SIZE, hidden=48, outputs=10))


def siamese():
    body = seq(conv_bn(1, 16, stride=2), conv_bn(16, 24, stride=2), conv_bn(24, 32), nn.Flatten(), nn.Linear(32 * 25, 32))
    return Fn(lambda m, a, b: m.fc(torch.abs(m.body(a) - m.body(b))), body=body, fc=nn.Linear(32, 1))


def two_heads():
    def forward(m, x):
        x = m.body(x)
        return m.digit(x), m.angle(x)
    body = seq(conv_bn(1, 12, stride=2), conv_bn(12, 24), conv_bn(24, 32, stride=2), nn.Flatten(), nn.Linear(32 * 25, 48), nn.ReLU())
    return Fn(forward, body=body, digit=nn.Linear(48, 10), angle=nn.Linear(48, 1))


def unet():
    return UNet(width=10, classes=4)


# Name, function that returns a module, task, epochs.
NETWORKS = [
    ("mobilenet_v3", mobilenet_v3, "digits", 8), ("efficientnet", efficientnet, "digits", 8),
    ("shufflenet_v1", shufflenet_v1, "digits", 8), ("shufflenet_v2", shufflenet_v2, "digits", 8),
    ("densenet", densenet, "digits", 8), ("squeezenet", squeezenet, "digits", 30), ("unet", unet, "segmentation", 6),
    ("detector", Detector, "detection", 8), ("tcn", tcn, "events", 24), ("gru", gru, "digits", 30),
    ("siamese", siamese, "pairs", 25), ("two_heads", two_heads, "turned_digits", 8),
]


def loss_of(answers, targets):
    """The losses that `qtape train` adds: cross-entropy of labels, mean squared error of numbers, summed."""
    total = 0
    for y, t in zip(answers, targets.values()):
        if t.is_floating_point():
            total = total + F.mse_loss(y, t)
        elif y.shape[1] == 1:
            total = total + F.binary_cross_entropy_with_logits(y[:, 0], t.float())
        else:
            total = total + F.cross_entropy(y, t.long())
    return total


def answers_of(model, inputs):
    answers = model(*inputs.values())
    return answers if isinstance(answers, tuple) else (answers,)


def part_of(arrays, rows):
    return {name: array[rows] for name, array in arrays.items()}


def train(model, inputs, targets, epochs, batch=64, rate=3e-3):
    """Adam with a learning rate that rises for a tenth of the run and then falls to 0."""
    count = len(next(iter(inputs.values())))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, epochs * (count // batch), pct_start=0.1)
    model.train()
    for _ in range(epochs):
        order = torch.randperm(count)
        for first in range(0, count - batch + 1, batch):
            rows = order[first:first + batch]
            loss = loss_of(answers_of(model, part_of(inputs, rows)), part_of(targets, rows))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5)
            optimizer.step()
            schedule.step()


def score(model, task, inputs, targets):
    """Scores of the answers in evaluation mode."""
    count = len(next(iter(inputs.values())))
    model.eval()
    with torch.no_grad():
        pieces = [answers_of(model, part_of(inputs, slice(k, k + 500))) for k in range(0, count, 500)]
    answers = [torch.cat(each).numpy() for each in zip(*pieces)]
    return tasks.scores(task, [np.moveaxis(y, 1, -1) for y in answers], {k: v.numpy() for k, v in targets.items()})


def data_of(folder, task, images, quick):
    """Tensors of each part of a task, which are also written to files."""
    parts = {}
    for part, (count, seed) in PARTS.items():
        inputs, targets = tasks.TASKS[task](count // 10 if quick else count, seed, images[part])
        np.savez(f"{folder}/{task}.{part}.npz", **inputs)
        np.savez(f"{folder}/{task}.{part}.targets.npz", **targets)
        parts[part] = tuple({k: torch.from_numpy(v) for k, v in each.items()} for each in (inputs, targets))
    return parts


def export(model, path, inputs, targets):
    axes = {name: {0: "batch"} for name in (*inputs, *targets)}
    torch.onnx.export(model, tuple(x[:2] for x in inputs.values()), path, opset_version=17, dynamo=False, input_names=list(inputs),
                      output_names=list(targets), dynamic_axes=axes)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--data")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, one epoch")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    os.makedirs(options.folder, exist_ok=True)
    images, data = tasks.digit_sets(options.data), {}
    for name, make, task, epochs in NETWORKS:
        if options.names and name not in options.names:
            continue
        if task not in data:
            data[task] = data_of(options.folder, task, images, options.quick)
        torch.manual_seed(0)
        model, start = make(), time.time()
        train(model, *data[task]["train"], 1 if options.quick else epochs)
        found = {"task": task, "scores": score(model, task, *data[task]["test"])}
        export(model, f"{options.folder}/{name}.onnx", *data[task]["test"])
        with open(f"{options.folder}/{name}.json", "w") as file:
            json.dump(found, file)
        text = ", ".join(f"{key} {value:.2f}" for key, value in found["scores"].items())
        print(f"{name:14} {text}; {sum(p.numel() for p in model.parameters())} parameters, {time.time() - start:.0f} s", flush=True)


main()
