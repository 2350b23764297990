#!/usr/bin/env python3
"""Runs integer programs as docs/integer-program.md has them, sharing no code with the library.

integer_program.py check CASE.json...
    Conformance cases: every node's value, bit for bit. Prints a line for each case; exit 1
    on a mismatch.
integer_program.py run PROGRAM.json --input x.npy [--output y.npy]
    A program over inputs of float32, or int32 for indices: one --input for each Input, one
    --output for each output, in order. Prints dtype, shape and SHA-256 of each output's
    little-endian elements.

Needs Python 3.11 and NumPy.
"""

import argparse
import base64
import hashlib
import itertools
import json
import math
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np

STORED = {"f32": "<f4", "s8": "<i1", "u8": "<u1", "s16": "<i2", "u16": "<u2", "s32": "<i4",
          "s64": "<i8"}
CODES = {"s8": (-128, 127), "u8": (0, 255), "s16": (-32768, 32767), "u16": (0, 65535)}
LARGEST_F32 = float(np.finfo(np.float32).max)

# Attributes with their defaults. A tuple lists the allowed values, default first; a set lists
# the dtypes of a tensor; a type means no default; the default of a union of types is null.
GRID = {"dtype": tuple(CODES), "scale": 1.0, "zero_point": 0, "low": -128, "high": 127}
WEIGHTS = {"shape": [], "storage_bits": (8, 4, 2), "codes": {"u8"}, "scales": {"f32"},
           "bias": {"s32"},
           "certificate": {"accumulator_bound": 0, "part_bound": 0, "pair_bound": 0}}
REDUCTION = {"axes": [], "keep_dims": False}
WINDOWS = {"kernel": [2, 2], "stride": [], "padding": ("Valid", "Same", "Explicit"),
           "pads_begin": [], "pads_end": []}
OPS = {
    "Input": {"shape": [], "batch": True, "indices": 0},
    "Quantize": {"grid": GRID, "rounding": ("HalfEven", "HalfAway", "HalfUp"),
                 "division": ("Exact", "Reciprocal"),
                 "zero_point": ("AfterRounding", "BeforeRounding")},
    "Linear": {"weights": WEIGHTS, "f32_scales": False},
    "Conv": {"weights": WEIGHTS, "taps": [1, 1], "stride": [1, 1], "dilation": [1, 1],
             "padding": ("Valid", "Same", "Explicit"), "pads_begin": [0, 0], "pads_end": [0, 0],
             "groups": 1},
    "MatMul": {"transpose_a": False, "transpose_b": False},
    "Requantize": {"grid": GRID},
    "Lookup": {"grid": GRID, "table": {"u8", "s8", "u16", "s16"}},
    "Add": {"grid": GRID},
    "Sub": {"grid": GRID},
    "Mul": {"grid": GRID},
    "Constant": {"grid": GRID, "codes": {"u8", "s8", "u16", "s16"}},
    "Maximum": {},
    "Minimum": {},
    "Concat": {"axis": 0, "count": 2},
    "Gather": {"axis": 0, "indices": []},
    "Slice": {"axis": 0, "begin": 0, "end": int | None},
    "Reshape": {"shape": []},
    "Transpose": {"permutation": []},
    "MaxPool": WINDOWS | {"dilation": []},
    "Upsample": {"factor": [2, 2]},
    "Pad": {"begin": [], "end": [], "code": 0},
    "Max": REDUCTION,
    "Sum": REDUCTION | {"mean": False},
    "AvgPool": WINDOWS | {"count_include_pad": True},
    "MeanPool": WINDOWS,
    "Interpolate": {"extents": [], "step": [], "offset": [], "divisor": []},
    "Normalize": {"groups": 1, "joint": False, "centered": True, "shift": 0, "epsilon": 0,
                  "least": 1, "signs": {"s32"}, "scales": {"f32"}, "bias": {"s32"}},
    "Softmax": {"beta": 1.0},
    "ArgMax": {"axis": -1, "keep_dims": False},
    "Embedding": {},
    "Dequantize": {"low": float | None, "high": float | None},
}
NODE = {"label": "", "op": object, "operands": []}
PROGRAM = {"format": ("qtape",), "version": (2,), "program": list, "outputs": [],
           "requantization": ("FloatMultiply", "SingleRounding", "DoubleRounding", "OnnxQdq")}
CASE = {"format": ("qtape-conformance",), "version": (1,), "about": "", "program": dict,
        "values": list}


def require(condition, message):
    if not condition:
        raise ValueError(message)


def read_json(path):
    def members(pairs):
        require(len(dict(pairs)) == len(pairs), "a key twice in one object")
        return dict(pairs)

    with open(path, encoding="utf-8") as file:
        return json.load(file, object_pairs_hook=members)


def default(spec):
    if isinstance(spec, (dict, tuple)):
        return {} if isinstance(spec, dict) else spec[0]
    return spec if isinstance(spec, (bool, int, float, str, list)) else None


