#!/usr/bin/env python3
"""Writes tests/data/onnx: small models by PyTorch 2.6, each with an input and what it answers.

write_onnx.py FOLDER, where torch and onnx are installed. Inputs and answers are .npy files, with
channels last: what qtape is fed and gives.
"""
import sys

import numpy as np
import torch
from torch import nn


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 3, 5, padding=2)
        self.conv2 = nn.Conv2d(3, 4, 3)
        self.fc1 = nn.Linear(4 * 3 * 2, 8)
        self.fc2 = nn.Linear(8, 5)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.relu(self.conv2(x))
        x = torch.flatten(x, 1)
        return self.fc2(torch.relu(self.fc1(x)))


class Block(nn.Module):
    """Batch norms, a residual sum, depthwise and strided convolutions, means and a concat."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU6())
        self.depth = nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.norm = nn.BatchNorm2d(4)
        self.down = nn.Conv2d(4, 6, 3, stride=2, padding=1)
        self.pool = nn.AvgPool2d(2)
        self.norm1 = nn.BatchNorm1d(12)
        self.fc = nn.Linear(12, 3)

    def forward(self, x):
        x = self.stem(x)
        x = torch.relu(self.norm(self.depth(x)) + x)
        x = torch.nn.functional.leaky_relu(self.down(x), 0.1)
        a = torch.mean(x, (2, 3))
        b = torch.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)
        x = self.norm1(torch.cat([a, b], 1) * 2.0 - 0.25)
        return torch.softmax(self.fc(torch.nn.functional.dropout(x, 0.5, self.training)), 1)


class OneAxis(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(3, 5, 3, padding=1)
        self.conv2 = nn.Conv1d(5, 4, 3, stride=2, dilation=2)
        self.norm = nn.BatchNorm1d(4)
        self.flat_norm = nn.BatchNorm1d(4 * 6)
        self.fc = nn.Linear(4 * 6, 3)
        self.scale = nn.Parameter(torch.randn(4, 1))

    def forward(self, x):
        x = torch.tanh(self.conv1(x))
        x = torch.sigmoid(self.norm(self.conv2(x))) * self.scale
        return self.fc(self.flat_norm(x.view(x.size(0), -1)))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 7))
        self.bias = nn.Parameter(torch.randn(7))
        self.fc = nn.Linear(14, 4)

    def forward(self, x):
        y = torch.clamp(x @ self.weight + self.bias, -1.5, 1.5)
        y = torch.cat([y, torch.nn.functional.hardswish(1 - y)], 1)
        y = torch.nn.functional.pad(y[:, 1:-1], (1, 1), value=0.5)
        return torch.nn.functional.log_softmax(self.fc(y.reshape(-1, 2, 7).transpose(1, 2).flatten(1)), 1)


class Images(nn.Module):
    """Answers images: channels leave last, through slices, pads, transposes and plain sums."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 1)
        self.offset = nn.Parameter(torch.randn(3, 4, 1))

    def forward(self, x):
        y = self.conv(x)
        y = torch.nn.functional.pad(y[:, :, 1:5], (1, 2, 0, 0)) + self.offset
        z = y.permute(0, 2, 3, 1).permute(0, 3, 1, 2)
        return torch.nn.functional.hardsigmoid(torch.cat([y, -z], 1)) / (y.amax(1, keepdim=True) + 9)


class Enlarge(nn.Module):
    """Nearest neighbours by 2, and a transposed convolution in groups."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.up = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)

    def forward(self, x):
        return self.up(nn.functional.interpolate(torch.relu(self.conv(x)), scale_factor=2, mode="nearest"))


class Parts(nn.Module):
    """Splits, chunks and a shuffle whose shapes are computed, squares, single indices."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(6, 8, 1)
        self.mix = nn.Conv2d(4, 4, 1)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        x = self.conv(x)
        x = x.view(x.size(0), 2, 4, 3, 2).transpose(1, 2).reshape(x.size(0), 8, 3, 2)
        a, b = x.chunk(2, 1)
        a, c = self.mix(a).split([1, 3], 1)
        y = torch.cat([a, c**2], 1) * torch.sigmoid(b)
        return self.fc(y.flatten(2)[:, :, 4])


