"""Data of the tasks on which train_networks.py trains, made from a seed, and the scores of answers.

Arrays have the channels first, as PyTorch has them. Each task is a function of (count, seed, images)
that returns inputs and targets by name; `images` are pairs of digits and labels.
"""
import gzip
import os

import numpy as np

SIZE = 20
GLYPHS = """
.###. ..#.. .###. .###. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# #...# ..##. #.... #.... ....# #...# #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. ..##. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# ..#.. #...# ....#
#...# ..#.. .#... #...# ...#. #...# #...# ..#.. #...# ....#
.###. .###. ##### .###. ...#. .###. .###. ..#.. .###. .###.
"""


def idx(path):
    """An array of an IDX file, plain or gzip."""
    path = path if os.path.exists(path) else path + ".gz"
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        data = file.read()
    rank = data[3]
    shape = np.frombuffer(data, ">i4", rank, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def glyphs():
    """The digits 0 to 9 as images [10, 28, 28] in 0..1, and their labels."""
    rows = [line.split() for line in GLYPHS.split("\n") if line]
    images = np.zeros((10, 28, 28), np.float32)
    for y, row in enumerate(rows):
        for digit, pixels in enumerate(row):
            for x, pixel in enumerate(pixels):
                images[digit, 3 + 3 * y:6 + 3 * y, 6 + 3 * x:9 + 3 * x] = pixel == "#"
    return images, np.arange(10)


def digit_sets(folder):
    """Base digits for training, validation and test, from a folder of MNIST-format files or drawn."""
    if not folder:
        return {part: glyphs() for part in ("train", "validation", "test")}
    parts = {}
    for part, name in (("train", "train"), ("test", "t10k")):
        images = idx(f"{folder}/{name}-images-idx3-ubyte").astype(np.float32) / 255
        parts[part] = (images, idx(f"{folder}/{name}-labels-idx1-ubyte").astype(np.int64))
    images, labels = parts["train"]
    kept = len(images) * 6 // 7
    return {"train": (images[:kept], labels[:kept]), "validation": (images[kept:], labels[kept:]), "test": parts["test"]}


def sampled(images, matrices, size):
    """Images [n, size, size]: bilinear samples of [n, h, w] at matrices [n, 2, 2] times the place."""
    n, h, w = images.shape
    axis = (np.arange(size) + 0.5) / size * 2 - 1
    y, x = np.meshgrid(axis, axis, indexing="ij")
    places = matrices[:, :, :2] @ np.stack([y.ravel(), x.ravel()]) + matrices[:, :, 2:]
    rows, columns = (places[:, 0] + 1) * h / 2 - 0.5, (places[:, 1] + 1) * w / 2 - 0.5
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    which, result = np.arange(n)[:, None], 0
    for dy in (0, 1):
        for dx in (0, 1):
            inside = (top + dy >= 0) & (top + dy < h) & (left + dx >= 0) & (left + dx < w)
            value = images[which, np.clip(top + dy, 0, h - 1), np.clip(left + dx, 0, w - 1)]
            result = result + inside * value * (1 - np.abs(rows - top - dy)) * (1 - np.abs(columns - left - dx))
    return result.reshape(n, size, size)


def distorted(random, count, images, labels, noise=0.15):
    """Digits that are turned, stretched, shifted, faint and noisy, their labels and angles in radians."""
    which = random.permutation(np.arange(count) % len(images))
    angle = random.uniform(-0.5, 0.5, count)
    stretch = 1 / random.uniform(0.8, 1.15, (count, 2))
    shear = random.uniform(-0.2, 0.2, count)
    cos, sin = np.cos(angle), np.sin(angle)
    turns = np.stack([np.stack([cos, -sin + shear], 1), np.stack([sin, cos], 1)], 1)
    matrices = np.concatenate([turns * stretch[:, None], random.uniform(-0.2, 0.2, (count, 2, 1))], 2)
    pixels = sampled(images[which], matrices, SIZE) * random.uniform(0.5, 1, (count, 1, 1))
    pixels = pixels + noise * random.normal(size=pixels.shape)
    return pixels[:, None].astype(np.float32), labels[which].astype(np.int32), angle.astype(np.float32)


def digits(count, seed, images):
    x, labels, _ = distorted(np.random.default_rng(seed), count, *images)
    return {"x": x}, {"y": labels}


def turned_digits(count, seed, images):
    """Which digit it is, and by which angle it was turned, in units of 0.25 radians."""
    x, labels, angle = distorted(np.random.default_rng(seed), count, *images, noise=0.1)
    return {"x": x}, {"digit": labels, "angle": angle[:, None] * 4}


def pairs(count, seed, images):
    """Whether two digits are the same; half of the pairs are."""
    random = np.random.default_rng(seed)
    x, labels, _ = distorted(random, 4 * count, *images, noise=0.1)
    order = np.argsort(labels, kind="stable")
    a = random.integers(0, len(x), count)
    start, end = np.searchsorted(labels[order], labels[a]), np.searchsorted(labels[order], labels[a], "right")
    b = np.where(random.random(count) < 0.5, order[random.integers(start, end)], random.integers(0, len(x), count))
    return {"a": x[a], "b": x[b]}, {"y": (labels[a] == labels[b]).astype(np.int32)}


def shape_mask(random, kind, size, center, extent):
    """Pixels of an ellipse, a rectangle or a triangle of half the extents (y, x) about a centre."""
    y, x = (np.mgrid[:size, :size] + 0.5 - np.array(center)[:, None, None]) / np.array(extent)[:, None, None]
    if kind == 0:
        return x * x + y * y <= 1
    if kind == 1:
        return (abs(x) <= 1) & (abs(y) <= 1)
    return (abs(x) <= (y + 1) / 2) & (abs(y) <= 1)


def scene(random, size, most):
    """A noisy image with shapes that do not touch, and a list of (kind, mask, centre, half extents)."""
    image = random.uniform(0, 0.3) + random.normal(0, 0.15, (size, size))
    taken, shapes = np.zeros((size, size), bool), []
    for _ in range(random.integers(1, most + 1)):
        extent = random.uniform(3, size / 5, 2)
        center = random.uniform(extent, size - extent)
        kind = int(random.integers(3))
        mask = shape_mask(random, kind, size, center, extent)
        box = shape_mask(random, 1, size, center, extent + 1)
        if (taken & box).any():
            continue
        taken |= box
        image += mask * random.uniform(0.4, 1)
        shapes.append((kind, mask, center, extent))
    return image, shapes


def segmentation(count, seed, _):
    """The kind of shape at each pixel; 0 is background."""
    random = np.random.default_rng(seed)
    x, y = np.zeros((count, 1, 24, 24), np.float32), np.zeros((count, 24, 24), np.int32)
    for i in range(count):
        x[i, 0], shapes = scene(random, 24, 4)
        for kind, mask, _, _ in shapes:
            y[i][mask] = kind + 1
    return {"x": x}, {"y": y}


CELL = 4


def detection(count, seed, _):
    """Kind and box of the shape whose centre is in a cell of 4 by 4 pixels; 0 is background.

    Boxes are offsets of the centre from the cell's centre and half extents, (y, x, h, w) in cells;
    those of the background are 0.
    """
    random = np.random.default_rng(seed)
    x = np.zeros((count, 1, 32, 32), np.float32)
    kinds, boxes = np.zeros((count, 8, 8), np.int32), np.zeros((count, 4, 8, 8), np.float32)
    for i in range(count):
        x[i, 0], shapes = scene(random, 32, 3)
        for kind, _, center, extent in shapes:
            row, column = (np.array(center) // CELL).astype(int)
            kinds[i, row, column] = kind + 1
            middle = (np.array([row, column]) + 0.5) * CELL
            boxes[i, :, row, column] = [*((center - middle) / CELL), *(extent / CELL)]
    return {"x": x}, {"kinds": kinds, "boxes": boxes}


def events(count, seed, _):
    """Two channels of noise with two of three events; the class is their ordered pair."""
    random = np.random.default_rng(seed)
    t = np.arange(8)
    forms = np.stack([np.sin(t * np.pi / 4), np.sin(t * np.pi / 2), np.where(t < 4, 0.7, -0.7)])
    x = random.normal(0, 0.45, (count, 2, 64))
    kinds = random.integers(0, 3, (count, 2))
    for i in range(count):
        for k, (low, high) in enumerate(((0, 24), (32, 54))):
            start = random.integers(low, high)
            x[i, 0, start:start + 8] += random.uniform(0.8, 1.4) * forms[kinds[i, k]]
            x[i, 1, start:start + 8] -= random.uniform(0.8, 1.4) * forms[kinds[i, k]][::-1]
    return {"x": x.astype(np.float32)}, {"y": (3 * kinds[:, 0] + kinds[:, 1]).astype(np.int32)}


TASKS = {each.__name__: each for each in (digits, turned_digits, pairs, segmentation, detection, events)}


def percent(right):
    return 100 * float(np.mean(right))


def overlap(a, b):
    """Intersection over union of boxes [..., 4]: centre and half extents."""
    low = np.maximum(a[..., :2] - abs(a[..., 2:]), b[..., :2] - abs(b[..., 2:]))
    high = np.minimum(a[..., :2] + abs(a[..., 2:]), b[..., :2] + abs(b[..., 2:]))
    common = np.prod(np.maximum(0, high - low), -1)
    areas = 4 * np.prod(abs(a[..., 2:]), -1) + 4 * np.prod(abs(b[..., 2:]), -1)
    return common / np.maximum(1e-9, areas - common)


def detected(kinds, boxes, wanted_kinds, wanted_boxes):
    """F1 of cells with a shape, right where the kind is; mean overlap of boxes where shapes are."""
    found, there = kinds.argmax(-1), wanted_kinds > 0
    right = ((found == wanted_kinds) & there).sum()
    f1 = 200 * right / max(1, (found > 0).sum() + there.sum())
    return {"F1": float(f1), "overlap": percent(overlap(boxes, np.moveaxis(wanted_boxes, 1, -1))[there])}


def mean_overlap(classes, wanted, count):
    """Mean over classes of intersection over union of pixels, in percent."""
    each = [((classes == c) & (wanted == c)).sum() / ((classes == c) | (wanted == c)).sum() for c in range(count)]
    return 100 * float(np.mean(each))


def scores(task, answers, targets):
    """Scores in percent by name. `answers` are in the order of the outputs, channels last."""
    if task == "segmentation":
        classes = answers[0].argmax(-1)
        return {"pixels": percent(classes == targets["y"]), "overlap": mean_overlap(classes, targets["y"], 4)}
    if task == "detection":
        return detected(*answers, targets["kinds"], targets["boxes"])
    if task == "turned_digits":
        near = abs(answers[1] - targets["angle"]) < 0.8
        return {"digit": percent(answers[0].argmax(-1) == targets["digit"]), "angle": percent(near)}
    if task == "pairs":
        return {"accuracy": percent((answers[0][:, 0] > 0) == targets["y"])}
    return {"accuracy": percent(answers[0].argmax(-1) == targets["y"])}