def read(spec, value, place):
    if isinstance(spec, dict):
        require(type(value) is dict, f"{place}: expected an object of {', '.join(spec)}")
        for name in value:
            require(name in spec, f"{place}/{name}: expected one of {', '.join(spec)}")
        members = ((name, one, value.get(name, default(one))) for name, one in spec.items())
        return SimpleNamespace(**{n: read(one, v, f"{place}/{n}") for n, one, v in members})
    if isinstance(spec, set):
        return read_tensor(spec, value, place)
    if isinstance(spec, tuple):
        expected = any(type(value) is type(one) and value == one for one in spec)
        require(expected, f"{place}: {value!r}, expected one of {spec}")
        return value
    if isinstance(spec, list):
        items = enumerate(read(list, value, place))
        return [read(0, item, f"{place}/{i}") for i, item in items]
    kind = type(spec) if isinstance(spec, (bool, int, float, str)) else spec
    value = float(value) if type(value) is int and kind in (float, float | None) else value
    fits = isinstance(value, kind) and (type(value) is not bool or kind is bool)
    require(fits, f"{place}: {value!r}, expected {getattr(kind, '__name__', kind)}")
    return value


def read_tensor(dtypes, value, place):
    t = read({"dtype": tuple(dtypes), "shape": [], "data": ""}, value, place)
    raw, elements = base64.b64decode(t.data, validate=True), np.dtype(STORED[t.dtype])
    expected = math.prod(t.shape) * elements.itemsize
    require(min(t.shape, default=0) >= 0, f"{place}/shape: {t.shape}")
    require(len(raw) == expected, f"{place}/data: {len(raw)} bytes, expected {expected}")
    return SimpleNamespace(dtype=t.dtype, data=np.frombuffer(raw, elements).reshape(t.shape))


def check_grid(g, place):
    f32 = 2.0**-126 <= g.scale < 2.0**111 and float(np.float32(g.scale)) == g.scale
    require(f32, f"{place}/scale: {g.scale!r}, expected a positive normal f32 below 2^111")
    low, high = CODES[g.dtype]
    require(low <= g.low <= g.high <= high, f"{place}: {g.low}..{g.high} of {g.dtype}")
    require(low <= g.zero_point <= high, f"{place}/zero_point: {g.zero_point} of {g.dtype}")


def read_node(value, index, place):
    node = read(NODE, value, place)
    op = {node.op: {}} if type(node.op) is str else node.op
    require(type(op) is dict and len(op) == 1, f"{place}/op: expected one op")
    ((node.name, attributes),) = op.items()
    require(node.name in OPS, f"{place}/op: unknown op {node.name!r}")
    node.a = read(OPS[node.name], attributes, f"{place}/op/{node.name}")
    if hasattr(node.a, "grid"):
        check_grid(node.a.grid, f"{place}/op/{node.name}/grid")
    node.place = f"{place} ({node.label or node.name})"
    count = RULES[node.name][1] if node.name in RULES else 0
    count = node.a.count if count is None else count
    require(len(node.operands) == count, f"{node.place}: expected {count} operands")
    earlier = all(0 <= operand < index for operand in node.operands)
    require(earlier, f"{node.place}: operands {node.operands}, expected earlier nodes")
    return node


def read_program(value, place=""):
    require(type(value) is dict and "version" in value, f"{place}/version: missing")
    program = read(PROGRAM, value, place)
    program.nodes = [read_node(node, i, f"{place}/program/{i}")
                     for i, node in enumerate(program.program)]
    return program


@dataclass
class Value:
    """Floats (f32, no scale), codes (int64, with a grid) or accumulators (int64)."""

    data: np.ndarray
    dtype: str
    scale: np.ndarray = None  # f64, one or one for each index of the last axis
    grid: SimpleNamespace = None
    of_16_bits: bool = False  # stored in 16 bits, or accumulators of products of such codes
    mean: tuple = None  # accumulators of a mean: the scale of its codes, and their number

    @property
    def kind(self):
        return "floats" if self.scale is None else "codes" if self.grid else "accumulators"

    @property
    def acc(self):
        return self.data - self.grid.zero_point if self.grid else self.data

    def stored(self):
        return np.asarray(self.data, STORED[self.dtype], "C")


def codes(data, g):
    """Codes of g with data limited to its range; data int64, or f64 without fractions."""
    limited = np.clip(data, g.low, g.high).astype(np.int64)
    return Value(limited, g.dtype, np.array([g.scale]), g, g.dtype in ("s16", "u16"))


def multiplier(scale, s_y):
    M = float(scale) / float(s_y)
    ratio = np.float32(min(M, LARGEST_F32))
    f, sh = math.frexp(M)
    m = (int(f * 2.0**53) + 2**21) >> 22
    if m == 2**31:
        m, sh = 2**30, sh + 1
    if sh < -31:
        m, sh = 0, 0
    if sh > 30:
        m, sh = 2**31 - 1, 30
    return ratio, m, sh, min((m + 2**15) >> 16, 2**15 - 1)


def mean_multiplier(s_x, n, s_y):
    ratio, m, sh, r = multiplier(s_x, s_y)
    k = min(n.bit_length() - 1, 32, 31 + sh)
    return ratio, (m << k) // n, sh - k, r