class Windows(nn.Module):
    """Windows that ceil_mode adds."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 1)

    def forward(self, x):
        y = torch.max_pool2d(self.conv(x), 3, 2, 1, 1, True)
        return nn.functional.avg_pool2d(y, 2, 2, 0, True)


class Norm(nn.Module):
    """Tokens of an image, normalized."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(1, 4, 2, stride=2)
        self.norm = nn.LayerNorm(4)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        return self.fc(self.norm(x)).mean(1)


class Moves(nn.Module):
    """Shuffles of channels and of pixels, borders, steps, and a layer over channels last."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 1)
        self.norm = nn.LayerNorm(2)
        self.fc = nn.Linear(2, 4)

    def forward(self, x):
        x = self.conv(x)
        x = x.view(x.size(0), 2, 4, 3, 4).transpose(1, 2).reshape(x.size(0), 8, 3, 4)
        x = nn.functional.pad(nn.functional.pixel_shuffle(x, 2), (2, 1, 0, 3), mode="reflect")
        x = torch.relu(self.fc(self.norm(x.permute(0, 2, 3, 1))).permute(0, 3, 1, 2))
        return nn.functional.pixel_unshuffle(torch.roll(x.flip(3)[:, [2, 0, 1], ::2, 1::2], 1, 2)[:, :, :4, :4], 2)


class Resized(nn.Module):
    """Bilinear and nearest neighbours by whole and other ratios."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 1)

    def forward(self, x):
        x = self.conv(x)
        a = nn.functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        b = nn.functional.interpolate(x, size=(6, 8), mode="bilinear", align_corners=True)
        c = nn.functional.interpolate(x, size=(6, 8))
        d = nn.functional.interpolate(nn.functional.interpolate(x, size=(4, 3)), size=(6, 8), mode="bilinear")
        return torch.cat([a + b, c, d], 1)


def settle(model):
    """Batch norms with statistics that are not those of fresh ones."""
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)


def channels_last(values):
    return np.ascontiguousarray(np.moveaxis(values, 1, -1)) if values.ndim > 2 else values


def write(folder, name, model, shape, opset, dynamic):
    torch.manual_seed(len(name))
    settle(model)
    model.eval()
    x = torch.randn(1 if not dynamic else 3, *shape)
    axes = {"x": {0: "batch"}, "y": {0: "batch"}} if dynamic else None
    torch.onnx.export(model, x, f"{folder}/{name}.onnx", opset_version=opset, dynamic_axes=axes,
                      input_names=["x"], output_names=["y"], dynamo=False)
    x = torch.randn(4, *shape)
    with torch.no_grad():
        y = model(x)
    np.save(f"{folder}/{name}-x.npy", channels_last(x.numpy()))
    np.save(f"{folder}/{name}-y.npy", channels_last(y.numpy()))


def main():
    folder = sys.argv[1]
    torch.manual_seed(0)
    write(folder, "lenet", LeNet(), (2, 10, 8), 17, True)
    write(folder, "lenet-fixed", LeNet(), (2, 10, 8), 9, False)
    write(folder, "block", Block(), (3, 8, 8), 13, True)
    write(folder, "one-axis", OneAxis(), (3, 16), 18, True)
    write(folder, "mlp", Mlp(), (6,), 14, True)
    write(folder, "images", Images(), (2, 6, 4), 17, True)
    write(folder, "enlarge", Enlarge(), (2, 3, 4), 17, True)
    write(folder, "parts", Parts(), (6, 3, 2), 17, True)
    write(folder, "windows", Windows(), (2, 8, 7), 17, True)
    write(folder, "norm", Norm(), (1, 4, 6), 17, True)
    write(folder, "moves", Moves(), (4, 3, 4), 17, True)
    write(folder, "resized", Resized(), (2, 3, 4), 17, True)


if __name__ == "__main__":
    main()
