"""Tests tools/integer_program.py: integer_program_test.py SOURCE_DIRECTORY.

The conformance cases hold, a damaged one never does, the document's examples of requantization
are what its formulas give, and errors are told.
"""

import base64
import contextlib
import copy
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

SOURCE = pathlib.Path(sys.argv.pop(1))
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tools"))
import integer_program  # noqa: E402

CASES = sorted((SOURCE / "tests/data/conformance").glob("*.json"))


def command(*arguments):
    """Exit code and lines of integer_program.py."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        with mock.patch.object(sys, "argv", ["integer_program.py", *map(str, arguments)]):
            code = integer_program.main()
    return code, out.getvalue().splitlines()


def with_flipped_bit(tensor, bit):
    raw = bytearray(base64.b64decode(tensor["data"]))
    raw[bit // 8] ^= 1 << bit % 8
    return tensor | {"data": base64.b64encode(raw).decode()}


class FileTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def write(self, name, value):
        path = self.directory / name
        path.write_text(json.dumps(value))
        return path


class Conformance(FileTest):
    def test_all_cases_hold(self):
        code, lines = command("check", *CASES)
        self.assertEqual(code, 0, "\n".join(lines))
        self.assertGreater(len(lines), 30)
        for line in lines:
            self.assertRegex(line, r": [1-9]\d* elements of [1-9]\d* nodes equal$")

    def test_one_bit_of_any_node_fails(self):
        damaged, places = [], []
        for path in CASES:
            case = json.loads(path.read_text())
            for i, node in enumerate(case["program"]["program"]):
                value = case["values"][i] or {"data": ""}
                size = len(base64.b64decode(value["data"]))
                if "Input" in node["op"] or not size:
                    continue
                copied = copy.deepcopy(case)
                copied["values"][i] = with_flipped_bit(value, 5 * i % (8 * size))
                damaged.append(self.write(f"{path.stem}-{i}.json", copied))
                places.append(f"{damaged[-1]}: /program/program/{i} (")
        code, lines = command("check", *damaged)
        self.assertEqual(code, 1)
        self.assertEqual(len(lines), len(places))
        self.assertGreater(len(lines), 500)
        for line, place in zip(lines, places):
            self.assertTrue(line.startswith(place), f"{line}, expected {place}")
            self.assertRegex(line, r": element \[[\d, ]*\] is \S+, expected \S+$")

    def test_one_bit_of_weights_and_biases_fails(self):
        for path in CASES:
            case = json.loads(path.read_text())
            for node in case["program"]["program"]:
                op = node["op"] if isinstance(node["op"], dict) else {}  # a name alone has no attributes
                product = op.get("Linear") or op.get("Conv")
                weights = product and product["weights"]
                for name in ("codes", "bias") if weights else ():
                    if not weights[name]["data"]:
                        continue
                    kept, weights[name] = weights[name], with_flipped_bit(weights[name], 6)
                    code, lines = command("check", self.write("case.json", case))
                    weights[name] = kept
                    self.assertEqual(code, 1, f"{path.stem}: {name}")

    def test_one_sample_gives_the_first_row(self):
        for path in CASES:
            case = json.loads(path.read_text())
            if not path.stem.startswith("network"):
                continue
            x, *values = (integer_program.read_tensor(integer_program.STORED, value, "").data
                          for value in case["values"])
            np.save(self.directory / "x.npy", x[:1])
            outputs = case["program"]["outputs"]
            names = [self.directory / f"{i}.npy" for i in outputs]
            options = [part for name in names for part in ("--output", name)]
            program = self.write("program.json", case["program"])
            code, lines = command("run", program, "--input", self.directory / "x.npy", *options)
            self.assertEqual((code, len(lines)), (0, len(outputs)))
            for i, name in zip(outputs, names):
                self.assertEqual(np.load(name).tobytes(), values[i - 1][:1].tobytes())


class Document(unittest.TestCase):
    def rows(self, heading):
        document = (SOURCE / "docs/integer-program.md").read_text()
        lines = document.split(f"### {heading}\n")[1].split("###")[0].splitlines()
        examples = [line for line in lines if "0x" in line]
        rows = [line.strip("| ").replace("`", "").split(" | ") for line in examples]
        self.assertGreater(len(rows), 5)
        return rows

    def test_multipliers(self):
        for S, s_y, ratio, m, sh, r in self.rows("Examples of multipliers"):
            came = integer_program.multiplier(float.fromhex(S), float.fromhex(s_y))
            bits = int(np.float32(came[0]).view(np.uint32))
            self.assertEqual((bits, *came[1:]), (int(ratio, 16), int(m), int(sh), int(r)), S)

    def test_requantized_sums(self):
        columns = [(requantization, False) for requantization in ("FloatMultiply", "SingleRounding", "DoubleRounding", "OnnxQdq")]
        columns += [("SingleRounding", True)]
        for S, s_y, acc, *expected in self.rows("Examples of requant"):
            for (requantization, wide), y in zip(columns, expected, strict=True):
                came = integer_program.requant(
                    np.array(int(acc)), np.array([float.fromhex(S)]), float.fromhex(s_y),
                    requantization, wide)
                self.assertEqual(int(came), int(y), f"{S} / {s_y} of {acc}, {requantization}")


class Errors(FileTest):
    def error(self, *nodes, x=np.zeros((1, 2), np.float32), **members):
        """The message of running x through a program of an Input and nodes."""
        entry = {"label": "x", "op": {"Input": {"shape": [1, 2]}}}
        path = self.write("program.json", {
            "format": "qtape", "version": 2, "requantization": "FloatMultiply", "program": [entry, *nodes],
        } | members)
        np.save(self.directory / "x.npy", x)
        code, lines = command("run", path, "--input", self.directory / "x.npy")
        self.assertEqual((code, len(lines)), (1, 1), lines)
        return lines[0].removeprefix(f"{path}: ")

    def test_files(self):
        self.assertEqual(self.error(version=1), "/version: 1, expected one of (2,)")
        self.assertEqual(self.error(requantization="Half"), "/requantization: 'Half', expected one of "
                         "('FloatMultiply', 'SingleRounding', 'DoubleRounding', 'OnnxQdq')")
        self.assertEqual(self.error({"op": "Tanh"}), "/program/1/op: unknown op 'Tanh'")
        self.assertEqual(
            self.error({"op": {"Max": {"axis": [1]}}, "operands": [0]}),
            "/program/1/op/Max/axis: expected one of axes, keep_dims")
        self.assertEqual(
            self.error({"op": {"Max": {"keep_dims": 1}}, "operands": [0]}),
            "/program/1/op/Max/keep_dims: 1, expected bool")
        self.assertEqual(self.error({"op": "Max", "operands": [1]}),
                         "/program/1 (Max): operands [1], expected earlier nodes")
        self.assertEqual(
            self.error({"op": {"Quantize": {"grid": {"scale": 0.1}}}, "operands": [0]}),
            "/program/1/op/Quantize/grid/scale: 0.1, expected a positive normal f32 below "
            "2^111")
        short = {"dtype": "u8", "shape": [2], "data": "AA=="}
        self.assertEqual(
            self.error({"op": {"Linear": {"weights": {"codes": short}}}, "operands": [0]}),
            "/program/1/op/Linear/weights/codes/data: 1 bytes, expected 2")
        path = self.directory / "twice.json"
        path.write_text('{"version": 1, "version": 1}')
        self.assertEqual(command("run", path), (1, [f"{path}: a key twice in one object"]))

    def test_values(self):
        self.assertEqual(self.error({"op": "Max", "operands": [0]}),
                         "/program/1 (Max): Max of floats")
        quantize = {"op": "Quantize", "operands": [0]}
        self.assertEqual(self.error(quantize, x=np.full((1, 2), np.nan, np.float32)),
                         "/program/1 (Quantize): NaN has no code")
        self.assertEqual(self.error(quantize, x=np.zeros((1, 3), np.float32)),
                         "/program/0 (x): float32 [1, 3], expected float32 [1, 2]")
        self.assertEqual(self.error(quantize, x=np.zeros((1, 2))),
                         "/program/0 (x): float64 [1, 2], expected float32 [1, 2]")
        self.assertEqual(
            self.error(quantize, {"op": {"Slice": {"end": 2}}, "operands": [1]}),
            "/program/2 (Slice): indices 0..2 of 1")


if __name__ == "__main__":
    unittest.main()