def clamp32(v):
    return np.minimum(np.maximum(v, -(2**31)), 2**31 - 1).astype(np.int64)


def nearest(v):
    """clamp32(half_even(v)) of f32."""
    return clamp32(np.rint(v).astype(np.float64))


def scaled(acc, m, shift):
    """floor(acc * m * 2^shift + 1/2)."""
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    return (((acc * m) << left) + ((1 << right) >> 1)) >> right


def away(v, n):
    magnitude = (abs(v) + ((1 << n) >> 1)) >> n
    return np.where(v < 0, -magnitude, magnitude)


def fixed_point(acc, multipliers, requantization, of_16_bits):
    # Within 32 bits all products and shifts fit int64; otherwise Python integers are used.
    dtype = np.int64 if np.all(abs(acc) < 2**31) else object
    _, m, sh, r = (np.array(column, dtype) for column in zip(*multipliers))
    acc = acc.astype(dtype)
    if of_16_bits:
        return clamp32(scaled(acc, r, sh - 15))
    if requantization == "SingleRounding":
        return clamp32(scaled(acc, m, sh - 31))
    return clamp32(away(scaled(acc, m, np.maximum(sh, 0) - 31), np.maximum(-sh, 0)))


def requant(acc, scale, s_y, requantization, of_16_bits=False, mean=None):
    """acc int64 [..., n], scale f64 [1] or [n]."""
    if acc.size == 0:
        return acc
    values = np.atleast_1d(acc)
    multipliers = [multiplier(one, s_y) for one in scale]
    if mean and requantization == "DoubleRounding":
        multipliers = [mean_multiplier(*mean, s_y)]
    if requantization == "OnnxQdq":
        y = nearest(values.astype(np.float32) * scale.astype(np.float32) / np.float32(s_y))
    elif requantization == "FloatMultiply":
        ratios = np.array([ratio for ratio, *_ in multipliers])
        y = nearest(values.astype(np.float32) * ratios)
    else:
        y = fixed_point(values, multipliers, requantization, of_16_bits)
    return y.reshape(acc.shape)


# Ops as functions of attributes, requantization and operands. NumPy rejects invalid axes.


def quantize(a, requantization, x):
    require(not np.isnan(x.data).any(), "NaN has no code")
    s, z = np.float32(a.grid.scale), np.float32(a.grid.zero_point)
    t = x.data / s if a.division == "Exact" else x.data * (np.float32(1) / s)
    if a.zero_point == "BeforeRounding":
        t = t + z
    t = t.astype(np.float64)  # t + 1/2 may round there, but never past an integer
    if a.rounding == "HalfEven":
        q = np.rint(t)
    elif a.rounding == "HalfUp":
        q = np.floor(t + 0.5)
    else:
        q = np.copysign(np.floor(abs(t) + 0.5), t)
    return codes(q + a.grid.zero_point if a.zero_point == "AfterRounding" else q, a.grid)


def unpack(packed, bits, n, k):
    fields = packed.astype(np.int64)[:, None] >> np.arange(0, 8, bits) & (2**bits - 1)
    w = np.where(fields < 2 ** (bits - 1), fields, fields - 2**bits)
    return w.reshape(-1)[:n * k].reshape(n, k)


def certificate(w, bias, g):
    low, high = min(g.low, 0), max(g.high, 0)
    parts = [(low, high, g.dtype == "s8")]
    if g.dtype in ("s16", "u16"):
        parts = [(low >> 8, high >> 8, g.dtype == "s16"), (0, 255, False)]

    def largest(*terms):
        return max(int(abs(term).max(initial=0)) for term in terms)

    def reach(lo, hi):
        return (np.minimum(np.minimum(w * lo, w * hi), 0).sum(1),
                np.maximum(np.maximum(w * lo, w * hi), 0).sum(1))

    shift = bias - g.zero_point * w.sum(1)
    least, most = reach(low, high)
    ordered = np.sort(np.pad(w, ((0, 0), (0, 2))), axis=1)
    pair = np.maximum(ordered[:, -2:].sum(1), -ordered[:, :2].sum(1))
    return SimpleNamespace(
        accumulator_bound=largest(shift, least, most, least + shift, most + shift),
        part_bound=max(largest(*reach(lo, hi)) for lo, hi, _ in parts),
        pair_bound=max(largest(pair * (hi + 128 * signed)) for _, hi, signed in parts))


def products(a, x, grid, multiply):
    """Accumulators multiply(w) with biases; a are weights, grid the codes that they multiply."""
    n, k = a.shape
    w = unpack(a.codes.data, a.storage_bits, n, k)
    bias = a.bias.data.astype(np.int64) if a.bias.data.size else np.zeros(n, np.int64)
    proven = certificate(w, bias, grid)
    require(a.certificate == proven, f"{a.certificate}, expected {proven}")
    dtype = "s64" if x.of_16_bits or proven.accumulator_bound > 2**31 - 1 else "s32"
    scale = x.scale * a.scales.data.astype(np.float64)
    return Value(multiply(w) + bias, dtype, scale, of_16_bits=x.of_16_bits)


