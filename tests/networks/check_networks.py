#!/usr/bin/env python3
"""Takes the ONNX files of write_networks.py through qtape and prints one row for each network.

check_networks.py QTAPE FOLDER [--ships] [--exports] [--levels L0 L1 ...] [--forms 17.dynamic ...] [NAME...]
Needs NumPy. A row states the forms that import, the largest difference from PyTorch's answers
relative to the largest answer, and with --ships the result of calibrate, verify and convert.
--exports adds the self-test of C and the number of transposes in ONNX, in both layouts.
"""
import argparse
import json
import os
import shutil
import sys
import tempfile

import numpy as np

import names
from running import run


def channels_last(x):
    return np.moveaxis(x, 1, -1) if x.ndim >= 3 else x


def fed(arrays, inputs):
    """Arrays in the layout of the model's inputs."""
    result = {}
    for given in inputs:
        x = arrays[given["label"]]
        shape = tuple(given["shape"])
        if x.shape[1:] != shape and channels_last(x).shape[1:] == shape:
            x = channels_last(x)
        result[given["label"]] = x if x.dtype == np.float32 else x.astype(np.int32)
    return result


def difference(wanted, got):
    """Largest difference relative to the largest answer, in the layout that fits."""
    found = []
    steps_last = [np.swapaxes(wanted, 0, 1)] if wanted.ndim > 2 else []
    for w in (wanted, channels_last(wanted), *steps_last):
        if w.size == got.size and [k for k in w.shape if k > 1] == [k for k in got.shape if k > 1]:
            found.append(float(np.abs(w.reshape(got.shape) - got).max() / max(1e-30, np.abs(w).max())))
    return min(found) if found else f"the answer is {got.shape}, expected {wanted.shape}"


class Check:
    def __init__(self, tool, folder, work, levels, exports):
        self.tool, self.folder, self.work, self.levels, self.exports = tool, folder, work, levels, exports
        self.transposes = ""

    def file(self, name):
        return os.path.join(self.work, name)

    def imports(self, onnx, name):
        """Error text, or largest difference of floats."""
        code, text, _ = run(self.tool, "import", onnx, "-o", self.file("m.json"), "--float-parts", "--json", self.file("i.json"))
        if code:
            return text
        with open(self.file("i.json")) as file:
            inputs = json.load(file)["inputs"]
        arrays = dict(np.load(f"{self.folder}/{name}.npz"))
        if [i["label"] for i in inputs] != list(arrays) and len(inputs) == len(arrays):
            return f"inputs are called {[i['label'] for i in inputs]}, expected {list(arrays)}"
        np.savez(self.file("x.npz"), **fed(arrays, inputs))
        code, text, _ = run(self.tool, "replay", self.file("m.json"), "--input", self.file("x.npz"), "-o", self.file("y.npz"))
        if code:
            return text
        got = np.load(self.file("y.npz"))
        wanted = np.load(f"{self.folder}/{name}.out.npz")
        worst = 0.0
        for (label, w), g in zip(wanted.items(), [got[k] for k in got.files]):
            d = difference(w, g)
            if isinstance(d, str):
                return d
            worst = d if np.isnan(d) else max(worst, d)
        return worst

    def ships(self):
        """Error text, or nothing."""
        model, quantized = self.file("m.json"), self.file("q.json")
        code, text, _ = run(self.tool, "calibrate", model, "-o", quantized, "--input", self.file("x.npz"))
        if code:
            return text
        code, text, out = run(self.tool, "verify", quantized, "--input", self.file("x.npz"), "--random", "20", "--levels", *self.levels)
        if code:
            return text if ":" in text else out.strip().splitlines()[-1]
        code, text, _ = run(self.tool, "convert", quantized, "-o", self.file("p.json"))
        return text if code else self.exported(quantized) if self.exports else ""

    def exported(self, quantized):
        counts = []
        for layout in ("nhwc", "nchw"):
            shutil.rmtree(self.file("c"), ignore_errors=True)
            code, text, out = run(self.tool, "export", "c", quantized, "-o", self.file("c"), "--name", "net", "--layout", layout, "--check")
            if code:
                return f"C, {layout}: {text if ':' in text else out.strip().splitlines()[-1]}"
            code, text, _ = run(self.tool, "export", "onnx", quantized, "-o", self.file("m.onnx"), "--form", "integer", "--layout", layout)
            if code:
                return f"ONNX, {layout}: {text}"
            with open(self.file("m.onnx"), "rb") as file:
                counts.append(str(file.read().count(b'"\tTranspose')))
        self.transposes = f", transposes {counts[0]} and with channels first {counts[1]}"
        return ""


def short(text):
    return text if len(text) < 400 else text[:400] + "…"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--ships", action="store_true")
    parser.add_argument("--exports", action="store_true")
    parser.add_argument("--levels", nargs="+", default=["L0", "L1", "L2", "L3"])
    parser.add_argument("--forms", nargs="+")
    options = parser.parse_args()
    options.tool, options.folder = os.path.abspath(options.tool), os.path.abspath(options.folder)
    wanted = [n for n in names.of(options.folder) if not options.names or n in options.names]
    imported = shipped = 0
    with tempfile.TemporaryDirectory() as work:
        check = Check(options.tool, options.folder, work, options.levels, options.exports)
        for name in wanted:
            results, ships = {}, "no file"
            for form in names.forms(options.folder, name):
                if not options.forms or form in options.forms:
                    results[form] = check.imports(f"{options.folder}/{name}.{form}.onnx", name)
                    good = not isinstance(results[form], str)
                    if options.ships and form == (options.forms or ["17.dynamic"])[0]:
                        ships = check.ships() if good else "not imported"
            failed = {f: r for f, r in results.items() if isinstance(r, str) or not r <= 1e-5}
            imported += not failed
            worst = max([r for r in results.values() if not isinstance(r, str)], default=float("nan"))
            text = f"{name:20} imports {len(results) - len(failed)} of {len(results)}, {worst:.1e}"
            if options.ships:
                shipped += not ships
                text += "; ships" + check.transposes if not ships else f"; {short(ships)}"
            print(text)
            reasons = {}
            for f, r in failed.items():
                reason = r.split(".onnx: ", 1)[-1] if isinstance(r, str) else f"differs by {r:.1e}"
                reasons.setdefault(reason, []).append(f)
            for reason, where in reasons.items():
                print(f"    {' '.join(where)}: {short(reason)}")
            sys.stdout.flush()
    print(f"{len(wanted)} networks, {imported} import in all forms" + (f", {shipped} ship" if options.ships else ""))


main()
