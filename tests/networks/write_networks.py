#!/usr/bin/env python3
"""Writes networks.py as ONNX files by PyTorch 2.6, with inputs, answers, and the rewritten forms of other exporters.

write_networks.py FOLDER [NAME...]: FOLDER/NAME.OPSET.FORM.onnx, .npz of inputs by name, .out.npz of answers by output.
"""
import os
import sys
import warnings

import numpy as np
import onnx
import torch
from torch import nn
from onnx import TensorProto, helper, numpy_helper

import networks

OPSETS = (11, 13, 17, 18, 20)
FORMS = ("dynamic", "fixed", "norms", "rewritten")
BATCH = 3


def randomize(model):
    """Gives norms statistics of a trained network."""
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
        if getattr(module, "weight", None) is not None and "Norm" in type(module).__name__:
            nn.init.uniform_(module.weight, 0.5, 1.5)
            if getattr(module, "bias", None) is not None:
                nn.init.uniform_(module.bias, -0.5, 0.5)


def sample(shape, batch):
    if shape[0] == "int":
        return torch.randint(0, shape[2], (batch, *shape[1]))
    return torch.randn(batch, *shape)


def rewritten(path):
    """Rewrites a file as current exporters write it: allowzero, a local function, data in another file."""
    model = onnx.load(path)
    graph = model.graph
    opset = model.opset_import[0].version
    for node in graph.node:
        if node.op_type == "Reshape" and opset >= 14 and not any(a.name == "allowzero" for a in node.attribute):
            shape = next((numpy_helper.to_array(t) for t in graph.initializer if t.name == node.input[1]), None)
            if shape is not None and 0 not in shape:
                node.attribute.append(helper.make_attribute("allowzero", 1))
    if opset >= 15:
        local = helper.make_function("pkg.local", "Activate", ["X"], ["Y"], [helper.make_node("Relu", ["X"], ["Y"])],
                                     [helper.make_opsetid("", opset)])
        used = False
        for node in graph.node:
            if node.op_type == "Relu":
                node.op_type, node.domain, used = "Activate", "pkg.local", True
        if used:
            model.functions.append(local)
            model.opset_import.append(helper.make_opsetid("pkg.local", 1))
    name = path.replace("dynamic", "rewritten")
    onnx.save_model(model, name, save_as_external_data=True, all_tensors_to_one_file=True, location=os.path.basename(name) + ".data",
                    size_threshold=0)


def write(folder, name, make, shapes):
    torch.manual_seed(0)
    model = make()
    inputs = tuple(sample(shape, BATCH) for shape in shapes)
    model.eval()
    with torch.no_grad():
        model(*inputs)
    randomize(model)
    names = [f"x{k}" for k in range(len(inputs))] if len(inputs) > 1 else ["x"]
    with torch.no_grad():
        answers = model(*inputs)
    answers = answers if isinstance(answers, tuple) else (answers,)
    np.savez(f"{folder}/{name}.npz", **{n: x.numpy() for n, x in zip(names, inputs)})
    np.savez(f"{folder}/{name}.out.npz", **{f"out{k}": x.numpy() for k, x in enumerate(answers)})
    outputs = [f"out{k}" for k in range(len(answers))]
    for opset in OPSETS:
        for form in FORMS[:3]:
            if form != "dynamic" and opset != 17 or form == "norms" and not has_norms(model):
                continue
            path = f"{folder}/{name}.{opset}.{form}.onnx"
            fed = tuple(x[:1] for x in inputs) if form == "fixed" else inputs
            axes = None if form == "fixed" else {n: {0: "batch"} for n in names + outputs}
            training = torch.onnx.TrainingMode.PRESERVE if form == "norms" else torch.onnx.TrainingMode.EVAL
            try:
                torch.onnx.export(model, fed, path, opset_version=opset, input_names=names, output_names=outputs, dynamic_axes=axes,
                                  dynamo=False, training=training, do_constant_folding=form != "norms")
            except Exception as error:
                print(f"{name}.{opset}.{form}: {str(error).splitlines()[0]}")
                continue
            if form == "dynamic" and opset == 18:
                rewritten(path)


def has_norms(model):
    return any("BatchNorm" in type(module).__name__ for module in model.modules())


def main():
    folder, wanted = sys.argv[1], sys.argv[2:]
    os.makedirs(folder, exist_ok=True)
    warnings.simplefilter("ignore")
    for name, make, shapes in networks.NETWORKS + networks.PATTERNS:
        if not wanted or name in wanted:
            try:
                write(folder, name, make, shapes)
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error}")


main()