def linear(a, requantization, x):
    y = products(a.weights, x, x.grid, lambda w: x.acc @ w.T)
    scale = y.scale.astype(np.float32).astype(np.float64) if a.f32_scales else y.scale
    return replace(y, scale=scale)


def conv(a, requantization, x):
    axes, (n, k), (*_, channels) = len(a.taps), a.weights.shape, x.data.shape
    require(x.data.ndim == axes + 2, f"codes {x.data.shape} under {axes} axes of taps")
    lists = (a.taps, a.stride, a.dilation, a.pads_begin, a.pads_end)
    require(all(len(one) == axes for one in lists), "lists of different lengths")
    require(channels % a.groups == 0 and n % a.groups == 0, f"{a.groups} groups")
    pads, windows = [], []
    for size, taps, stride, dilation, *pad in zip(x.data.shape[1:-1], *lists):
        span = (taps - 1) * dilation + 1
        require(a.padding == "Explicit" or pad == [0, 0], f"padding {pad} with {a.padding}")
        if a.padding == "Same":
            missing = max(0, (-(-size // stride) - 1) * stride + span - size)
            pad = [missing // 2, missing - missing // 2]
        require(span <= size + sum(pad), f"{span} of {size + sum(pad)}")
        pads.append(pad)
        windows.append((size + sum(pad) - span) // stride + 1)
    grid = SimpleNamespace(**vars(x.grid))
    if np.any(pads):
        grid.low, grid.high = min(grid.low, grid.zero_point), max(grid.high, grid.zero_point)
    padded = np.pad(x.acc, [(0, 0), *pads, (0, 0)])

    def multiply(w):
        w = w.reshape(a.groups, n // a.groups, *a.taps, channels // a.groups)
        y = np.zeros((len(x.data), *windows, a.groups, n // a.groups), np.int64)
        for tap in np.ndindex(*a.taps):
            at = [slice(t * d, t * d + (count - 1) * s + 1, s)
                  for t, d, s, count in zip(tap, a.dilation, a.stride, windows)]
            part = padded[(slice(None), *at)]
            part = part.reshape(*part.shape[:-1], a.groups, channels // a.groups)
            y += np.einsum("...gc,goc->...go", part, w[(slice(None), slice(None), *tap)])
        return y.reshape(*y.shape[:-2], n)

    return products(a.weights, x, grid, multiply)


def matmul(a, requantization, x, y):
    require(min(x.data.ndim, y.data.ndim) >= 2, "operands of fewer than 2 axes")
    left = np.swapaxes(x.acc, -1, -2) if a.transpose_a else x.acc
    right = np.swapaxes(y.acc, -1, -2) if a.transpose_b else y.acc
    shared = right.ndim == 2 and (left.ndim == 2 or not a.transpose_a)
    fits = left.shape[-1] == right.shape[-2] and (shared or left.shape[:-2] == right.shape[:-2])
    require(fits, f"codes {list(x.data.shape)} and {list(y.data.shape)}")
    k = left.shape[-1]
    ends = [[code - v.grid.zero_point for code in (v.grid.low, v.grid.high)] for v in (x, y)]
    bound = k * max(abs(p * q) for p, q in itertools.product(*ends))
    of_16_bits = x.of_16_bits or y.of_16_bits
    dtype = "s64" if of_16_bits or bound > 2**31 - 1 else "s32"
    return Value(left @ right, dtype, x.scale * y.scale, of_16_bits=of_16_bits)


def requantize(a, requantization, x):
    of_16_bits = x.of_16_bits and x.kind == "accumulators"
    y = requant(x.acc, x.scale, a.grid.scale, requantization, of_16_bits, x.mean)
    return codes(y + a.grid.zero_point, a.grid)


def add(a, requantization, x, y, sign=1):
    p, q, s_a, s_b, s_y = x.acc, sign * y.acc, x.scale, y.scale, np.array([a.grid.scale])
    if requantization in ("SingleRounding", "DoubleRounding"):
        L = 15 if x.of_16_bits or y.of_16_bits else 20
        T = 2 * np.maximum(s_a, s_b)
        u = requant(p << L, s_a / T, 1, requantization)
        v = requant(q << L, s_b / T, 1, requantization)
        total = requant(u + v, T / (s_y * 2.0**L), 1, requantization)
        return codes(total + a.grid.zero_point, a.grid)
    p, q = p.astype(np.float32), q.astype(np.float32)
    if requantization == "FloatMultiply":
        total = p * multiplier(s_a[0], s_y[0])[0] + q * multiplier(s_b[0], s_y[0])[0]
    else:
        s_a, s_b, s_y = (np.float32(s[0]) for s in (s_a, s_b, s_y))
        total = (p * s_a + q * s_b) / s_y
    return codes(nearest(total) + a.grid.zero_point, a.grid)


def sub(a, requantization, x, y):
    return add(a, requantization, x, y, sign=-1)


def mul(a, requantization, x, y):
    total = requant(x.acc * y.acc, x.scale * y.scale, a.grid.scale, requantization)
    return codes(total + a.grid.zero_point, a.grid)


def lookup(a, requantization, x):
    least, most = CODES[x.grid.dtype]
    rows = x.data.shape[-1:] if a.table.data.ndim == 2 else ()
    fits = a.table.dtype == a.grid.dtype and a.table.data.shape == (*rows, most - least + 1)
    require(fits, f"table {a.table.dtype} {a.table.data.shape} of {x.grid.dtype}")
    place = (np.arange(*rows), x.data - least) if rows else (x.data - least,)
    y = codes(a.table.data.astype(np.int64)[place], a.grid)
    require((y.data == a.table.data[place]).all(), "an entry outside of the grid")
    return y


def constant(a, requantization):
    y = codes(a.codes.data.astype(np.int64), a.grid)
    fits = a.codes.dtype == a.grid.dtype and (y.data == a.codes.data).all()
    require(fits, "a code outside of the grid")
    return y


def one_grid(operands, low, high):
    grids = [x.grid for x in operands]
    require(len({(g.dtype, g.scale, g.zero_point) for g in grids}) == 1, "grids differ")
    g = SimpleNamespace(**vars(grids[0]))
    g.low, g.high = low(one.low for one in grids), high(one.high for one in grids)
    return g


def maximum(a, requantization, x, y):
    return codes(np.maximum(x.data, y.data), one_grid((x, y), max, max))


def minimum(a, requantization, x, y):
    return codes(np.minimum(x.data, y.data), one_grid((x, y), min, min))


def concat(a, requantization, *operands):
    g = one_grid(operands, min, max)
    return codes(np.concatenate([x.data for x in operands], a.axis), g)


def moved(x, y):
    """Codes or indices `y` of x, elsewhere."""
    indices = x.dtype == "s32" and np.size(x.scale) == 1 and np.all(x.scale == 1)
    require(x.grid or indices, f"{x.dtype} are neither codes nor indices")
    return codes(y, x.grid) if x.grid else replace(x, data=y)


def slice_codes(a, requantization, x):
    along = np.moveaxis(x.data, a.axis, 0)
    n = len(along)
    begin, end = a.begin, n if a.end is None else a.end
    begin, end = (i + n if i < 0 else i for i in (begin, end))
    require(0 <= begin <= end <= n, f"indices {a.begin}..{a.end} of {n}")
    return moved(x, np.moveaxis(along[begin:end], 0, a.axis))


def reshape(a, requantization, x):
    require(min(a.shape, default=0) >= -1, f"shape {a.shape}")
    y = x.data.reshape(a.shape)
    kept = y.shape[-1:] == x.data.shape[-1:]
    require(x.scale is None or np.size(x.scale) == 1 or kept, f"channels of {list(x.data.shape)}")
    return codes(y, x.grid) if x.grid else replace(x, data=y)


def gather(a, requantization, x):
    n = x.data.shape[a.axis]
    require(all(0 <= i < n for i in a.indices), f"indices {a.indices} of {n}")
    return moved(x, np.take(x.data, np.array(a.indices, np.int64), a.axis))


def transpose(a, requantization, x):
    require(x.scale is None or np.size(x.scale) == 1, "axes of channels are permuted")
    y = np.transpose(x.data, a.permutation or None)
    return codes(y, x.grid) if x.grid else replace(x, data=y)


def windows(a, x, border):
    """The elements of each window, [elements, n, ..., c]; padding is `border`."""
    pads, places = [(0, 0)], []
    require(x.ndim == len(a.kernel) + 2, f"windows {a.kernel} over {list(x.shape)}")
    for i, (extent, k) in enumerate(zip(x.shape[1:-1], a.kernel)):
        s = a.stride[i] if a.stride else k
        d = a.dilation[i] if getattr(a, "dilation", []) else 1
        b = a.pads_begin[i] if a.pads_begin else 0
        e = a.pads_end[i] if a.pads_end else 0
        require(min(extent, k, s, d) >= 1 and min(b, e) >= 0, f"windows {vars(a)}")
        require(a.padding == "Explicit" or b == e == 0, f"padding {vars(a)}")
        require(k == 1 or d <= extent, f"dilation {d} over {extent}")
        span = (k - 1) * d + 1
        if a.padding == "Same":
            total = max(0, (-(-extent // s) - 1) * s + span - extent)
            b, e = total // 2, total - total // 2
        out = (extent + b + e - span) // s + 1
        require(out >= 1, f"windows of {span} over {extent} and padding {b}, {e}")
        pads.append((b, e))
        places.append([slice(j * d, j * d + (out - 1) * s + 1, s) for j in range(k)])
    padded = np.pad(x, [*pads, (0, 0)], constant_values=border)
    return np.stack([padded[:, *chosen] for chosen in itertools.product(*places)])


def max_pool(a, requantization, x):
    return codes(windows(a, x.data, CODES[x.grid.dtype][0]).max(0), x.grid)


def avg_pool(a, requantization, x):
    y = windows(a, x.acc, 0).sum(0)
    inside = windows(a, np.ones((1, *x.data.shape[1:-1], 1), np.int64), 0)
    m = np.full_like(inside[0], len(inside)) if a.count_include_pad else inside.sum(0)
    L = math.lcm(*(int(one) for one in np.unique(m)))
    bound = L * max(abs(code - x.grid.zero_point) for code in (x.grid.low, x.grid.high))
    return Value(y * (L // m), "s32" if bound <= 2**31 - 1 else "s64", x.scale / L)


def mean_pool(a, requantization, x):
    total = windows(a, x.data, 0).sum(0)
    n = windows(a, np.ones((1, *x.data.shape[1:-1], 1), np.int64), 0).sum(0)
    require(math.prod(a.kernel) <= 2**23, f"windows of {a.kernel}")
    return codes(np.sign(total) * ((abs(total) + n // 2) // n), x.grid)


def upsample(a, requantization, x):
    require(x.data.ndim == len(a.factor) + 2, f"factor {a.factor} of {list(x.data.shape)}")
    y = x.data
    for i, factor in enumerate(a.factor):
        y = np.repeat(y, factor, 1 + i)
    return codes(y, x.grid)


def interpolate(a, requantization, x):
    y, axes = x.acc, x.data.ndim - 2
    lists = a.extents, a.step, a.offset, a.divisor
    require(axes in (1, 2) and all(len(each) == axes for each in lists), f"positions {lists}")
    for axis, (n, step, offset, d) in enumerate(zip(*lists), 1):
        last = y.shape[axis] - 1
        require(min(n, d) >= 1 and step >= 0 and last >= 0, f"positions {lists}")
        at = np.clip(step * np.arange(n) + offset, 0, last * d)
        by = (at % d).reshape([-1 if k == axis else 1 for k in range(y.ndim)])
        low, high = np.take(y, at // d, axis), np.take(y, np.minimum(at // d + 1, last), axis)
        y = low * (d - by) + high * by
    total = math.prod(a.divisor)
    require(total <= 2**23, f"divisors {a.divisor}")
    bound = total * max(abs(code - x.grid.zero_point) for code in (x.grid.low, x.grid.high))
    return Value(y, "s32" if bound <= 2**31 - 1 else "s64", x.scale / total)


def pad(a, requantization, x):
    g = SimpleNamespace(**vars(x.grid))
    g.low, g.high = min(g.low, a.code), max(g.high, a.code)
    require(len(a.begin) == len(a.end) == x.data.ndim, f"{a.begin} and {a.end}")
    return codes(np.pad(x.data, list(zip(a.begin, a.end)), constant_values=a.code), g)


def max_codes(a, requantization, x):
    y = np.max(x.data, tuple(a.axes) or None, keepdims=a.keep_dims)
    return codes(np.asarray(y), x.grid)


def sum_codes(a, requantization, x):
    y = np.sum(x.acc, tuple(a.axes) or None, keepdims=a.keep_dims)
    n = math.prod(x.data.shape[axis] for axis in a.axes or range(x.data.ndim))
    require(n or not a.mean or not np.size(y), "the mean of no elements")
    bound = n * max(abs(code - x.grid.zero_point) for code in (x.grid.low, x.grid.high))
    dtype = "s32" if bound <= 2**31 - 1 else "s64"
    if not a.mean:
        return Value(np.asarray(y), dtype, x.scale)
    return Value(np.asarray(y), dtype, x.scale / n, mean=(float(x.scale[0]), n))


def quotients(q, centered, shift, epsilon, least):
    """round(2^16 d / root) of each element of a set."""
    n, A, B = len(q), sum(q), sum(each * each for each in q)
    A = A if centered else 0
    v = max((n * B - A * A) * 4**shift + epsilon, least)
    k = 0
    while v * 4**k < 2**60:
        k += 1
    factor = (2**61 - 1) // math.isqrt(v * 4**k)
    down = 45 - k - shift
    return [((n * each - A) * factor + (1 << down - 1)) >> down for each in q]


def normalize(a, requantization, x):
    require(x.data.ndim >= 1 + a.joint, f"codes {list(x.data.shape)}")
    c = x.data.shape[-1]
    require(a.groups >= 1 and c % a.groups == 0, f"{a.groups} groups of {c}")
    positions = math.prod(x.data.shape[1:-1]) if a.joint else 1
    width = c // a.groups
    span = 65535 if x.of_16_bits else 255
    require(0 <= a.shift < 30, f"shift {a.shift}")
    require(positions * width <= ((2**30 - 1) // span) >> a.shift, f"sets of {positions * width}")
    require(0 <= a.epsilon <= 2**60, f"epsilon {a.epsilon}")
    require(4**a.shift <= a.least <= 2**60, f"least {a.least}")
    numbers = (a.signs.data, a.scales.data, a.bias.data)
    require(all(one.shape == (c,) for one in numbers), "numbers of other channels")
    require(np.all(abs(a.signs.data) <= 1), "signs beyond 1")
    require(np.all(abs(a.bias.data.astype(np.int64)) <= 2**30), "biases beyond 2^30")
    require(np.all((a.scales.data >= 2.0**-110) & np.isfinite(a.scales.data)), "scales")
    h = np.zeros(x.data.shape, np.int64)
    if h.size:
        q = x.acc.reshape(-1, positions, a.groups, width)
        sets = h.reshape(q.shape)
        for outer, group in np.ndindex(len(q), a.groups):
            one = [int(each) for each in q[outer, :, group].reshape(-1)]
            y = quotients(one, a.centered, a.shift, a.epsilon, a.least)
            sets[outer, :, group] = np.reshape(y, (positions, width))
    scale = a.scales.data.astype(np.float64) * 2.0**-16
    return Value(h * a.signs.data + a.bias.data, "s32", scale)


def high(a, b):
    """floor(a * b / 2^31 + 1/2)."""
    return (a * b + 2**30) >> 31


def fixed_exp(v):
    """exp of v <= 0 in 2^-26, in 2^-31."""
    if v == 0:
        return 2**31 - 1
    f = v % 2**24 - 2**24
    t = f * 2**5 + 2**28
    t2 = high(t, t)
    t3, t4 = high(t2, t), high(t2, t2)
    u = t + int(away(high(int(away(t4, 2)) + t3, 715827883) + t2, 1))
    e = 1895147668 + high(1895147668, u)
    factors = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
    for i, factor in enumerate(factors):
        if (f - v) >> (24 + i) & 1:
            e = high(e, factor)
    return e


def exponentials(factor):
    """E of d = 0, -1, .. -255; factor is M."""
    f, ls = math.frexp(factor)
    m = math.floor(f * 2**31 + 0.5)
    if m == 2**31:
        m, ls = 2**30, ls + 1
    far = (31 * 2**26) >> ls
    return np.array([fixed_exp(high(-d << ls, m)) if d <= far else 0 for d in range(256)])


def shares(E):
    """Codes of one row without their zero point."""
    total = sum((int(e) + 2**11) >> 12 for e in E)
    k = 32 - total.bit_length()
    h = (total << k) >> 1
    r = 1515870810 + high(h, -1010580540)
    for _ in range(3):
        r += 4 * high(r, 2**29 - high(h, r))
    r = min(2 * r, 2**31 - 1)
    return np.minimum(away(high(r, E), 35 - k), 255)


def softmax(a, requantization, x):
    require(x.dtype == "s8" and x.data.ndim >= 1, f"{x.dtype} {list(x.data.shape)}")
    require(1 <= x.data.shape[-1] <= 4095, f"rows of {x.data.shape[-1]} codes")
    require(0 < a.beta < math.inf, f"beta {a.beta}")
    factor = min(a.beta * float(x.scale[0]) * 2.0**26, 2.0**31 - 1)
    require(factor > 1, f"beta {a.beta} times scale {float(x.scale[0])}")
    table = exponentials(factor)
    y = np.zeros(x.data.shape, np.int64)
    for row in np.ndindex(*x.data.shape[:-1]):
        y[row] = shares(table[x.data[row].max() - x.data[row]]) - 128
    grid = SimpleNamespace(dtype="s8", scale=2.0**-8, zero_point=-128, low=-128, high=127)
    return codes(y, grid)


def arg_max(a, requantization, x):
    require(x.data.shape[a.axis] >= 1, f"axis {a.axis} of {list(x.data.shape)}")
    values = x.data
    if x.kind == "accumulators":
        values = x.data.astype(np.float32) * x.scale.astype(np.float32)
    y = np.argmax(values, a.axis, keepdims=a.keep_dims)
    return Value(np.asarray(y, np.int64), "s32", np.array([1.0]))


def embedding(a, requantization, table, indices):
    fits = table.grid and table.data.ndim == 2 and table.data.size
    require(fits, f"table {table.dtype} {list(table.data.shape)}")
    rows = len(table.data)
    within = indices.data.size == 0 or 0 <= indices.data.min() and indices.data.max() < rows
    require(indices.dtype == "s32" and within, f"indices beyond 0..{rows - 1}")
    return codes(table.data[indices.data], table.grid)


def dequantize(a, requantization, x):
    v = np.atleast_1d(x.acc).astype(np.float32) * x.scale.astype(np.float32)
    if a.low is not None:
        v = np.where(v < np.float32(a.low), np.float32(a.low), v)
    if a.high is not None:
        v = np.where(v > np.float32(a.high), np.float32(a.high), v)
    return Value(v.reshape(x.data.shape), "f32")


# For each op: kinds of operands, number of operands (None: `count`), and function.
RULES = {
    "Quantize": ("floats", 1, quantize),
    "Linear": ("codes", 1, linear),
    "Conv": ("codes", 1, conv),
    "MatMul": ("codes", 2, matmul),
    "Requantize": ("codes accumulators", 1, requantize),
    "Lookup": ("codes", 1, lookup),
    "Add": ("codes", 2, add),
    "Sub": ("codes", 2, sub),
    "Mul": ("codes", 2, mul),
    "Constant": ("", 0, constant),
    "Maximum": ("codes", 2, maximum),
    "Minimum": ("codes", 2, minimum),
    "Concat": ("codes", None, concat),
    "Slice": ("codes accumulators", 1, slice_codes),
    "Transpose": ("floats codes accumulators", 1, transpose),
    "Gather": ("codes accumulators", 1, gather),
    "Reshape": ("floats codes accumulators", 1, reshape),
    "MaxPool": ("codes", 1, max_pool),
    "Upsample": ("codes", 1, upsample),
    "Pad": ("codes", 1, pad),
    "Max": ("codes", 1, max_codes),
    "Sum": ("codes", 1, sum_codes),
    "AvgPool": ("codes", 1, avg_pool),
    "MeanPool": ("codes", 1, mean_pool),
    "Interpolate": ("codes", 1, interpolate),
    "Normalize": ("codes", 1, normalize),
    "Softmax": ("codes", 1, softmax),
    "ArgMax": ("codes accumulators", 1, arg_max),
    "Embedding": ("codes accumulators", 2, embedding),
    "Dequantize": ("codes accumulators", 1, dequantize),
}


def given(node, x):
    if not node.a.indices:
        return Value(x, "f32")
    x = x.astype(np.int64)
    within = (0 <= x) & (x < node.a.indices)
    require(within.all(), f"{node.place}: an index beyond 0..{node.a.indices - 1}")
    return Value(x, "s32", np.array([1.0]))


def run_program(program, inputs):
    """Values of all nodes; inputs are arrays, one for each Input."""
    wanted = [node for node in program.nodes if node.name == "Input"]
    require(len(inputs) == len(wanted), f"{len(inputs)} inputs, expected {len(wanted)}")
    values, batch, inputs = [], None, iter(inputs)
    for node in program.nodes:
        if node.name == "Input":
            x, shape = next(inputs), list(node.a.shape)
            if node.a.batch and shape and x.ndim:
                shape[0] = batch = x.shape[0] if batch is None else batch
            dtype = "int32" if node.a.indices else "float32"
            came, expected = f"{x.dtype} {list(x.shape)}", f"{dtype} {shape}"
            require(came == expected, f"{node.place}: {came}, expected {expected}")
            values.append(given(node, x))
        else:
            values.append(run_node(node, program.requantization, [values[j] for j in node.operands]))
    return values


def run_node(node, requantization, operands):
    kinds, _, rule = RULES[node.name]
    try:
        for x in operands:
            require(x.kind in kinds.split(), f"{node.name} of {x.kind}")
        with np.errstate(all="ignore"):
            return rule(node.a, requantization, *operands)
    except ValueError as error:
        raise ValueError(f"{node.place}: {error}") from None


def difference(value, expected):
    """Where value is not the tensor expected; "" where all bits are alike."""
    y, t = value.stored(), expected.data
    if (value.dtype, y.shape) != (expected.dtype, t.shape):
        return f"{value.dtype} {list(y.shape)}, expected {expected.dtype} {list(t.shape)}"
    bits = f"<u{y.itemsize}"
    differs = np.flatnonzero(y.reshape(-1).view(bits) != t.reshape(-1).view(bits))
    if not differs.size:
        return ""
    at = [int(i) for i in np.unravel_index(differs[0], y.shape)]
    return f"element {at} is {y.flat[differs[0]]}, expected {t.flat[differs[0]]}"


def check_case(path):
    case = read(CASE, read_json(path), "")
    nodes = (program := read_program(case.program, "/program")).nodes
    require(len(case.values) == len(nodes), f"/values: expected {len(nodes)}")
    tensors = [value and read_tensor(STORED, value, f"/values/{i}")
               for i, value in enumerate(case.values)]
    cases = list(zip(nodes, tensors))
    given = [tensor for node, tensor in cases if node.name == "Input"]
    require(all(given), "/values: an Input without a value")
    values, elements = run_program(program, [tensor.data for tensor in given]), 0
    for (node, expected), value in zip(cases, values):
        if node.name != "Input" and expected:
            differs = difference(value, expected)
            require(not differs, f"{node.place}: {differs}")
            elements += expected.data.size
    require(elements, "/values: nothing to compare")
    print(f"{path}: {elements} elements of {len(nodes)} nodes equal")


def run(path, inputs, outputs):
    program = read_program(read_json(path))
    results = program.outputs or [len(program.nodes) - 1]
    require(len(outputs) <= len(results), f"{len(outputs)} outputs, expected {len(results)}")
    values = run_program(program, [np.load(name, allow_pickle=False) for name in inputs])
    for i in results:
        y = values[i].stored()
        digest = hashlib.sha256(y.tobytes()).hexdigest()
        print(f"{program.nodes[i].place}: {values[i].dtype} {list(y.shape)} sha256 {digest}")
    for name, i in zip(outputs, results):
        np.save(name, values[i].stored())


def succeeds(action, path, *arguments):
    try:
        action(path, *arguments)
    except (OSError, ValueError, LookupError, ArithmeticError, RecursionError) as error:
        print(f"{path}: {error}")
        return False
    return True


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check").add_argument("cases", nargs="+")
    running = commands.add_parser("run")
    running.add_argument("program")
    running.add_argument("--input", action="append", default=[])
    running.add_argument("--output", action="append", default=[])
    args = parser.parse_args()
    if args.command == "check":
        return 0 if all([succeeds(check_case, path) for path in args.cases]) else 1
    return 0 if succeeds(run, args.program, args.input, args.output) else 1


if __name__ == "__main__":
    sys.exit(main())
